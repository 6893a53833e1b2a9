"""Ports for servers of tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
OWN_PORTS: Final = (15_000, 32_000)
"""Below those that the kernel gives to connections, of which one may come at any moment."""
MOST_HELD: Final = 2_000
"""How many a process keeps: more than tests use at a time, less than a quarter of all."""


class PortsOfAll:
    """Gives out ports that no other process of tests has been given.

    A server that starts, or stands still between two starts, does not listen on its port: only
    what is written down keeps others from it. Each port is a byte of a file of this machine, and
    the lock on it ends with the process that holds it.
    """

    def __init__(self, file: Path, ports: tuple[int, int] = OWN_PORTS) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ports = ports
        self._held: deque[int] = deque()
        self._dice = random.SystemRandom()  # other tests that run now throw their own

    def take(self, count: int) -> list[int]:
        """Return ports that nobody listens on and that stay this process's own."""
        while len(self._held) + count > MOST_HELD:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._held.popleft())
        found: list[int] = []
        while len(found) < count:
            port = self._dice.randrange(*self._ports)
            if port not in self._held and self._locked(port) and _is_free(port):
                self._held.append(port)
                found.append(port)
        return found

    def take_run(self, count: int, offset: int) -> int:
        """Return the first of so many ports in a row; those by offset higher are free, too.

        They stay this process's own for good.
        """
        while True:
            first = self._dice.randrange(self._ports[0], self._ports[1] - count - offset)
            wanted = [first + n + more for more in (0, offset) for n in range(count)]
            taken = [
                port
                for port in wanted
                if port not in self._held and self._locked(port) and _is_free(port)
            ]
            if taken == wanted:
                return first
            for port in taken:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, port)

    def close(self) -> None:
        """Give all of them back."""
        os.close(self._file)

    def _locked(self, port: int) -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            return True
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as one, contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((HOST, port))
        return True
    return False


_all: Final = PortsOfAll(Path(tempfile.gettempdir()) / f"grid-test-ports-{os.getuid()}")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, and that no other test is given while this one runs."""
    return _all.take(count)


def free_run(count: int, offset: int) -> int:
    """Return the first of so many free ports in a row; those by offset higher are free, too."""
    return _all.take_run(count, offset)
