"""Promise: on whatever line, what is queued reaches the target, and only then leaves its queue."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.wan.agreement import MergePolicy
from grid_member.wan.answers import MapAnswer
from grid_member.wan.hello import TargetLimits
from grid_member.wan.places import QueueName
from grid_member.wan.ports import OverloadedError, RefusedError, TargetError, UnreachableError
from tests.unit.member.wan.batches import TARGET, clear, put, removal
from tests.unit.member.wan.fakes import MEMBER, FakeTarget, source
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.wan.changes import Change
    from tests.unit.member.wan.fakes import Source

OTHER_MEMBER = b"o" * 16


def puts(count: int, first: int = 0, name: str = "orders", size: int = 5) -> list[Change]:
    return [put(name, f"key-{n}", n + 1, b"x" * size) for n in range(first, first + count)]


def sizes(target: FakeTarget) -> list[int]:
    return [len(batch.changes) for batch in target.batches]


def test_a_change_goes_at_once() -> None:
    async def scene() -> None:
        async with source() as running:
            await running.until(lambda: bool(running.target.hellos))
            await asyncio.sleep(1)
            began_s = asyncio.get_running_loop().time()
            running.add([put("orders", "ada", 5), removal("orders", "bob", 6), clear("people", 7)])
            await running.until(lambda: bool(running.target.batches))
            assert asyncio.get_running_loop().time() - began_s < 0.05
            await running.until_empty()
            assert running.figures.sent_changes == 3

    play(scene())


def test_a_spoiled_answer_acknowledges_nothing() -> None:
    """One that says TAKEN of a map that the target refused would lose the map's changes."""

    async def scene() -> None:
        target = FakeTarget(refused={"orders": MapAnswer.NOT_CONFIGURED})
        target.spoils = lambda answer: (
            answer.replace(bytes((MapAnswer.NOT_CONFIGURED,)), bytes((MapAnswer.TAKEN,)), 1)
            if target.batches
            else answer
        )
        async with source(target) as running:
            running.add([put("orders", "ada", 5)])
            await running.until(lambda: len(target.batches) >= 3)
            assert not running.queues.empty
            assert "checksum" in running.figures.problem
            target.refused.clear()
            target.spoils = lambda answer: answer
            await running.until_empty()
            assert target.stamps == {("orders", "ada"): 5}

    play(scene())


def test_a_full_batch_goes_beside_others_and_a_part_waits() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=0.5)
        async with source(target, batch_size=10, concurrency=4, max_delay_s=60) as running:
            running.add(puts(1))
            await running.until(lambda: target.at_once == 1 and bool(target.hellos))
            running.add(puts(14, 100))
            await running.until_empty()
            assert sizes(target) == [1, 10, 4]
            assert target.most_at_once == 2, "the part waited until nothing was under way"

    play(scene())


async def trickle(running: Source, count: int) -> None:
    """Add a change each millisecond."""
    for change in puts(count):
        running.add([change])
        await asyncio.sleep(0.001)


def test_what_waits_for_its_acknowledgement_makes_no_batch_full() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=0.02)
        async with source(target, batch_size=50, concurrency=8, max_delay_s=60) as running:
            await running.until(lambda: running.figures.connected)
            await trickle(running, 500)
            await running.until_empty()
            assert target.most_at_once == 1, "some 20 changes came while a batch was under way"

    play(scene())


def test_changes_of_a_moment_share_a_batch_though_the_target_answers_at_once() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=0.001)
        async with source(target) as running:
            await running.until(lambda: running.figures.connected)
            await trickle(running, 500)
            await running.until_empty()
            assert len(target.batches) < 100
            assert max(sizes(target)) < 50

    play(scene())


def test_a_part_waits_no_longer_than_the_longest_delay() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=30)
        async with source(target, batch_size=10, concurrency=4, max_delay_s=1) as running:
            await running.until(lambda: bool(target.hellos))
            running.add(puts(1))
            await running.until(lambda: target.at_once == 1)
            running.add(puts(3, 100))
            began_s = asyncio.get_running_loop().time()
            await running.until(lambda: target.at_once == 2)
            assert 0.9 < asyncio.get_running_loop().time() - began_s < 1.1
            await running.until_empty()

    play(scene())


