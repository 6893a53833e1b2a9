"""Polls of a queue whose takes the log refuses."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.api import Item, Refused
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.engine.local.polls import QueuePolls
from grid_member.engine.replicated.polls import UNSEEN
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.leased_polls import (
    ITEM,
    REFUSED,
    SHORT_S,
    HandShard,
    Leased,
    passed,
)

if TYPE_CHECKING:
    from grid_member.engine.shard.shard import Shard

pytestmark = pytest.mark.interpreted


async def test_what_a_refused_take_left_is_for_who_waits() -> None:
    shard = HandShard()
    polls = QueuePolls("q", asyncio.get_running_loop(), lambda item: None, lambda item: None)
    first: list[object] = []
    second: list[object] = []
    for heard in (first, second):
        polls.poll(cast("Shard", shard), 30, heard.append)
    assert len(shard.takes) == 1
    shard.takes.pop()(REFUSED)
    assert (first, second) == ([REFUSED], [])
    await condition(lambda: bool(shard.takes))
    shard.takes.pop()(ITEM)
    assert (first, second) == ([REFUSED], [ITEM])
    assert polls.idle


async def test_an_item_is_handed_out_until_the_lease_ends() -> None:
    leased = Leased()
    until_s = steady_s() + 100
    leased.leasehold.hold(until_s)
    leased.poll(30)
    item = Item(b"v", None, "q", 1, 2)
    leased.shard.takes.pop()(item)
    assert leased.heard == [item]
    assert item.until_s == until_s
    assert leased.polls.idle


async def test_an_item_that_comes_behind_the_lease_goes_back_and_is_taken_again() -> None:
    leased = Leased()
    leased.poll(0)
    leased.poll(30)
    leased.leasehold.hold(steady_s())
    second, first = leased.shard.takes.pop(), leased.shard.takes.pop()
    second(ITEM)
    first(ITEM)
    assert (leased.heard, leased.returned) == ([], [ITEM, ITEM])
    leased.hold()
    assert len(leased.shard.takes) == 2
    leased.shard.takes.pop(0)(ITEM)
    assert leased.heard == [ITEM], "the one that came first is served first"
    leased.shard.takes.pop()(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [ITEM, None]
    assert leased.polls.idle


async def test_a_poll_waits_for_a_lease_as_it_would_for_a_leader() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    for timeout_s in (0, SHORT_S):
        leased.poll(timeout_s)
    leased.polls.serve(cast("Shard", leased.shard))  # something arrives
    assert (leased.heard, leased.shard.takes) == ([], [])
    leased.hold()
    leased.shard.takes.pop(0)(ITEM)
    leased.shard.takes.pop()(ITEM)
    assert leased.heard == [ITEM, ITEM]
    assert leased.polls.idle


async def test_a_poll_that_waited_for_a_lease_ends_in_its_own_time() -> None:
    leased = Leased()
    leased.shard.items = 0
    leased.leasehold.hold(-math.inf)
    leased.poll(0)
    leased.poll(10 * SHORT_S)
    leased.hold()
    leased.shard.takes.pop(0)(None)
    assert leased.heard == [None]
    leased.shard.takes.pop()(None)
    await condition(lambda: len(leased.heard) == 2)  # long before it would have been refused
    assert leased.heard == [None, None]


@pytest.mark.parametrize("timeout_s", [0, SHORT_S])
async def test_a_poll_waits_only_for_so_long_for_a_lease(timeout_s: float) -> None:
    leased = Leased()
    leased.polls.patience_s = 2 * SHORT_S
    leased.leasehold.hold(-math.inf)
    leased.poll(timeout_s)
    await condition(lambda: bool(leased.heard))
    assert (leased.heard, leased.shard.takes) == ([UNSEEN], [])
    assert leased.polls.idle


async def test_an_item_that_comes_late_again_and_again_is_not_waited_for_without_end() -> None:
    leased = Leased()
    leased.polls.patience_s = SHORT_S
    leased.poll(0)
    while not leased.heard:
        leased.leasehold.hold(steady_s())
        for take in leased.shard.takes:
            take(ITEM)
        leased.shard.takes.clear()
        leased.hold()
        await asyncio.sleep(0)
    assert leased.heard == [LATE]
    assert leased.polls.idle


async def test_a_poll_that_once_waited_for_a_lease_waits_for_the_next_one_at_its_end() -> None:
    """Another election is no reason to call the member unready."""
    leased = Leased()
    leased.polls.patience_s = SHORT_S
    leased.leasehold.hold(steady_s())
    leased.poll(5 * SHORT_S)
    leased.hold()
    leased.shard.items = 0
    leased.shard.takes.pop()(None)
    leased.leasehold.hold(steady_s())
    leased.polls.patience_s = 30
    await passed(6 * SHORT_S)
    assert (leased.heard, leased.leasehold.awaited) == ([], False)
    leased.hold()
    leased.shard.takes.pop()(None)
    assert leased.heard == [None]


@pytest.mark.parametrize("of_signs", [False, True])
async def test_a_poll_that_can_get_no_lease_is_refused_at_once(of_signs: bool) -> None:
    """Nothing is confirmed here: the member is not ready, and answers so."""
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    if of_signs:
        leased.unheard = REFUSED
    else:
        leased.shard.refusal = REFUSED
    leased.poll(0)
    assert leased.heard == [REFUSED]
    leased.poll(SHORT_S)
    await condition(lambda: len(leased.heard) == 2)
    assert leased.heard == [REFUSED, UNSEEN]
    leased.poll(30)
    leased.unheard = leased.shard.refusal = None
    leased.hold()
    leased.shard.takes.pop()(ITEM)
    assert leased.heard == [REFUSED, UNSEEN, ITEM]
    assert leased.polls.idle


async def test_a_poll_whose_take_came_back_empty_ends_with_nothing() -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.shard.items = 0
    leased.shard.takes.pop()(None)
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [None]


@pytest.mark.parametrize("comes", [False, True])
async def test_a_poll_that_ends_without_a_lease_looks_again_when_there_is_one(comes: bool) -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.shard.items = 0
    leased.shard.takes.pop()(None)
    leased.leasehold.hold(-math.inf)
    await passed(2 * SHORT_S)
    assert leased.heard == []
    leased.hold()
    leased.shard.takes.pop(0)(ITEM if comes else None)
    assert leased.heard == [ITEM if comes else None]


@pytest.mark.parametrize(("until_s", "refusal"), [(-math.inf, None), (math.inf, REFUSED)])
async def test_an_empty_take_says_nothing_of_what_came_after_the_contact_was_lost(
    until_s: float, refusal: Refused | None
) -> None:
    leased = Leased()
    leased.polls.patience_s = 2 * SHORT_S
    leased.poll(SHORT_S)
    leased.shard.items = 0
    leased.shard.takes.pop()(None)
    leased.leasehold.hold(until_s)
    leased.shard.refusal = refusal
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [refusal or UNSEEN]


async def test_a_new_lease_has_polls_look_again_that_never_looked() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.shard.items = 0
    leased.poll(30)
    leased.poll(30)
    assert leased.shard.takes == []
    leased.leasehold.hold(math.inf)
    leased.polls.serve_again()
    assert len(leased.shard.takes) == 2
    leased.polls.serve_again()
    assert len(leased.shard.takes) == 2
    for take in leased.shard.takes:
        take(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [None, None]


async def test_a_stop_tells_no_poll_of_an_empty_queue_that_nobody_saw() -> None:
    leased = Leased()
    leased.poll(30)
    leased.leasehold.hold(-math.inf)
    leased.poll(30)
    leased.leasehold.hold(math.inf)
    leased.shard.items = 0
    leased.shard.takes.pop()(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [None, UNSEEN]
