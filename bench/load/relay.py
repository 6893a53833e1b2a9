"""Passes connections on, and counts the bytes of both directions."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final

from bench.processes import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_BYTES: Final = 1 << 18
_LOOK_S: Final = 0.1


class Relay:
    """Listens on a port of its own; a thread passes on what comes."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]
        self.passed_bytes = 0
        """In both directions, up to now."""
        self._others: dict[socket.socket, socket.socket] = {}
        """By one end of a connection the other one."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        self._ended.set()
        self._thread.join()
        self._selector.close()
        for end in (self._listening, *self._others):
            end.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(_LOOK_S):
                if not isinstance(key.fileobj, socket.socket):
                    continue
                if key.fileobj is self._listening:
                    self._accept()
                elif key.fileobj in self._others:  # else its other end was closed a moment ago
                    self._pass(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listening.accept()
        try:
            far = socket.create_connection((HOST, self._target))
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            self._others[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass(self, one: socket.socket) -> None:
        other, chunk = self._others[one], b""
        with contextlib.suppress(OSError):
            chunk = one.recv(_CHUNK_BYTES)
            self.passed_bytes += len(chunk)
            other.sendall(chunk)
        if not chunk:
            for end in (one, other):
                del self._others[end]
                self._selector.unregister(end)
                end.close()


@contextlib.contextmanager
def relaying(target: int) -> Iterator[Relay]:
    """Pass on what comes until the end of the block."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()
