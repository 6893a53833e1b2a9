"""Polls of a queue whose takes the log refuses."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.cluster_polls import UNLEASED, ClusterPolls
from grid_member.engine.leasehold import Leasehold
from grid_member.engine.polls import QueuePolls
from grid_member.engine.state import State
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.lane import Lane

REFUSED = Refused(Reason.UNAVAILABLE, "no quorum")
ITEM = Item(b"v", None, "q", 1, 2)


class HandLane:
    """A lane whose takes the test answers, with one item in its queue."""

    def __init__(self) -> None:
        self.state = State()
        self.takes: list[Callable[[Any], None]] = []
        self.state.queues.size = lambda name: 1  # type: ignore[method-assign]

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


@pytest.mark.parametrize("leased", [True, False])
async def test_what_a_member_hears_behind_its_lease_is_not_handed_out(leased: bool) -> None:
    lane = HandLane()
    returned: list[Item] = []
    heard: list[object] = []
    polls = ClusterPolls("q", asyncio.get_running_loop(), returned.append, lambda item: None)
    leasehold = Leasehold()
    leasehold.hold(math.inf if leased else -math.inf)
    polls.leasehold = lambda lane: leasehold
    polls.ended = lambda: False
    polls.poll(cast("Lane", lane), 30, heard.append)
    lane.takes.pop()(ITEM)
    if leased:
        assert (heard, returned) == ([ITEM], [])
        assert ITEM.until_s == math.inf
    else:
        assert (heard, returned) == ([UNLEASED], [ITEM])
    assert polls.taking == 0