def test_batches_have_bounds() -> None:
    async def scene() -> None:
        async with source(FakeTarget(delay_s=0.1), batch_size=50, concurrency=2) as running:
            running.add(puts(125))
            running.add(puts(3, 200, size=400 << 10))
            running.add(puts(1, 300, size=3 << 20))
            running.add(puts(2, 400))
            await running.until_empty()
            target = running.target
            assert max(sizes(target)) <= 50
            assert len(target.keys) == 131
            for batch in target.batches:
                size = sum(len(change.value) for change in batch.changes)
                assert size <= 1 << 20 or len(batch.changes) == 1

    play(scene())


def test_a_window_is_kept_and_grows_only_when_adaptive() -> None:
    async def scene(concurrency: int) -> int:
        async with source(batch_size=10, concurrency=concurrency) as running:
            running.add(puts(2000))
            await running.until_empty()
            return running.target.most_at_once

    assert play(scene(1)) == 1
    assert play(scene(3)) == 3
    assert play(scene(-1)) == 8


def test_a_target_that_is_full_is_asked_again_when_it_says() -> None:
    async def scene() -> None:
        target = FakeTarget()
        async with source(target) as running:
            await running.until(lambda: bool(target.hellos))
            target.faults = [OverloadedError("too many merges wait", 7.0)]
            began_s = asyncio.get_running_loop().time()
            running.add(puts(3))
            await running.until_empty()
            assert 7 <= asyncio.get_running_loop().time() - began_s < 8
            assert len(target.hellos) == 1, "it was there all the time"

    play(scene())


@pytest.mark.parametrize("problem", [UnreachableError("gone"), RefusedError("wrong password")])
@pytest.mark.parametrize("loses_answers", [False, True])
def test_after_a_failure_all_is_sent_again(problem: TargetError, loses_answers: bool) -> None:
    async def scene() -> None:
        target = FakeTarget()
        async with source(target, batch_size=10, concurrency=4) as running:
            running.add(puts(10))
            await running.until_empty()
            assert running.figures.connected
            target.loses_answers = loses_answers
            target.faults = [problem] * 3
            running.add(puts(30, 100))
            await running.until(lambda: not running.figures.connected)
            assert running.figures.problem == str(problem)
            await running.until_empty()
            assert running.figures.connected
            assert not running.figures.problem
            assert len(target.hellos) >= 2
            assert len(target.keys) == 40

    play(scene())


@pytest.mark.parametrize("other", [False, True])
def test_a_target_that_began_anew_is_told(caplog: pytest.LogCaptureFixture, other: bool) -> None:
    """It lacks what the one before had, and no queue has it."""

    async def scene() -> None:
        target = FakeTarget()
        async with source(target) as running:
            running.add(puts(1))
            await running.until_empty()
            target.faults = [UnreachableError("gone")]
            target.cluster_id = b"another".ljust(16) if other else target.cluster_id
            running.add(puts(1))
            await running.until_empty()
            assert len(target.hellos) == 2

    caplog.set_level("INFO", "grid.wan")
    play(scene())
    assert ("another cluster answers" in caplog.messages) == other


def test_nothing_beyond_a_gap_is_acknowledged() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=1)
        async with source(target, batch_size=1, concurrency=8) as running:
            await running.until(lambda: bool(target.hellos))
            target.faults = [OverloadedError("first", 20.0)]
            running.add(puts(5))
            await running.until(lambda: len(target.batches) == 4)
            await asyncio.sleep(5)
            assert not running.queues.acknowledged
            await running.until_empty()
            assert running.queues.acknowledged == [{QueueName("orders", MEMBER): 5}]

    play(scene())


def test_acknowledgements_are_few_and_repeated_when_they_are_lost() -> None:
    async def scene() -> None:
        async with source(batch_size=10, concurrency=1) as running:
            running.queues.refuses_acknowledgements = True
            running.add(puts(1000))
            await running.until(lambda: len(running.target.keys) == 1000)
            await asyncio.sleep(5)
            assert sum(sizes(running.target)) == 1000, "what arrived is not sent again for that"
            running.queues.refuses_acknowledgements = False
            await running.until_empty()
            running.add(puts(1000, 2000))
            began_s, before = asyncio.get_running_loop().time(), len(running.queues.acknowledged)
            await running.until_empty()
            took_s = asyncio.get_running_loop().time() - began_s
            assert len(running.queues.acknowledged) - before <= took_s / 0.1 + 1

    play(scene())


