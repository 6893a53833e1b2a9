"""The file in which a nats-server says where it takes clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grid_member.engine.server.config import PORTS_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path


def remove_ports(runtime: Path) -> None:
    """Remove what a former server wrote."""
    for path in runtime.glob(f"*{PORTS_SUFFIX}"):
        path.unlink()


def client_address(runtime: Path) -> tuple[str, int] | None:
    """Return the address in the server's file of ports, None while it is not written."""
    try:
        path = next(runtime.glob(f"*{PORTS_SUFFIX}"))
        url = json.loads(path.read_bytes())["nats"][0]
        host, port = str(url).removeprefix("nats://").rsplit(":", 1)
        return host, int(port)
    except (StopIteration, OSError, ValueError, KeyError, IndexError, TypeError):
        return None
