"""Polls of a queue whose takes the log refuses."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.cluster_polls import UNSEEN, ClusterPolls
from grid_member.engine.leasehold import LATE, Leasehold, steady_s
from grid_member.engine.polls import QueuePolls
from grid_member.engine.state import State
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.lane import Lane

pytestmark = pytest.mark.interpreted
REFUSED = Refused(Reason.UNAVAILABLE, "no quorum")
ITEM = Item(b"v", None, "q", 1, 2)


class HandLane:
    """A lane whose takes the test answers, with one item in its queue unless that is changed."""

    def __init__(self) -> None:
        self.state = State()
        self.takes: list[Callable[[Any], None]] = []
        self.leasehold = Leasehold()
        self.refusal: Refused | None = None
        self.items = 1
        self.state.queues.size = lambda name: self.items  # type: ignore[method-assign]

    def propose(self, operation: object, answer: Callable[[Any], None], size_bytes: int) -> None:
        self.takes.append(answer)


async def test_what_a_refused_take_left_is_for_who_waits() -> None:
    lane = HandLane()
    polls = QueuePolls("q", asyncio.get_running_loop(), lambda item: None, lambda item: None)
    first: list[object] = []
    second: list[object] = []
    for heard in (first, second):
        polls.poll(cast("Lane", lane), 30, heard.append)
    assert len(lane.takes) == 1
    lane.takes.pop()(REFUSED)
    assert (first, second) == ([REFUSED], [])
    await condition(lambda: bool(lane.takes))
    lane.takes.pop()(ITEM)
    assert (first, second) == ([REFUSED], [ITEM])
    assert polls.idle


class Leased:
    """Polls of a queue with an item, by a member that has a lease, or not."""

    def __init__(self) -> None:
        self.lane = HandLane()
        self.leasehold = self.lane.leasehold
        self.returned: list[Item] = []
        self.heard: list[object] = []
        self.polls = ClusterPolls(
            "q", asyncio.get_running_loop(), self.returned.append, lambda item: None
        )
        self.polls.shared = lambda lane: self.lane
        self.polls.ended = lambda: False

    def poll(self, timeout_s: float) -> None:
        self.polls.poll(cast("Lane", self.lane), timeout_s, self.heard.append)


async def test_an_item_is_handed_out_until_the_lease_ends() -> None:
    leased = Leased()
    until_s = steady_s() + 100
    leased.leasehold.hold(until_s)
    leased.poll(30)
    item = Item(b"v", None, "q", 1, 2)
    leased.lane.takes.pop()(item)
    assert leased.heard == [item]
    assert item.until_s == until_s
    assert leased.polls.idle


async def test_what_a_member_hears_behind_its_lease_is_not_handed_out() -> None:
    leased = Leased()
    leased.poll(30)
    leased.leasehold.hold(steady_s())
    leased.lane.takes.pop()(ITEM)
    assert (leased.heard, leased.returned) == ([LATE], [ITEM])
    assert leased.polls.idle


async def test_without_a_lease_nothing_is_taken_and_who_can_waits_for_one() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.poll(0)
    assert leased.heard == [LATE]
    leased.poll(30)
    leased.polls.serve(cast("Lane", leased.lane))  # something arrives
    assert leased.lane.takes == []
    leased.leasehold.hold(math.inf)
    leased.polls.serve_again()
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [LATE, ITEM]


SHORT_S = 0.02


async def test_a_poll_of_which_no_take_came_back_empty_is_refused_at_its_end() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.poll(SHORT_S)
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [UNSEEN]
    assert leased.lane.takes == []
    assert leased.polls.idle


async def test_a_poll_whose_take_came_back_empty_ends_with_nothing() -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [None]


@pytest.mark.parametrize(("until_s", "refusal"), [(-math.inf, None), (math.inf, REFUSED)])
async def test_an_empty_take_says_nothing_of_what_came_after_the_contact_was_lost(
    until_s: float, refusal: Refused | None
) -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    leased.leasehold.hold(until_s)
    leased.lane.refusal = refusal
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [refusal or LATE]


async def test_a_new_lease_has_polls_look_again_that_never_looked() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.lane.items = 0
    leased.poll(30)
    leased.poll(30)
    assert leased.lane.takes == []
    leased.leasehold.hold(math.inf)
    leased.polls.serve_again()
    assert len(leased.lane.takes) == 2
    leased.polls.serve_again()
    assert len(leased.lane.takes) == 2
    for take in leased.lane.takes:
        take(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [None, None]


async def test_a_stop_tells_no_poll_of_an_empty_queue_that_nobody_saw() -> None:
    leased = Leased()
    leased.poll(30)
    leased.leasehold.hold(-math.inf)
    leased.poll(30)
    leased.leasehold.hold(math.inf)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [None, UNSEEN]
