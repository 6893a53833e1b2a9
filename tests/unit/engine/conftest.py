from __future__ import annotations

import asyncio
import bisect
import os
import shutil
import tempfile
import uuid
import zlib
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from grid_member.engine import LocalEngine, open_engine
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.forward import client, server, session
from grid_member.engine.jetstream import publisher
from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.local import deliveries
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replicated import making
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.server import config, process
from tests.unit.engine.backed_up import STRUCTURES, fill
from tests.unit.engine.cleaned import compact_always
from tests.unit.engine.drive import Driver, FixedStructures, HandClock
from tests.unit.engine.nats.served import Served
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from grid_member.engine.api import Structures
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.snapshot import Snapshot

IMPATIENCE_S = 0.01
LONG_S = 600.0
"""No test takes so long."""
KINDS = ("memory", "lmdb", "lmdb-volatile", "lmdb-sharded", "stream", "stream-durable",
         "stream-cleaned", "forwarded", "part")  # fmt: skip
OF_THREE = ("three", "three-durable")
HOST = "127.0.0.1"
MEMBERS = 3


class Bench:
    """Opens engines over one kind of log and stops what is left at the end."""

    asks = False
    """Whether the engine asks another one for what it is asked."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.structures = FixedStructures()
        self.clock = HandClock()
        self.shards = 1
        self._engines: list[LocalEngine] = []

    def make(self) -> LocalEngine:
        return open_engine(self.structures, self.directory, shards=self.shards, clock=self.clock)

    async def open(self) -> Driver:
        engine = self.make()
        assert not engine.ready
        await engine.start()
        self._engines.append(engine)
        return Driver(engine)

    def holding(self, driver: Driver) -> LocalEngine:
        """Return the engine that holds the data."""
        return driver.engine

    async def stop(self) -> None:
        for engine in self._engines:
            await engine.stop()


class HandEngine(ClusterEngine):
    """Goes by the clock that a test sets, as its records do."""

    def now_of(self, shard: Shard) -> int:
        return max(self._clock(), shard.state.timestamp_ms)


class StreamBench(Bench):
    """The same over streams: of a nats-server that is alone, which is quick to start."""

    engine: type[HandEngine] = HandEngine

    def make(self) -> LocalEngine:
        settings = ClusterSettings("dev", "m", 0, (("127.0.0.1", 0),), "grid", "pw",
                                   directory=self.directory)  # fmt: skip
        shards = ReplicatedShards(settings, shards=self.shards, time_of=lambda _: self.clock())
        return self.engine(self.structures, shards, self.clock)


class DatedClock(HandClock):
    """Knows what it showed at any time, so that all members date a record alike."""

    def __init__(self) -> None:
        self._turns: list[tuple[int, int]] = []
        super().__init__()

    def __setattr__(self, name: str, value: object) -> None:
        if name == "now_ms":
            assert isinstance(value, int)
            before = wall_clock_ms()
            while wall_clock_ms() == before:
                pass  # servers stamp in milliseconds: none is of two settings
            self._turns.append((wall_clock_ms(), value))
        super().__setattr__(name, value)

    def at(self, wall_ms: int) -> int:
        """Return what it showed when a server stamped a record."""
        turn = bisect.bisect_right(self._turns, wall_ms, key=itemgetter(0))
        return self._turns[max(turn - 1, 0)][1]


class ForwardedEngine(PartEngine):
    """Asks a member that holds the data, whose shards and connection it shares."""

    def __init__(self, host: HandEngine, shards: ReplicatedShards | None = None) -> None:
        super().__init__(host._structures, shards or host._cluster, host._clock)
        self.data = host

    @property
    def _lite(self) -> bool:
        return True

    @property
    def whole(self) -> bool:
        return False

    async def start(self, replayed: Callable[[], None] | None = None) -> None:
        await self.data.start(replayed)
        self._go_on()

    def _go_on(self) -> None:
        self._serve_others()
        self._replayed = True
        self._refusal = None

    async def stop(self) -> None:
        if self._forward_client is not None:
            await self._forward_client.stop()
        for polls in self._polls.values():
            polls.finish_waiting(None)
        await self._deliveries.drain()
        await self.data.stop()
        self._refusal = self.data._refusal

    def use_structures(self, structures: Structures) -> None:
        super().use_structures(structures)
        self.data.use_structures(structures)

    def now_of(self, shard: Shard) -> int:
        return self.data.now_of(shard)


class ForwardedBench(StreamBench):
    """The same through a member that holds nothing."""

    asks = True
    asking: type[ForwardedEngine] = ForwardedEngine

    def make(self) -> LocalEngine:
        host = super().make()
        assert isinstance(host, self.engine)
        return self.asking(host)

    def holding(self, driver: Driver) -> LocalEngine:
        assert isinstance(driver.engine, self.asking)
        return driver.engine.data


class SharingEngine(HandEngine):
    """Lets another engine hear of what comes into its shards."""

    other: PartOfEngine

    def _note_arrivals(self, shard: Shard, names: set[str]) -> None:
        super()._note_arrivals(shard, names)
        self.other._note_arrivals(shard, names)

    def _state_changed(self) -> None:
        super()._state_changed()
        self.other._state_changed()


class PartOfEngine(ForwardedEngine):
    """Has the first shard of a member that holds the data, and asks it for the rest."""

    def __init__(self, host: SharingEngine) -> None:
        shards = host._cluster
        super().__init__(host, ReplicatedShards(shards.settings, shards=shards._shards))
        host.other = self

    @property
    def _lite(self) -> bool:
        return False

    @property
    def shards(self) -> list[Shard]:
        return self.data.shards

    def _go_on(self) -> None:
        self._loop = asyncio.get_running_loop()
        here, shards = self._cluster, self.data._cluster
        here.durable, here.member, here._client = shards.durable[:1], uuid.uuid4(), shards.client
        assert not here.whole
        super()._go_on()

    def snapshot(self) -> list[Snapshot]:
        return self.data.snapshot()


class PartBench(ForwardedBench):
    """The same through a member that holds the first shard only."""

    engine = SharingEngine
    asking = PartOfEngine


class OnlyReaderLog(JetStreamLog):
    """Knows that its member alone is asked, which is exact then: ADR 0007."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **{**named, "has_other_readers": False})


