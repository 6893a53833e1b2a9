"""Promise: a batch is answered when all of it is merged, and refused by map or as a whole."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Reason, Refused
from grid_member.engine.wan.agreement import Agreement
from grid_member.engine.wan.changes import Change, MergeResult
from grid_member.telemetry.repeats import FIELDS
from grid_member.wan.answers import MapAnswer
from grid_member.wan.figures import MAX_SOURCES, WanFigures
from grid_member.wan.hello import Began, Hello
from grid_member.wan.members.requests import RequestKind
from grid_member.wan.members.sources import StoredSources
from grid_member.wan.pacing import Pacer
from grid_member.wan.ports import BusyError, ConflictError
from grid_member.wan.protocol import ProtocolError, seal
from grid_member.wan.receiver import (
    KEPT,
    MAX_PASSED_ON,
    MAX_WAITING_MERGES,
    ClusterFacts,
    PassOn,
    Receiver,
    ReceiverSettings,
    SourceNames,
)
from tests.unit.member.wan.batches import HEADER, OTHER, SOURCE, TARGET, body, clear, put, removal
from tests.unit.member.wan.members.test_sharing import FakeStore
from tests.unit.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done
    from grid_member.engine.wan.agreement import MergePolicy
    from grid_member.wan.comparison.buckets import ComparedMap

SETTINGS = ReceiverSettings("london", "member", "0.2.0", 64, 1000, ("tokyo",))
HELLO = Hello((1,), "tokyo", SOURCE, "london", "r", "p", "uuid", "0.2.0", Began.EMPTY)


class FakeEngine:
    """Merges when it is told to."""

    def __init__(self) -> None:
        self.ready = True
        self.agreement: Agreement | None = Agreement(1, TARGET, (), (), 0, 0, 60_000)
        self.merged: list[tuple[Change, Done[MergeResult]]] = []
        self.refusals: dict[str, Refused] = {}
        """By map."""
        self.holds = False
        self.result = MergeResult.TAKEN

    def merge(self, change: Change, policy: MergePolicy, done: Done[MergeResult]) -> None:
        self.merged.append((change, done))
        if not self.holds:
            self.answer(len(self.merged) - 1)

    def compared(self, name: str) -> ComparedMap:
        raise AssertionError(f"nobody compares {name}")

    def answer(self, place: int) -> None:
        change, done = self.merged[place]
        done(self.refusals.get(change.name, self.result))


def receiver(
    engine: FakeEngine,
    figures: WanFigures | None = None,
    version: str | None = None,
    replica: PassOn | None = None,
) -> Receiver:
    facts = ClusterFacts(
        lambda name: name != "unknown",
        lambda: version,
        lambda _: ("orders",),
        replica=lambda: replica,
    )
    return Receiver(engine, SETTINGS, facts, figures or WanFigures(), Pacer(time.monotonic))


async def turn_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds, and look at each turn."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - each turn counts
            await asyncio.sleep(0)


async def test_it_answers_when_all_is_committed() -> None:
    engine, figures = FakeEngine(), WanFigures()
    engine.holds = True
    target = receiver(engine, figures)
    target.greet(HELLO)
    batch = [put("orders", "a", 1), removal("people", "b", 2), clear("orders", 3)]
    taking = asyncio.create_task(target.take(seal(body(*batch))))
    await turn_until(lambda: len(engine.merged) == 3)
    for place in (2, 0, 1):
        await asyncio.sleep(0)
        assert not taking.done()
        assert target.waiting
        engine.answer(place)
    assert await taking == bytes((0, 0))
    assert not target.waiting
    assert [change for change, _ in engine.merged] == batch
    assert figures.received == {"tokyo": Counter(taken=3)}


async def test_ambiguous_changes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    engine, figures = FakeEngine(), WanFigures()
    engine.result = MergeResult.AMBIGUOUS
    target = receiver(engine, figures)
    target.greet(HELLO)
    await target.take(seal(body(put("orders", "a", 1), put("orders", "b", 2))))
    (record,) = (each for each in caplog.records if each.message == KEPT)
    assert vars(record)[FIELDS] == {"source": "tokyo", "entries": 2}
    assert figures.received == {"tokyo": Counter(ambiguous=2)}


async def test_maps_are_refused_whole_and_others_are_taken() -> None:
    engine, figures = FakeEngine(), WanFigures()
    engine.refusals = {"ahead": Refused(Reason.CLOCK_AHEAD, "set the clocks")}
    target = receiver(engine, figures)
    target.greet(HELLO)
    batch = [
        *(put("fits", "a", 1), put("large", "b", 2), put("large", "c", 3, b"x" * 1001)),
        *(put("long", "ü" * 33, 4), put("unknown", "d", 5), put("ahead", "e", 6)),
    ]
    codes = await target.take(seal(body(*batch)))
    large, gone, ahead = MapAnswer.TOO_LARGE, MapAnswer.NOT_CONFIGURED, MapAnswer.CLOCK_AHEAD
    assert codes == bytes((0, large, large, gone, ahead))
    assert [change.name for change, _ in engine.merged] == ["fits", "ahead"]
    assert figures.received["tokyo"] == {"taken": 1, "refused": 5}


@pytest.mark.parametrize(
    "reason", [Reason.PASSIVE, Reason.UNAVAILABLE, Reason.OVERLOADED, Reason.CLOSING]
)
async def test_what_may_be_taken_later_is_asked_for_again(reason: Reason) -> None:
    engine = FakeEngine()
    engine.refusals = {"people": Refused(reason, "why")}
    with pytest.raises(BusyError, match="why"):
        await receiver(engine).take(seal(body(put("orders", "a", 1), put("people", "b", 2))))


async def test_a_member_that_lacks_shards_passes_batches_on() -> None:
    engine, passed, go = FakeEngine(), list[bytes](), asyncio.Event()

    async def replica(kind: RequestKind, data: bytes) -> bytes:
        assert kind is RequestKind.CHANGES
        passed.append(data)
        await go.wait()
        return bytes((0, 3))

    target = receiver(engine, replica=replica)
    assert target.greet(HELLO).cluster_id == TARGET
    batch = seal(body(put("orders", "a", 1), put("people", "b", 2)))
    taking = [asyncio.create_task(target.take(batch)) for _ in range(MAX_PASSED_ON)]
    await turn_until(lambda: len(passed) == MAX_PASSED_ON)
    with pytest.raises(BusyError):
        await target.take(batch)
    go.set()
    assert set(await asyncio.gather(*taking)) == {bytes((0, 3))}
    assert passed[0] == batch
    assert not engine.merged
    assert await target.take(batch) == bytes((0, 3))


async def test_a_member_that_lacks_shards_passes_questions_on() -> None:
    async def replica(kind: RequestKind, data: bytes) -> bytes:
        return kind.name.encode() + data

    # The engine of this member fails when it is to compare a map.
    target = receiver(FakeEngine(), replica=replica)
    assert await target.digests(b"1") == b"DIGESTS1"
    assert await target.keys(b"2") == b"KEYS2"


async def test_nothing_is_taken_while_many_merges_wait() -> None:
    engine = FakeEngine()
    engine.holds = True
    target = receiver(engine)
    changes = [put("orders", str(number), 1) for number in range(MAX_WAITING_MERGES + 1)]
    taking = asyncio.create_task(target.take(seal(body(*changes))))
    await turn_until(lambda: len(engine.merged) == len(changes))
    with pytest.raises(BusyError, match="too many merges"):
        await target.take(seal(body(put("orders", "a", 1))))
    engine.answer(0)
    engine.holds = False
    assert await target.take(seal(body(put("orders", "a", 1)))) == b"\x00"
    for place in range(1, len(changes)):
        engine.answer(place)
    assert await taking == b"\x00"


async def test_a_batch_counts_whole_before_all_of_it_is_merged() -> None:
    engine = FakeEngine()
    engine.holds = True
    target = receiver(engine)
    changes = [put("orders", str(number), 1) for number in range(MAX_WAITING_MERGES + 1)]
    taking = asyncio.create_task(target.take(seal(body(*changes))))
    await turn_until(lambda: bool(engine.merged))
    assert len(engine.merged) < len(changes)
    with pytest.raises(BusyError, match="too many merges"):
        await target.take(seal(body(put("orders", "a", 1))))
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    for place in range(len(engine.merged)):
        engine.answer(place)
    assert not target.waiting


async def test_a_client_that_leaves_leaves_nothing_behind() -> None:
    engine = FakeEngine()
    engine.holds = True
    target = receiver(engine)
    taking = asyncio.create_task(target.take(seal(body(put("orders", "a", 1)))))
    await turn_until(lambda: bool(engine.merged))
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    engine.answer(0)
    assert not target.waiting


async def test_a_batch_for_or_from_the_wrong_cluster_is_refused() -> None:
    target = receiver(FakeEngine())
    with pytest.raises(ConflictError, match="for another cluster"):
        await target.take(seal(body(header=HEADER._replace(target=bytes(16)))))
    with pytest.raises(ConflictError, match="this cluster itself"):
        await target.take(seal(body(header=HEADER._replace(source=TARGET))))
    with pytest.raises(ProtocolError):
        await target.take(b"no batch")


@pytest.mark.parametrize("passed", [(), (OTHER,)])
async def test_a_batch_with_a_change_that_has_not_passed_its_source_is_refused(
    passed: tuple[bytes, ...],
) -> None:
    """Else the change might come back to its source, for ever in a ring."""
    engine, figures = FakeEngine(), WanFigures()
    target = receiver(engine, figures)
    batch = [put("orders", "a", 1), put("people", "b", 2)._replace(passed=passed)]
    with pytest.raises(ConflictError, match="the clusters that it has passed"):
        await target.take(seal(body(*batch)))
    assert engine.merged == []
    assert figures.received == {}


async def test_a_member_that_is_not_there_yet_says_so() -> None:
    engine = FakeEngine()
    engine.agreement = None
    with pytest.raises(BusyError, match="agreed"):
        receiver(engine).greet(HELLO)
    engine.ready = False
    with pytest.raises(BusyError, match="not ready"):
        await receiver(engine).take(seal(body()))
    with pytest.raises(ConflictError, match=r"needs 0\.2"):
        receiver(engine, version="the cluster version is 0.1: WAN replication needs 0.2").greet(
            HELLO
        )


def test_a_hello_is_answered_with_what_is_taken() -> None:
    welcome = receiver(FakeEngine()).greet(HELLO)
    assert welcome.cluster_id == TARGET
    assert welcome.cluster_name == "london"
    assert welcome.published_back == ("orders",)
    limits = welcome.limits
    assert (limits.key_bytes, limits.value_bytes) == (64, 1000)
    assert limits.batch_bytes == SETTINGS.batch_bytes


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"protocols": (2, 3)}, "no protocol"),
        ({"cluster_id": TARGET}, "the same cluster: target-endpoints"),
        ({"target_name": "paris"}, "called london"),
        ({"cluster_name": "kyoto"}, "wan.accepted-clusters of london"),
    ],
)
def test_a_hello_is_refused(change: dict[str, object], why: str) -> None:
    hello = replace(HELLO, **change)  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match=why):
        receiver(FakeEngine()).greet(hello)


async def test_every_member_counts_under_the_name_that_one_of_them_heard() -> None:
    store = FakeStore()
    heard, other = StoredSources(store), StoredSources(store)
    assert other.name(SOURCE) is None
    heard.note(SOURCE, "tokyo")
    heard.note(SOURCE, "tokyo")
    assert other.name(SOURCE) == "tokyo"
    assert store.puts == 1
    for number in range(MAX_SOURCES):
        heard.note(number.to_bytes(16, "big"), f"c{number}")
    assert len(store.values) == MAX_SOURCES


@pytest.mark.parametrize("kind", ["stored", "heard"])
def test_a_source_that_has_another_id_after_each_restart_keeps_its_name(kind: str) -> None:
    sources = StoredSources(FakeStore()) if kind == "stored" else SourceNames()
    for number in range(3 * MAX_SOURCES):
        cluster_id = number.to_bytes(16, "big")
        sources.note(cluster_id, "tokyo")
        assert sources.name(cluster_id) == "tokyo"
    for number in range(MAX_SOURCES):
        sources.note(b"%016d" % number, f"paris-{number}")
    assert sum(sources.name(b"%016d" % number) is not None for number in range(MAX_SOURCES)) == 0
