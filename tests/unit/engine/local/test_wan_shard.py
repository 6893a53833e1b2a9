"""Promise: a sender is woken by whatever may let it send more."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from grid_member.engine.local.wan import WanShard
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    MapPut,
    Operation,
    Record,
    WanAgree,
    WanMemberState,
    WanMerge,
)
from grid_member.engine.wan.agreement import MergePolicy, PublisherState
from grid_member.engine.wan.changes import Change, ChangeKind
from tests.unit.engine.wan.agreements import LONDON, MEMBERS, agreement

if TYPE_CHECKING:
    from grid_member.engine.shard.shard import Shard

NOW_MS = 1_800_000_000_000


class FakeShard:
    """A shard that applies what it is given at once."""

    def __init__(self) -> None:
        self.state = State()

    def apply(self, operation: Operation) -> None:
        sequence = self.state.sequence + 1
        self.state.apply(sequence, NOW_MS, Record(MEMBERS[0], 1, sequence, (operation,)))


def test_a_shard_has_changed_when_more_may_be_sent_though_its_clock_stays() -> None:
    fake = FakeShard()
    fake.apply(WanAgree(agreement()))
    shard = WanShard(cast("Shard", fake), lambda _: NOW_MS, lambda _: False)
    assert shard.changed()
    assert not shard.changed()
    clock = fake.state.wan.clock
    old = Change("m", ChangeKind.PUT, "k", 5, b"v", None, 0, 0, (b"t" * 16,))
    for operation in (
        WanMerge(old, MergePolicy.LATEST_UPDATE, None),
        WanMemberState(LONDON, MEMBERS[0], PublisherState.PAUSED),
    ):
        fake.apply(operation)
        assert shard.changed()
        assert not shard.changed()
    assert fake.state.wan.clock == clock


def test_nothing_is_sent_while_a_consistent_cut_goes_on() -> None:
    fake, held = FakeShard(), [True]
    fake.apply(WanAgree(agreement()))
    fake.apply(MapPut("m", "k", b"v", None, 0))
    shard = WanShard(cast("Shard", fake), lambda _: NOW_MS, lambda _: held[0])
    assert shard.sendable(LONDON) == {}
    held[0] = False
    assert shard.sendable(LONDON) == {("m", MEMBERS[0]): 1}


def test_a_sender_that_reads_when_a_consistent_cut_begins_reads_no_further() -> None:
    fake, held = FakeShard(), [False]
    fake.apply(WanAgree(agreement()))
    fake.apply(MapPut("m", "k", b"v", None, 0))
    shard = WanShard(cast("Shard", fake), lambda _: NOW_MS, lambda _: held[0])
    (queue,) = shard.sendable(LONDON)
    (first,) = shard.read(LONDON, queue, 0, 10, 1 << 20)
    fake.apply(MapPut("m", "l", b"v", None, 0))
    held[0] = True
    assert shard.read(LONDON, queue, first.place, 10, 1 << 20) == []
    held[0] = False
    (second,) = shard.read(LONDON, queue, first.place, 10, 1 << 20)
    assert (first.change.key, second.change.key) == ("k", "l")


def test_places_say_nothing_when_the_state_is_another_one() -> None:
    fake = FakeShard()
    shard = WanShard(cast("Shard", fake), lambda _: NOW_MS, lambda _: False)
    epochs = [shard.epoch(), shard.epoch()]
    fake.state = State()
    epochs += [shard.epoch(), shard.epoch()]
    assert epochs == [0, 0, 1, 1]