class Bystander(HandEngine):
    """Is not asked, and removes nothing that expires.

    A clock that a test turns in no time would have it find idle what it is just being told was
    read, and of reads that are not worth a touch it does not hear at all: ADR 0007.
    """

    def _begin_expiry(self) -> None:
        pass


class ThreeBench(StreamBench):
    """The same over the streams of three members, each with a server; one of them is asked."""

    def __init__(self, directory: Path | None) -> None:
        super().__init__(directory)
        self.asked = 0
        self.clock = self._dated = DatedClock()
        self._ports = free_ports(MEMBERS)

    async def open(self) -> Driver:
        """Start all three; those that a test left running are stopped first."""
        await self.stop()
        self._engines = [self._member(number) for number in range(MEMBERS)]
        await asyncio.gather(*(engine.start() for engine in self._engines))
        # What the starts wrote is later for a test's idle entries than it was: ADR 0007.
        self.clock.advance(0.001)
        return Driver(self._engines[self.asked])

    async def stop(self) -> None:
        """Stop all at once: a member that stays without a majority would wait for one."""
        await asyncio.gather(*(engine.stop() for engine in self._engines))

    def _member(self, number: int) -> LocalEngine:
        name, directory = f"m{number}", self.directory
        settings = ClusterSettings(
            "dev", name, self._ports[number], tuple((HOST, port) for port in self._ports),
            "grid", "pw", host=HOST, directory=None if directory is None else directory / name,
        )  # fmt: skip
        shards = ReplicatedShards(settings, shards=self.shards, time_of=self._dated.at)
        engine = self.engine if number == self.asked else Bystander
        return engine(self.structures, shards, self.clock)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without others elects nobody, and waits for nobody."""

    async def meet(_: ClusterSettings) -> None:
        pass

    monkeypatch.setattr(config, "_cluster", lambda _: [])
    monkeypatch.setattr(process, "await_start", meet)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the contract over three members, too; others look for what members note themselves."""
    if "bench" in metafunc.fixturenames:
        contract = metafunc.module.__name__.rpartition(".")[2].startswith("test_contract")
        kinds = (*KINDS, *OF_THREE) if contract else KINDS
        metafunc.parametrize("bench", kinds, indirect=True)


@pytest.fixture
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    """Every log, and the shards of structures that no log keeps."""
    kinds = {"memory": Bench, "lmdb": Bench, "stream": StreamBench, "forwarded": ForwardedBench,
             "part": PartBench, "three": ThreeBench}  # fmt: skip
    kind = kinds[request.param.partition("-")[0]]
    in_memory = {"memory", "stream", "forwarded", "part", "three"}
    bench = kind(None if request.param in in_memory else tmp_path)
    if isinstance(bench, ThreeBench):
        # Another one for another test, as the one that leads is any of them.
        bench.asked = zlib.crc32(request.node.name.encode()) % MEMBERS
        monkeypatch.setattr(making, "JetStreamLog", OnlyReaderLog)
    else:
        request.getfixturevalue("alone")
    if request.param == "lmdb-volatile":
        bench.structures = FixedStructures(persistent=False)
    if request.param in {"lmdb-sharded", "forwarded", "part", *OF_THREE}:
        bench.shards = 3
    if request.param == "stream-cleaned":
        compact_always(monkeypatch)
    yield bench
    await bench.stop()


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.stop()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody will confirm what was polled."""
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", IMPATIENCE_S)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let neither members nor logs refuse what waits while this process stands still.

    A member that asks and its forward server are in one process here: a collection of much garbage
    on a machine that does much else makes both stand still for seconds.
    """
    monkeypatch.setattr(client, "PATIENCE_S", LONG_S)
    monkeypatch.setattr(session, "SILENT_S", LONG_S)
    monkeypatch.setattr(server, "STALL_S", LONG_S)
    monkeypatch.setattr(server, "SESSION_SILENT_S", LONG_S)
    monkeypatch.setattr(publisher, "GIVE_UP_S", LONG_S)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """Starts on what is left need not sync for real."""
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as place:
        yield Path(place)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for `plain` to copy: compiled, its engine waits at its end for what was polled."""
    place = tmp_path_factory.mktemp("engine") / "plain"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "DRAIN_TIMEOUT_S", IMPATIENCE_S)
        engine = open_engine(STRUCTURES, place, open_log=partial(LmdbLog, wal_bytes=0))
        await engine.start()
        await fill(Driver(engine), rounds=25)
        await engine.stop()
    return place


@pytest.fixture
def plain(plain_once: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of records only, all of them in LMDB and nowhere else."""
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", IMPATIENCE_S)
    shutil.copytree(plain_once, memory / "plain")
    return memory / "plain"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    server.start()
    yield server
    server.kill()