def test_a_change_of_a_key_under_way_is_sent_as_well() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=1)
        async with source(target) as running:
            await running.until(lambda: bool(target.hellos))
            running.add([put("orders", "ada", 5)])
            await running.until(lambda: target.at_once == 1)
            running.add([put("orders", "ada", 9)])
            await running.until_empty()
            assert target.stamps == {("orders", "ada"): 9}

    play(scene())


def test_a_map_that_is_refused_waits_and_others_go_on() -> None:
    async def scene() -> None:
        target = FakeTarget(refused={"secret": 1})
        async with source(target) as running:
            running.add([*puts(5, name="secret"), *puts(5)])
            await running.until(lambda: "secret" in running.figures.blocked)
            running.add(puts(50, 100))
            await running.until(lambda: ("orders", "key-149") in target.stamps)
            assert running.figures.blocked == {
                "secret": "the target has no configuration for this map: configure it there"
            }
            tries = sum("secret" in dict(batch.maps) for batch in target.batches)
            assert tries == 1
            began_s = asyncio.get_running_loop().time()
            target.refused = {}
            await running.until_empty()
            assert 25 < asyncio.get_running_loop().time() - began_s < 31
            assert not running.figures.blocked

    play(scene())


def test_what_the_target_does_not_take_is_not_sent() -> None:
    async def scene() -> None:
        target = FakeTarget(limits=TargetLimits(16, 100, 1 << 20))
        async with source(target) as running:
            running.add([put("a", "ok", 1), put("a", "large", 2, b"x" * 101), put("a", "end", 3)])
            running.add([put("b", "ü" * 9, 1), put("c", "ü" * 8, 1)])
            await running.until(lambda: len(running.figures.blocked) == 2)
            await running.until(lambda: len(target.stamps) == 2)
            await asyncio.sleep(100)
            assert set(target.stamps) == {("a", "ok"), ("c", "ü" * 8)}
            assert set(running.figures.blocked) == {"a", "b"}
            target.limits = TargetLimits(64, 1000, 1 << 20)
            target.faults = [UnreachableError("it restarts")]
            running.add([put("c", "more", 7)])
            await running.until_empty()
            assert not running.figures.blocked

    play(scene())


def test_sending_goes_on_at_the_last_addresses_while_names_have_none() -> None:
    async def scene() -> None:
        found = [["10.0.0.1"]]

        async def resolve(host: str, port: int) -> list[str]:
            return found[-1]

        async with source(resolve=resolve) as running:
            running.add(puts(1))
            await running.until_empty()
            found.append([])
            await asyncio.sleep(30)
            running.target.faults = [UnreachableError("a connection broke")]
            running.add(puts(10, 100))
            await running.until_empty()
            report = running.figures.report()
            assert report.connected
            assert report.problem.startswith("the name london has no address now")
            found.append(["10.0.0.2"])
            await asyncio.sleep(40)
            running.add(puts(1, 200))
            await running.until_empty()
            assert running.figures.report().problem == ""

    play(scene())


def test_what_passed_the_target_is_not_sent_there() -> None:
    async def scene() -> None:
        async with source() as running:
            back = put("orders", "ada", 5)._replace(passed=(TARGET,))
            running.add([back])
            await running.until_empty()
            running.add([back, put("orders", "bob", 6)])
            await running.until_empty()
            assert running.target.keys == {"bob": 1}

    play(scene())


def test_the_queue_of_a_paused_member_waits() -> None:
    async def scene() -> None:
        async with source() as running:
            running.queues.paused = {OTHER_MEMBER}
            running.add(puts(3))
            running.add(puts(3, 100), OTHER_MEMBER)
            await running.until(lambda: len(running.target.keys) == 3)
            await asyncio.sleep(100)
            assert len(running.target.keys) == 3
            running.queues.paused = set()
            running.add(puts(1))
            await running.until_empty()

    play(scene())


