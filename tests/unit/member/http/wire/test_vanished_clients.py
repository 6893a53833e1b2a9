"""Clients that vanish: no end, no reset, and what is sent to them is never acknowledged."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from grid_member.http.routes import data
from grid_member.http.server import binding
from grid_member.http.wire import receipts, watch
from tests.unit.member.http.routes.test_polls import connections, in_progress
from tests.unit.member.processes.namespaces import Network, needs_namespaces
from tests.unit.member.running import RunningMember, configuration
from tests.unit.member.security.certificates import Authority
from tests.unit.member.security.test_listeners import tls_of
from tests.unit.member.wire import Wire, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

pytestmark = needs_namespaces
QUEUE = "/grid/rest/queues/default"
POLL = request("DELETE", f"{QUEUE}/300")


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Two machines for clients."""
    with Network(2) as made:
        yield made


@pytest.fixture
async def start(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[str], Awaitable[RunningMember]]]:
    """Give a function that starts a member.

    It gives up clients after a second, and takes every poll for one that waited.
    """
    monkeypatch.setattr(watch, "PERIOD_S", 0.02)
    monkeypatch.setattr(data, "PERIOD_S", 0.0)
    monkeypatch.setattr(receipts, "SILENCE_S", 1.0)
    for name in ("IDLE_S", "INTERVAL_S", "PROBES"):
        monkeypatch.setattr(binding, f"KEEPALIVE_{name}", 1)
    started: list[RunningMember] = []

    async def begin(text: str) -> RunningMember:
        started.append(RunningMember(text.replace("127.0.0.1", network.near), {}))
        return await started[-1].start()

    yield begin
    for machine in (0, 1):
        network.heal(machine)
    for member in started:
        await member.stop()


@pytest.fixture(params=["fast-path", "aiohttp"])
async def member(
    request: pytest.FixtureRequest, start: Callable[[str], Awaitable[RunningMember]]
) -> RunningMember:
    fast_path = "" if request.param == "fast-path" else "  http: {lane: {enabled: false}}\n"
    return await start(configuration(extra=fast_path))


async def polling(
    network: Network,
    member: RunningMember,
    count: int,
    buffer_bytes: int | None = None,
    poll: bytes = POLL,
) -> list[socket.socket]:
    """Return connections from the first machine whose polls wait."""
    address = network.near, member.port
    clients = [network.connect(0, address, buffer_bytes) for _ in range(count)]
    for client in clients:
        client.sendall(poll)
    await until(lambda: in_progress(member) == count)
    await until(lambda: all(getattr(one, "_poll_waited", True) for one in connections(member)))
    return clients


def in_flight(member: RunningMember) -> int:
    """Return how many items are neither confirmed nor returned."""
    shard = member.engine._queue_shard("default")  # type: ignore[attr-defined]
    queue = shard.state.queues.by_name.get("default")
    return 0 if queue is None else len(queue.in_flight)


async def offer(wire: Wire, item: bytes = b"item") -> None:
    assert (await wire.call("POST", QUEUE, item)).status == 200


async def is_confirmed(member: RunningMember, wire: Wire) -> None:
    """Wait until no item is in flight; it has not come back."""
    await until(lambda: in_flight(member) == 0)
    assert (await wire.call("DELETE", f"{QUEUE}/0")).status == 204


async def is_given_back(member: RunningMember, wire: Wire) -> None:
    """Wait until the item was in flight and is not any more; the next poll takes it."""
    await until(lambda: in_flight(member) == 1)
    await until(lambda: in_flight(member) == 0)
    assert (await wire.call("DELETE", f"{QUEUE}/0")).body == b"item"


