"""How long polls wait for a lease, and how much work that is when there are many."""

from __future__ import annotations

import math
from typing import Final

import pytest

from grid_member.engine.api import Item
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.engine.replicated.polls import UNSEEN
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.leased_polls import ITEM, REFUSED, SHORT_S, Leased, passed

pytestmark = pytest.mark.interpreted
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
    leased.shard.items = MANY
    leased.polls._tickets = Ticket()
    Ticket.compared = 0
    return leased


async def test_many_polls_that_end_without_a_lease_are_not_sorted_for_each() -> None:
    crowd = counted()
    for _ in range(MANY):
        crowd.poll(10 * SHORT_S)
    crowd.shard.items = 0
    for take in crowd.shard.takes:
        take(None)
    crowd.shard.takes.clear()
    crowd.leasehold.hold(steady_s())
    await condition(lambda: not any(poll.empty_seen for poll in crowd.polls._waiting))
    assert len(crowd.polls._waiting) == MANY, "all of them wait for a lease"
    assert Ticket.compared < 10 * MANY


async def test_many_items_that_come_back_late_do_not_sort_the_polls_for_each() -> None:
    crowd = counted()
    for _ in range(MANY):
        crowd.poll(30)
    crowd.leasehold.hold(steady_s())
    for _ in range(MANY):
        crowd.poll(30)
    for take in crowd.shard.takes:
        take(ITEM)
    crowd.shard.takes.clear()
    crowd.hold()
    assert Ticket.compared < 20 * MANY
    for number, take in enumerate(crowd.shard.takes):
        take(Item(b"v", None, "q", number, 2))
    order = [item.item_id for item in crowd.heard if isinstance(item, Item)]
    assert order == list(range(2 * MANY))


@pytest.mark.parametrize("of_signs", [False, True])
async def test_polls_that_wait_beyond_their_time_end_when_no_lease_can_come(
    of_signs: bool,
) -> None:
    leased = Leased()
    leased.shard.items = 0
    leased.leasehold.hold(-math.inf)
    for timeout_s in (0, 30):
        leased.poll(timeout_s)
    leased.polls.serve_again()
    assert leased.heard == []
    refuse(leased, of_signs=of_signs)
    assert leased.heard == [REFUSED], "the other one has time of its own left"
    recover(leased)
    leased.hold()
    leased.shard.takes.pop()(ITEM)
    assert leased.heard == [REFUSED, ITEM]
    assert leased.polls.idle


def cut_short() -> Leased:
    """Return one with a poll that waited for a lease until the log refused."""
    leased = Leased()
    leased.leasehold.hold(-math.inf)
    leased.poll(SHORT_S)
    refuse(leased)
    return leased


async def test_a_poll_whose_wait_was_cut_short_ends_in_its_own_time() -> None:
    leased = cut_short()
    assert leased.heard == []
    await condition(lambda: bool(leased.heard))
    assert leased.heard == [UNSEEN]
    assert leased.polls.idle


async def test_a_poll_waits_beyond_its_time_once_a_lease_may_come_again() -> None:
    leased = cut_short()
    recover(leased)
    await passed(2 * SHORT_S)
    assert leased.heard == []
    leased.hold()
    leased.shard.takes.pop()(ITEM)
    assert leased.heard == [ITEM]


async def test_an_earlier_gap_takes_nothing_from_the_wait_at_the_end_of_a_poll() -> None:
    leased = Leased()
    leased.polls.patience_s = 6 * SHORT_S
    leased.leasehold.hold(steady_s())
    leased.poll(5 * SHORT_S)
    leased.polls.patience_s = 30
    leased.hold()
    leased.shard.takes.pop()(None)
    leased.shard.items = 0
    leased.leasehold.hold(steady_s())
    await passed(8 * SHORT_S)
    assert (leased.heard, leased.leasehold.awaited) == ([], False)
    leased.hold()
    leased.shard.takes.pop()(None)
    assert leased.heard == [None]


async def test_a_lease_that_was_waited_for_in_vain_is_awaited_also_behind_a_take() -> None:
    leased = Leased()
    leased.polls.patience_s = SHORT_S
    leased.poll(0)
    leased.leasehold.hold(steady_s())
    leased.shard.takes.pop()(ITEM)
    leased.hold()
    await passed(2 * SHORT_S)
    leased.leasehold.hold(steady_s())
    assert not leased.leasehold.awaited
    leased.shard.takes.pop()(ITEM)
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
    leased.shard.takes.pop()(ITEM)
    assert (leased.heard, leased.returned) == ([UNSEEN, LATE, LATE], [ITEM])
    assert leased.polls.idle


def refuse(leased: Leased, *, of_signs: bool = False) -> None:
    """Confirm nothing any more, here or where the leases are, and let the polls hear of it."""
    if of_signs:
        leased.unheard = REFUSED
    else:
        leased.shard.refusal = REFUSED
    leased.polls.serve_again()


def recover(leased: Leased) -> None:
    """Confirm records again."""
    leased.unheard = leased.shard.refusal = None
