"""kopf's settings: every request and watch has an end, kopf itself writes nothing."""

from __future__ import annotations

import logging
from typing import Final

import kopf

from grid_operator.api.names import CLUSTER_LABEL
from grid_operator.ports.kube import LABELLED_KINDS

WATCH_SERVER_TIMEOUT_S: Final = 240
"""The API server ends a watch after this; kopf begins the next one where it ended. An integer: the
API server refuses `240.0`."""
WATCH_CLIENT_TIMEOUT_S: Final = 300
"""A watch that the server did not end is dead: silent dead watches are kopf's best-known fault."""
WATCH_INACTIVITY_TIMEOUT_S: Final = 90
"""Bookmarks come about every minute: without any, the watch is dead."""
CONNECT_TIMEOUT_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 30.0
LIST_PAGE_SIZE: Final = 500
EVENT_WORKERS: Final = 16


def make_settings(
    watch_inactivity_s: float = WATCH_INACTIVITY_TIMEOUT_S,
) -> kopf.OperatorSettings:
    """Return the settings for an operator that only listens through kopf.

    Args:
        watch_inactivity_s: After so many seconds without anything a watch is begun anew.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.ERROR
    settings.peering.standalone = True
    settings.scanning.disabled = True  # namespaced rights are enough
    settings.queueing.worker_limit = EVENT_WORKERS
    settings.queueing.idle_timeout = 1.0
    settings.networking.request_timeout = REQUEST_TIMEOUT_S
    settings.networking.connect_timeout = CONNECT_TIMEOUT_S
    settings.watching.server_timeout = WATCH_SERVER_TIMEOUT_S
    settings.watching.client_timeout = WATCH_CLIENT_TIMEOUT_S
    settings.watching.connect_timeout = CONNECT_TIMEOUT_S
    settings.watching.inactivity_timeout = watch_inactivity_s
    settings.watching.chunk_size = LIST_PAGE_SIZE
    for api_version, _, plural in LABELLED_KINDS:
        group, _, version = api_version.rpartition("/")
        settings.watching.label_selectors[group, version, plural] = CLUSTER_LABEL
    return settings
