"""Runs a member whose nats-server syncs now and then, not before it answers: a planted fault.

    python -m tests.unit.member.processes.faults.unsynced INTERPRETER -m grid_member ARGUMENT…

It is put before the command of a member, and takes its place.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from unittest import mock

from grid_member.__main__ import main
from grid_member.compiled import VARIABLE
from grid_member.engine.server import process as server_module
from grid_member.engine.server.config import server_config

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.server.config import ServerPlaces

_PROMISED = "sync_interval: always"
_PLANTED = 'sync_interval: "2m"'
"""As nats-server has it by default."""


def _unsynced_config(settings: ClusterSettings, server_name: str, places: ServerPlaces) -> str:
    text = server_config(settings, server_name, places)
    assert _PROMISED in text
    return text.replace(_PROMISED, _PLANTED)


if __name__ == "__main__":
    os.environ[VARIABLE] = "off"  # what is compiled cannot be patched
    with mock.patch.object(server_module, "server_config", _unsynced_config):
        sys.exit(main(sys.argv[4:]))
