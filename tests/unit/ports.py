"""Ports for servers of tests."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
OWN_PORTS: Final = (15_000, 32_000)
"""Below those that the kernel gives to connections, of which one may come at any moment."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    found: list[int] = []
    dice = random.SystemRandom()  # other tests that run now throw their own
    with contextlib.ExitStack() as held:
        while len(found) < count:
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                one.bind((HOST, dice.randrange(*OWN_PORTS)))
                found.append(one.getsockname()[1])
        return found
