"""Items of polls that waited where the kernel does not tell, and connections that end."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.api import Item
from grid_member.http.wire import receipts
from grid_member.http.wire.receipts import Progress, Receipts, progress
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.engine.api import Engine


class Landings:
    """Notes what becomes of items."""

    def __init__(self) -> None:
        self.confirmed: list[int] = []
        self.returned: list[int] = []

    def queue_confirm(self, item: Item) -> None:
        self.confirmed.append(item.item_id)

    def queue_return(self, item: Item) -> None:
        self.returned.append(item.item_id)

    @property
    def engine(self) -> Engine:
        return cast("Engine", self)


class Transport(asyncio.Transport):
    """Has a socket, and can be aborted."""

    def __init__(self, sock: object) -> None:
        super().__init__({"socket": sock, "peername": ("192.0.2.1", 1)})
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Old:
    """A socket of a kernel that knows less."""

    def getsockopt(self, *_: int) -> bytes:
        return bytes(104)


@pytest.fixture
def unconnected() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        yield made


def item(number: int) -> Item:
    return Item(b"value", None, "default", number, 7)


async def test_where_the_kernel_does_not_tell_items_are_confirmed(
    unconnected: socket.socket,
) -> None:
    for sock in (unconnected, Old(), None):
        landings, transport = Landings(), Transport(sock)
        assert progress(transport) is None
        Receipts(60).expect(transport, item(1), landings.engine)
        assert landings.confirmed == [1]


async def test_each_item_waits_for_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [Progress(100, 0, in_flight=True)]
    monkeypatch.setattr(receipts, "progress", lambda _: told[0])
    landings, transport, made = Landings(), Transport(None), Receipts(60)
    made.expect(transport, item(1), landings.engine)
    told[0] = Progress(200, 50, in_flight=True)
    made.expect(transport, item(2), landings.engine)
    made.look(transport)
    assert landings.confirmed == []
    told[0] = Progress(300, 150, in_flight=True)
    made.look(transport)
    assert landings.confirmed == [1]
    made.drop(transport)
    made.drop(transport)
    assert (landings.confirmed, landings.returned) == ([1], [2])


async def test_a_connection_without_progress_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "progress", lambda _: Progress(100, 0, in_flight=True))
    monkeypatch.setattr(receipts, "SILENCE_S", 0.0)
    landings, transport, made = Landings(), Transport(None), Receipts(60)
    made.expect(transport, item(1), landings.engine)
    await until(lambda: transport.aborted)
    assert landings.returned == []
    made.drop(transport)
    assert landings.returned == [1]
