"""Synchronisations and consistency checks: what is stored of them, and who carries them out."""