async def take(client: socket.socket, count: int) -> None:
    """Read an answer whose item has so many bytes."""
    received = 0
    while received <= count:
        received += len(await asyncio.to_thread(client.recv, 1 << 20))


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def acknowledge_late(client: socket.socket) -> None:
    """Acknowledge when the answer is written already, as on a line that takes its time."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


async def test_what_is_sent_to_dead_connections_returns_in_its_order(
    network: Network, member: RunningMember
) -> None:
    dead = await polling(network, member, 3)
    network.silence(0)
    async with await Wire.connect(member.port, network.near) as wire:
        for n in range(5):
            await offer(wire, b"%d" % n)
        await until(lambda: in_flight(member) == 3)
        await until(lambda: in_flight(member) == 0)
        got = [(await wire.call("DELETE", f"{QUEUE}/0")).body for _ in range(5)]
        assert got == [b"0", b"1", b"2", b"3", b"4"]
        assert (await wire.call("DELETE", f"{QUEUE}/0")).status == 204
    for client in dead:
        client.close()


async def test_dead_polls_are_found_without_an_item(
    network: Network, member: RunningMember
) -> None:
    (dead,) = await polling(network, member, 1)
    network.silence(0)
    await until(lambda: not connections(member))
    dead.close()


async def test_who_waits_behind_a_dead_poll_gets_its_item(
    network: Network, member: RunningMember
) -> None:
    (dead,) = await polling(network, member, 1)
    network.silence(0)
    alive = network.connect(1, (network.near, member.port))
    alive.sendall(POLL)
    await until(lambda: in_progress(member) == 2)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
    answer = await asyncio.to_thread(alive.recv, 1000)
    assert answer.endswith(b"item")
    await until(lambda: in_flight(member) == 0)
    for client in (dead, alive):
        client.close()


async def test_what_is_acknowledged_is_confirmed_though_the_client_never_reads_it(
    network: Network, member: RunningMember
) -> None:
    (client,) = await polling(network, member, 1)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
        await until(lambda: in_flight(member) == 0)
        reset(client)
        await until(lambda: len(connections(member)) == 1)
        assert (await wire.call("DELETE", f"{QUEUE}/0")).status == 204


async def test_a_client_that_takes_its_item_and_closes_has_it(
    network: Network, member: RunningMember
) -> None:
    for _ in range(20):
        (client,) = await polling(network, member, 1)
        async with await Wire.connect(member.port, network.near) as wire:
            await offer(wire)
            assert (await asyncio.to_thread(client.recv, 1000)).endswith(b"item")
            client.close()
            await is_confirmed(member, wire)
        await until(lambda: not connections(member))


async def test_a_client_that_acknowledges_its_item_and_resets_has_it(
    network: Network, member: RunningMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "FIRST_LOOK_S", 60.0)
    (client,) = await polling(network, member, 1)
    acknowledge_late(client)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
        (transport,) = await the_waiting(member)
        await until(lambda: acknowledged(transport))
        reset(client)
        await is_confirmed(member, wire)


@pytest.mark.parametrize(
    "poll",
    [POLL.replace(b"1.1", b"1.0", 1), POLL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")],
)
async def test_a_connection_that_ends_with_its_answer_stays_until_that_is_acknowledged(
    network: Network, member: RunningMember, poll: bytes
) -> None:
    (client,) = await polling(network, member, 1, poll=poll)
    acknowledge_late(client)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
        received = b""
        while piece := await asyncio.to_thread(client.recv, 1000):
            received += piece
        assert received.endswith(b"item")
        await is_confirmed(member, wire)
    client.close()


async def test_a_connection_that_ends_with_its_answer_and_is_dead_is_given_up(
    network: Network, member: RunningMember
) -> None:
    (dead,) = await polling(network, member, 1, poll=POLL.replace(b"1.1", b"1.0", 1))
    network.silence(0)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
        await is_given_back(member, wire)
    await until(lambda: not connections(member))
    dead.close()


async def test_a_connection_that_heals_in_time_gets_its_item(
    network: Network, member: RunningMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "SILENCE_S", 60.0)
    (client,) = await polling(network, member, 1)
    network.silence(0)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire)
        await until(lambda: in_flight(member) == 1)
        network.heal(0)
        assert (await asyncio.to_thread(client.recv, 1000)).endswith(b"item")
        await is_confirmed(member, wire)
    client.close()


async def test_a_large_item_goes_on_while_it_is_acknowledged(
    network: Network, member: RunningMember
) -> None:
    (client,) = await polling(network, member, 1)
    item = bytes(4 << 20)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire, item)
        await take(client, len(item))
        await is_confirmed(member, wire)
    client.close()


async def test_a_client_that_is_there_and_does_not_read_keeps_its_item(
    network: Network, member: RunningMember
) -> None:
    (client,) = await polling(network, member, 1, buffer_bytes=4096)
    item = bytes(20_000)
    async with await Wire.connect(member.port, network.near) as wire:
        await offer(wire, item)
        await until(lambda: in_flight(member) == 1)
        (transport,) = await the_waiting(member)
        # Longer than a client may be silent while something is on its way to it.
        ends_s = asyncio.get_running_loop().time() + 2 * receipts.SILENCE_S
        await until(lambda: asyncio.get_running_loop().time() >= ends_s)
        assert in_flight(member) == 1
        found = receipts.progress(transport)
        assert found is not None
        assert not found.in_flight
        await take(client, len(item))
        await is_confirmed(member, wire)
    client.close()


async def the_waiting(member: RunningMember) -> list[asyncio.Transport]:
    """Return the connections whose items are not acknowledged, once there are any."""
    found = member.listeners._open[0].factory.context.receipts._open
    await until(lambda: found)
    return list(found)


def acknowledged(transport: asyncio.Transport) -> bool:
    """Tell whether the client's kernel has all that was written."""
    found = receipts.progress(transport)
    return found is not None and found.acknowledged_bytes >= found.written_bytes


async def test_the_same_over_tls(
    network: Network, start: Callable[[str], Awaitable[RunningMember]], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    tls = f"\n    {tls_of(authority)}\n    rest-api:"
    member = await start(configuration().replace("\n    rest-api:", tls, 1))
    context = authority.client()
    context.check_hostname = False
    raw = network.connect(0, (network.near, member.port))
    dead = await asyncio.to_thread(context.wrap_socket, raw)
    dead.sendall(POLL)
    await until(lambda: in_progress(member) == 1)
    await until(lambda: all(getattr(one, "_poll_waited", False) for one in connections(member)))
    network.silence(0)
    async with await Wire.connect(member.port, network.near, context=context) as wire:
        await offer(wire)
        await is_given_back(member, wire)
    dead.close()