def test_each_map_travels_with_its_policy() -> None:
    async def scene() -> None:
        async with source() as running:
            running.queues.policies["people"] = MergePolicy.PUT_IF_ABSENT
            running.add([*puts(1), *puts(1, name="people")])
            await running.until_empty()
            maps = {pair for batch in running.target.batches for pair in batch.maps}
            assert maps == {
                ("orders", MergePolicy.LATEST_UPDATE),
                ("people", MergePolicy.PUT_IF_ABSENT),
            }

    play(scene())


def test_a_line_that_fails_at_will_loses_nothing() -> None:
    async def scene(seed: int) -> None:
        chance = random.Random(seed)
        target = FakeTarget(chance=lambda: chance.expovariate(20), delay_s=0.001)
        async with source(target, batch_size=chance.choice([1, 7, 50])) as running:

            def is_there(change: Change) -> None:
                assert target.stamps.get((change.name, change.key), 0) >= change.stamp

            running.queues.on_removal = is_there
            newest = await disturbed(changes_of_few_keys(chance), running, chance)
            target.faults, target.refused = [], {}
            await running.until_empty()
            assert newest.items() <= target.stamps.items()

    for seed in range(12):
        play(scene(seed))


def changes_of_few_keys(chance: random.Random) -> list[Change]:
    names = "orders", "people"
    return [
        put(chance.choice(names), f"key-{chance.randrange(60)}", stamp) for stamp in range(1, 600)
    ]


async def disturbed(
    changes: Sequence[Change], running: Source, chance: random.Random
) -> dict[tuple[str, str], int]:
    """Queue the changes while the line has faults; return the newest stamp of each key."""
    queues, target = running.queues, running.target
    faults = UnreachableError("gone"), OverloadedError("full", 0.5), RefusedError("no")
    newest: dict[tuple[str, str], int] = {}
    for change in changes:
        running.add([change], chance.choice([MEMBER, OTHER_MEMBER]))
        newest[change.name, change.key] = change.stamp
        if chance.random() < 0.3:
            await asyncio.sleep(chance.expovariate(10))
        if chance.random() < 0.03:
            target.loses_answers = chance.random() < 0.5
            target.faults = [chance.choice(faults)]
        if chance.random() < 0.01:
            target.refused = {} if target.refused else {"people": 3}
        if chance.random() < 0.02:
            queues.refuses_acknowledgements = not queues.refuses_acknowledgements
    queues.refuses_acknowledgements = False
    return newest


@pytest.mark.parametrize(
    "change",
    [
        put("secret", "k" * (64 << 10), 1),
        put("secret", "key", 1)._replace(content_type="ü" * 40_000),
    ],
    ids=["key", "content type"],
)
def test_what_no_batch_can_hold_blocks_its_map_alone(change: Change) -> None:
    async def scene() -> None:
        target = FakeTarget(limits=TargetLimits(64 << 10, 8 << 20, 16 << 20))
        async with source(target) as running:
            running.add([change, *puts(3)])
            await running.until(lambda: len(target.keys) == 3)
            assert set(running.figures.blocked) == {"secret"}

    play(scene())


def test_content_types_count_for_the_size_of_a_batch() -> None:
    async def scene() -> None:
        async with source() as running:
            types = [f"{number:05}" * 10_000 for number in range(100)]
            running.add(put("orders", shown[:5], 1)._replace(content_type=shown) for shown in types)
            await running.until_empty()
            for batch in running.target.batches:
                assert sum(len(change.content_type or "") for change in batch.changes) <= 1 << 20

    play(scene())


def test_a_log_that_begins_again_is_read_from_its_begin() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=0.5)
        async with source(target, batch_size=10, concurrency=4) as running:
            running.add(puts(35))
            await running.until(lambda: bool(target.batches))
            # Batches are under way, and places are about to be acknowledged.
            running.queues.begin_again(put("orders", "new-1", 101), put("orders", "new-2", 102))
            await running.until_empty()
            assert {("orders", "new-1"), ("orders", "new-2")} <= target.stamps.keys()
            running.add([put("orders", "new-3", 103)])
            await running.until_empty()
            last = QueueName("orders", MEMBER)
            assert running.queues.acknowledged[-1] == {last: 3}

    play(scene())
