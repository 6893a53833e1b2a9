"""Logs in memory that servers lost: who has what, and who writes it back."""
