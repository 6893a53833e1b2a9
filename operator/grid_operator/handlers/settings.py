"""kopf's settings: it sends nothing to the API server."""

from __future__ import annotations

import logging

import kopf


def make_settings() -> kopf.OperatorSettings:
    """Return the settings for an operator whose life kopf runs, and nothing else."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.ERROR
    settings.peering.standalone = True
    settings.scanning.disabled = True  # namespaced rights are enough
    return settings
