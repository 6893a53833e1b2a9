"""Each delivery of an item is confirmed or returned by itself, however often that is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine import open_engine
from grid_member.engine.api import Item
from grid_member.engine.local import deliveries as deliveries_module
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    MemberGone,
    Operation,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
)
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.engine.images import through_a_snapshot

if TYPE_CHECKING:
    from typing import TypeAlias

    import pytest

    Delivery: TypeAlias = tuple[bytes, Item]

MEMBERS = [b"A" * 16, b"B" * 16]
KINDS = ["offer", "take", "confirm", "return", "gone", "late", "anew"]
OFTEN = ["offer", "take", "take", "return"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS + OFTEN), st.sampled_from(MEMBERS), st.integers(0, 99)),
    max_size=60,
)


class Deliveries:
    """One queue, its members' lives, and every delivery that there ever was."""

    def __init__(self) -> None:
        self.state = State()
        self.incarnations = dict.fromkeys(MEMBERS, 1)
        self.counters = dict.fromkeys(MEMBERS, 0)
        self.made: list[Delivery] = []
        self.waiting: set[int] = set()
        self.in_flight: dict[int, Delivery] = {}

    def apply(self, member: bytes, *operations: Operation) -> object:
        self.counters[member] += 1
        record = Record(member, self.incarnations[member], self.counters[member], operations)
        outcomes = self.state.apply(self.state.sequence + 1, 0, record)
        assert outcomes is not None
        return outcomes[0] if outcomes else None

    def offer(self, member: bytes) -> None:
        assert self.apply(member, QueueOffer("q", b"v", None, 100)) is True
        self.waiting.add(self.state.sequence << 16)

    def take(self, member: bytes) -> None:
        item = self.apply(member, QueueTake("q"))
        if not self.waiting:
            assert item is None
            return
        assert isinstance(item, Item)
        assert item.item_id == min(self.waiting)
        self.waiting.remove(item.item_id)
        self.in_flight[item.item_id] = member, item
        self.made.append((member, item))

    def land(self, kind: str, pick: int) -> None:
        """Send what was perhaps sent before, and perhaps in an incarnation that is over."""
        if not self.made:
            return
        member, item = delivery = self.made[pick % len(self.made)]
        operation = QueueConfirm if kind == "confirm" else QueueReturn
        self.apply(member, operation("q", item.item_id, item.take_id))
        if self.in_flight.get(item.item_id) == delivery:
            del self.in_flight[item.item_id]
            if kind == "return":
                self.waiting.add(item.item_id)

    def end_incarnation(self, member: bytes, proposer: bytes | None) -> None:
        if proposer is not None:
            self.apply(proposer, MemberGone(member, self.incarnations[member]))
        self.incarnations[member] += 1
        self.counters[member] = 0
        if proposer is None:
            self.apply(member)
        ended = [item_id for item_id, (taker, _) in self.in_flight.items() if taker == member]
        for item_id in ended:
            del self.in_flight[item_id]
            self.waiting.add(item_id)

    def check(self) -> None:
        queue = self.state.queues.by_name.get("q")
        waiting = [] if queue is None else [item[0] for item in queue.items]
        assert waiting == sorted(self.waiting)
        assert (set() if queue is None else set(queue.in_flight)) == set(self.in_flight)


@given(STEPS)
@settings(max_examples=300)
def test_a_late_landing_touches_no_other_delivery(steps: list[tuple[str, bytes, int]]) -> None:
    deliveries = Deliveries()
    for kind, member, pick in steps:
        match kind:
            case "offer":
                deliveries.offer(member)
            case "take":
                deliveries.take(member)
            case "gone":
                deliveries.end_incarnation(member, MEMBERS[1 - MEMBERS.index(member)])
            case "late":  # somebody ends an incarnation that is over
                end = MemberGone(member, deliveries.incarnations[member] - 1)
                deliveries.apply(MEMBERS[1 - MEMBERS.index(member)], end)
            case "anew":
                deliveries.end_incarnation(member, None)
            case _:
                deliveries.land(kind, pick)
        deliveries.check()
        deliveries.state = through_a_snapshot(deliveries.state)


def test_a_return_of_the_first_delivery_leaves_the_second_alone() -> None:
    deliveries = Deliveries()
    deliveries.offer(MEMBERS[0])
    deliveries.take(MEMBERS[0])
    deliveries.land("return", 0)
    deliveries.take(MEMBERS[0])
    deliveries.land("return", 0)
    deliveries.land("confirm", 0)
    deliveries.check()
    assert len(deliveries.in_flight) == 1
    deliveries.land("confirm", 1)
    assert not deliveries.state.queues.by_name


def test_landings_that_name_no_delivery_land_what_their_sender_has() -> None:
    """As in logs that were written before the end of a delivery named one."""
    deliveries = Deliveries()
    for _ in range(2):
        deliveries.offer(MEMBERS[0])
        deliveries.take(MEMBERS[0])
    first, second = (item.item_id for _, item in deliveries.made)
    landings = (QueueConfirm("q", first, 0), QueueReturn("q", second, 0))
    deliveries.apply(MEMBERS[1], *landings)
    deliveries.check()
    deliveries.apply(MEMBERS[0], *landings)
    assert deliveries.state.queue_size("q") == 1
    assert not deliveries.state.queues.by_name["q"].in_flight


async def test_an_item_of_a_queue_that_is_gone_is_waited_for_by_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries_module, "DRAIN_TIMEOUT_S", 3600)
    engine = open_engine(FixedStructures())
    await engine.start()
    driver = Driver(engine)
    assert await driver.offer("q", b"1") is True
    item = await driver.poll("q")
    assert isinstance(item, Item)
    engine.use_structures(FixedStructures(queues={"q": None}))
    engine.queue_confirm(item)
    await engine.stop()
