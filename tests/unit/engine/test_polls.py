"""Polls of a queue whose takes the log refuses."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final, cast

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
        self.unheard: Refused | None = None
        """Why nobody hears of the member, so that no lease can come."""
        self.polls.unheard = lambda: self.unheard

    def hold(self) -> None:
        """Have a lease, and let the polls hear of it."""
        self.leasehold.hold(math.inf)
        self.polls.serve_again()

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


async def test_an_item_that_comes_behind_the_lease_goes_back_and_is_taken_again() -> None:
    leased = Leased()
    leased.poll(0)
    leased.poll(30)
    leased.leasehold.hold(steady_s())
    second, first = leased.lane.takes.pop(), leased.lane.takes.pop()
    second(ITEM)
    first(ITEM)
    assert (leased.heard, leased.returned) == ([], [ITEM, ITEM])
    leased.hold()
    assert len(leased.lane.takes) == 2
    leased.lane.takes.pop(0)(ITEM)
    assert leased.heard == [ITEM], "the one that came first is served first"
    leased.lane.takes.pop()(None)
    leased.polls.finish_waiting(None)
    assert leased.heard == [ITEM, None]
    assert leased.polls.idle


SHORT_S = 0.02


async def test_a_poll_waits_for_a_lease_as_it_would_for_a_leader() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    for timeout_s in (0, SHORT_S):
        leased.poll(timeout_s)
    leased.polls.serve(cast("Lane", leased.lane))  # something arrives
    assert (leased.heard, leased.lane.takes) == ([], [])
    leased.hold()
    leased.lane.takes.pop(0)(ITEM)
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [ITEM, ITEM]
    assert leased.polls.idle


async def test_a_poll_that_waited_for_a_lease_ends_in_its_own_time() -> None:
    leased = Leased()
    leased.lane.items = 0
    leased.leasehold.hold(-math.inf)
    leased.poll(0)
    leased.poll(10 * SHORT_S)
    leased.hold()
    leased.lane.takes.pop(0)(None)
    assert leased.heard == [None]
    leased.lane.takes.pop()(None)
    await condition(lambda: len(leased.heard) == 2)  # long before it would have been refused
    assert leased.heard == [None, None]


@pytest.mark.parametrize("timeout_s", [0, SHORT_S])
async def test_a_poll_waits_only_for_so_long_for_a_lease(timeout_s: float) -> None:
    leased = Leased()
    leased.polls.patience_s = 2 * SHORT_S
    leased.leasehold.hold(-math.inf)
    leased.poll(timeout_s)
    await condition(lambda: bool(leased.heard))
    assert (leased.heard, leased.lane.takes) == ([UNSEEN], [])
    assert leased.polls.idle


async def test_an_item_that_comes_late_again_and_again_is_not_waited_for_without_end() -> None:
    leased = Leased()
    leased.polls.patience_s = SHORT_S
    leased.poll(0)
    while not leased.heard:
        leased.leasehold.hold(steady_s())
        for take in leased.lane.takes:
            take(ITEM)
        leased.lane.takes.clear()
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
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    leased.leasehold.hold(steady_s())
    leased.polls.patience_s = 30
    await passed(6 * SHORT_S)
    assert (leased.heard, leased.leasehold.awaited) == ([], False)
    leased.hold()
    leased.lane.takes.pop()(None)
    assert leased.heard == [None]


@pytest.mark.parametrize("of_signs", [False, True])
async def test_a_poll_that_can_get_no_lease_is_refused_at_once(of_signs: bool) -> None:
    """Nothing is confirmed here: the member is not ready, and answers so."""
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    if of_signs:
        leased.unheard = REFUSED
    else:
        leased.lane.refusal = REFUSED
    leased.poll(0)
    assert leased.heard == [REFUSED]
    leased.poll(SHORT_S)
    await condition(lambda: len(leased.heard) == 2)
    assert leased.heard == [REFUSED, UNSEEN]
    leased.poll(30)
    leased.unheard = leased.lane.refusal = None
    leased.hold()
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [REFUSED, UNSEEN, ITEM]
    assert leased.polls.idle


async def test_a_poll_whose_take_came_back_empty_ends_with_nothing() -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [None]


@pytest.mark.parametrize("comes", [False, True])
async def test_a_poll_that_ends_without_a_lease_looks_again_when_there_is_one(comes: bool) -> None:
    leased = Leased()
    leased.poll(SHORT_S)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    leased.leasehold.hold(-math.inf)
    await passed(2 * SHORT_S)
    assert leased.heard == []
    leased.hold()
    leased.lane.takes.pop(0)(ITEM if comes else None)
    assert leased.heard == [ITEM if comes else None]


@pytest.mark.parametrize(("until_s", "refusal"), [(-math.inf, None), (math.inf, REFUSED)])
async def test_an_empty_take_says_nothing_of_what_came_after_the_contact_was_lost(
    until_s: float, refusal: Refused | None
) -> None:
    leased = Leased()
    leased.polls.patience_s = 2 * SHORT_S
    leased.poll(SHORT_S)
    leased.lane.items = 0
    leased.lane.takes.pop()(None)
    leased.leasehold.hold(until_s)
    leased.lane.refusal = refusal
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [refusal or UNSEEN]


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


MANY: Final = 300


class Ticket(int):
    """A ticket that counts how often it is compared."""

    compared = 0

    def __add__(self, more: int) -> Ticket:
        return Ticket(int(self) + more)

    def __lt__(self, other: int) -> bool:
        Ticket.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Ticket.compared += 1
        return int(self) > int(other)


def counted() -> Leased:
    """Return polls of a queue with many items, which count how often they compare tickets."""
    leased = Leased()
    leased.lane.items = MANY
    leased.polls._tickets = Ticket()
    Ticket.compared = 0
    return leased


async def test_many_polls_that_end_without_a_lease_are_not_sorted_for_each() -> None:
    crowd = counted()
    for _ in range(MANY):
        crowd.poll(10 * SHORT_S)
    crowd.lane.items = 0
    for take in crowd.lane.takes:
        take(None)
    crowd.lane.takes.clear()
    crowd.leasehold.hold(steady_s())
    await condition(lambda: not any(poll.saw_empty for poll in crowd.polls._waiting))
    assert len(crowd.polls._waiting) == MANY, "all of them wait for a lease"
    assert Ticket.compared < 10 * MANY


async def test_many_items_that_come_back_late_do_not_sort_the_polls_for_each() -> None:
    crowd = counted()
    for _ in range(MANY):
        crowd.poll(30)
    crowd.leasehold.hold(steady_s())
    for _ in range(MANY):
        crowd.poll(30)
    for take in crowd.lane.takes:
        take(ITEM)
    crowd.lane.takes.clear()
    crowd.hold()
    assert Ticket.compared < 20 * MANY
    for number, take in enumerate(crowd.lane.takes):
        take(Item(b"v", None, "q", number, 2))
    order = [item.item_id for item in crowd.heard if isinstance(item, Item)]
    assert order == list(range(2 * MANY))


@pytest.mark.parametrize("of_signs", [False, True])
async def test_polls_that_wait_beyond_their_time_end_when_no_lease_can_come(
    of_signs: bool,
) -> None:
    leased = Leased()
    leased.lane.items = 0
    leased.leasehold.hold(-math.inf)
    for timeout_s in (0, 30):
        leased.poll(timeout_s)
    leased.polls.serve_again()
    assert leased.heard == []
    refuse(leased, of_signs=of_signs)
    assert leased.heard == [REFUSED], "the other one has time of its own left"
    recover(leased)
    leased.hold()
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [REFUSED, ITEM]
    assert leased.polls.idle


async def test_a_poll_whose_wait_was_cut_short_ends_in_its_own_time() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.poll(SHORT_S)
    refuse(leased)
    assert leased.heard == []
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [UNSEEN]
    assert leased.polls.idle


async def test_a_poll_waits_beyond_its_time_once_a_lease_may_come_again() -> None:
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.poll(SHORT_S)
    refuse(leased)
    recover(leased)
    await passed(2 * SHORT_S)
    assert leased.heard == []
    leased.hold()
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [ITEM]


async def test_an_earlier_gap_takes_nothing_from_the_wait_at_the_end_of_a_poll() -> None:
    leased = Leased()
    leased.polls.patience_s = 6 * SHORT_S
    leased.leasehold.hold(steady_s())
    leased.poll(5 * SHORT_S)
    leased.polls.patience_s = 30
    leased.hold()
    leased.lane.takes.pop()(None)
    leased.lane.items = 0
    leased.leasehold.hold(steady_s())
    await passed(8 * SHORT_S)
    assert (leased.heard, leased.leasehold.awaited) == ([], False)
    leased.hold()
    leased.lane.takes.pop()(None)
    assert leased.heard == [None]


async def test_a_lease_that_was_waited_for_in_vain_is_awaited_also_behind_a_take() -> None:
    leased = Leased()
    leased.polls.patience_s = SHORT_S
    leased.poll(0)
    leased.leasehold.hold(steady_s())
    leased.lane.takes.pop()(ITEM)
    leased.hold()
    await passed(2 * SHORT_S)
    leased.leasehold.hold(steady_s())
    assert not leased.leasehold.awaited
    leased.lane.takes.pop()(ITEM)
    assert leased.heard == [LATE]
    assert leased.leasehold.awaited


@pytest.mark.parametrize("timeout_s", [0, 30])
async def test_no_poll_waits_for_a_lease_once_none_is_to_wait(timeout_s: float) -> None:
    leased = Leased()
    leased.poll(timeout_s)  # whose item comes too late
    leased.leasehold.hold(steady_s())
    leased.poll(timeout_s)  # which waits
    leased.polls.wait_no_more()
    assert leased.heard == [UNSEEN]
    leased.poll(timeout_s)
    assert leased.heard == [UNSEEN, LATE]
    leased.lane.takes.pop()(ITEM)
    assert (leased.heard, leased.returned) == ([UNSEEN, LATE, LATE], [ITEM])
    assert leased.polls.idle


def refuse(leased: Leased, *, of_signs: bool = False) -> None:
    """Confirm nothing any more, here or where the leases are, and let the polls hear of it."""
    if of_signs:
        leased.unheard = REFUSED
    else:
        leased.lane.refusal = REFUSED
    leased.polls.serve_again()


def recover(leased: Leased) -> None:
    """Confirm records again."""
    leased.unheard = leased.lane.refusal = None


async def passed(seconds: float) -> None:
    """Wait until the loop has run the timers that end within that time."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
