"""Whether clients got the items that they had waited for: their kernels acknowledge what they have.

    item sent ─▶ acknowledged: confirmed
              └▶ connection lost, or nothing acknowledged for SILENCE_S: back where it stood

A machine that vanishes, or a firewall that forgets a connection, ends nothing: what is written to
such a connection goes to the kernel and no further. A client that has just sent its request is
there; one whose poll has waited for a while may not be.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.security.remotes import remote_of
from grid_member.telemetry.logs import repeatable

if TYPE_CHECKING:
    from grid_member.engine.api import Engine, Item

SILENCE_S: Final = 40.0
"""How long what was sent may stay unacknowledged; then the connection is aborted."""
FIRST_LOOK_S: Final = 0.005
"""Until the first look for an acknowledgement; the times between looks double."""
LAST_LOOK_S: Final = 1.0
_INFO_BYTES: Final = 256
_UNACKED: Final = struct.Struct("=I"), 24
_ACKED: Final = struct.Struct("=Q"), 120
_UNSENT: Final = struct.Struct("=I"), 144
_SENT: Final = struct.Struct("=QQ"), 200
"""Bytes sent, and those of them that were sent again: since Linux 4.19."""
_KNOWN_BYTES: Final = 216
_log: Final = logging.getLogger("grid.http")


class Progress(NamedTuple):
    """What the kernel knows of one direction of a connection: tcp(7), `struct tcp_info`."""

    written_bytes: int
    """Handed to it since the beginning."""
    acknowledged_bytes: int
    in_flight: bool
    """Whether it has sent what is not acknowledged; else the client has no room."""


def progress(transport: asyncio.BaseTransport) -> Progress | None:
    """Return how far the client has what was written; None where the kernel does not tell."""
    try:
        ours = transport.get_extra_info("socket")
        info: bytes = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except (OSError, AttributeError):
        return None
    if len(info) < _KNOWN_BYTES:
        return None
    (unacked,), (acked,), (unsent,), (sent, again) = (
        fields.unpack_from(info, at) for fields, at in (_UNACKED, _ACKED, _UNSENT, _SENT)
    )
    return Progress(sent - again + unsent, acked, unacked > 0)


class Receipt:
    """One item that was sent."""

    __slots__ = ("acknowledged_bytes", "engine", "item", "look_s", "needed_bytes", "since_s")

    def __init__(self, item: Item, engine: Engine, found: Progress, now_s: float) -> None:
        self.item = item
        self.engine = engine
        self.needed_bytes = found.written_bytes
        self.acknowledged_bytes = found.acknowledged_bytes
        self.since_s = now_s
        """When the client acknowledged anything last, or the item was sent."""
        self.look_s = FIRST_LOOK_S


class Receipts:
    """The items that were sent on the connections of a listener and are not acknowledged."""

    def __init__(self, unread_timeout_s: float) -> None:
        """Begin with none.

        Args:
            unread_timeout_s: how long a client that is there may have no room.
        """
        self._unread_timeout_s = unread_timeout_s
        self._open: dict[asyncio.Transport, list[Receipt]] = {}
        self._waiters: dict[asyncio.Transport, list[asyncio.Future[None]]] = {}

    def expect(self, transport: asyncio.Transport, item: Item, engine: Engine) -> None:
        """Confirm an item that the kernel has once the client's has it, or else return it."""
        found = progress(transport)
        if found is None or found.acknowledged_bytes >= found.written_bytes:
            engine.queue_confirm(item)
            return
        loop = asyncio.get_running_loop()
        receipt = Receipt(item, engine, found, loop.time())
        self._open.setdefault(transport, []).append(receipt)
        loop.call_later(receipt.look_s, self._follow, transport, receipt)

    def look(self, transport: asyncio.Transport) -> None:
        """Confirm what is acknowledged by now."""
        for receipt in list(self._open.get(transport, ())):
            self._confirm(transport, receipt)

    def drop(self, transport: asyncio.Transport) -> None:
        """Return what was not acknowledged; each item goes where it stood.

        The kernel still tells how far the client had got.
        """
        self.look(transport)
        for receipt in self._open.pop(transport, ()):
            receipt.engine.queue_return(receipt.item)
        self._settle(transport)

    async def wait_settled(self, transport: asyncio.Transport | None) -> None:
        """Return when the client has acknowledged everything, or the connection is lost."""
        if transport is not None and transport in self._open:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(transport, []).append(waiter)
            await waiter

    def _settle(self, transport: asyncio.Transport) -> None:
        for waiter in self._waiters.pop(transport, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _confirm(self, transport: asyncio.Transport, receipt: Receipt) -> bool:
        found = progress(transport)
        if found is None:
            return False  # it is being closed
        if found.acknowledged_bytes < receipt.needed_bytes:
            if found.acknowledged_bytes > receipt.acknowledged_bytes:
                receipt.acknowledged_bytes = found.acknowledged_bytes
                receipt.since_s = asyncio.get_running_loop().time()
            return False
        receipts = self._open[transport]
        receipts.remove(receipt)
        if not receipts:
            del self._open[transport]
            self._settle(transport)
        receipt.engine.queue_confirm(receipt.item)
        return True

    def _follow(self, transport: asyncio.Transport, receipt: Receipt) -> None:
        if receipt not in self._open.get(transport, ()) or self._confirm(transport, receipt):
            return
        loop = asyncio.get_running_loop()
        if loop.time() - receipt.since_s >= self._patience_s(transport):
            lost = "client acknowledges nothing: its item returns"
            repeatable(_log, logging.INFO, lost, remote=remote_of(transport))
            transport.abort()
            return
        receipt.look_s = min(2 * receipt.look_s, LAST_LOOK_S)
        loop.call_later(receipt.look_s, self._follow, transport, receipt)

    def _patience_s(self, transport: asyncio.Transport) -> float:
        found = progress(transport)
        there = found is not None and not found.in_flight
        return self._unread_timeout_s if there else SILENCE_S
