"""What a shard of a cluster does with records whose fate others decide."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Entry, Item, Reason, Refused
from grid_member.engine.leasehold import steady_s
from grid_member.engine.replicated import replicated_shard as shard_module
from grid_member.engine.state.operations import ClusterStateChange, QueueOffer, QueueTake, Record
from tests.unit.engine.cluster.proposals import OTHER, Proposals, put
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.replicated.replicated_shard import ReplicatedShard


async def test_what_comes_right_behind_the_end_of_its_life_is_answered() -> None:
    proposals = Proposals()
    before = await proposals.propose("before", put("a"))
    late = await proposals.propose("late", put("b"))
    await proposals.propose("on its way", put("c"))
    proposals.come_back(before, proposals.gone(1), late)
    assert proposals.answers["before"] is None
    assert isinstance(proposals.answers["late"], Refused)
    assert isinstance(proposals.answers["on its way"], Refused)
    state = proposals.shard.state
    assert state.entry("m", "a", 0) == Entry(b"v", None)
    assert state.entry("m", "b", 0) is None
    proposals.come_back()
    assert not proposals.shard.busy


async def test_a_new_life_goes_on() -> None:
    proposals = Proposals()
    await proposals.propose("late", put("a"))
    old = list(proposals.log.on_their_way)
    proposals.come_back(proposals.gone(1))
    proposals.come_back(*old)
    proposals.come_back()
    await proposals.propose("new", put("b"))
    proposals.come_back()
    assert isinstance(proposals.answers["late"], Refused)
    assert proposals.answers["new"] is None
    assert proposals.shard.state.entry("m", "a", 0) is None
    assert proposals.shard.state.entry("m", "b", 0) == Entry(b"v", None)


async def test_a_reader_waits_on_through_the_end_of_a_life() -> None:
    proposals = Proposals()
    heard: list[Refused | None] = []
    proposals.shard.read_when_current(heard.append)
    await asyncio.sleep(0)
    proposals.come_back(proposals.gone(1))
    assert heard == []
    proposals.come_back()
    assert heard == [None]
    assert not proposals.shard.busy


@pytest.mark.parametrize("frame_groups", [False, True])
async def test_what_a_former_life_took_returns_and_is_taken_once(frame_groups: bool) -> None:
    proposals = Proposals()
    await proposals.propose("offered", QueueOffer("q", b"i", None, 10))
    proposals.come_back()
    take = await proposals.propose("taken", QueueTake("q"))
    if frame_groups:
        proposals.come_back(proposals.gone(1), take)
    else:
        proposals.come_back(proposals.gone(1))
        proposals.come_back(take)
    assert isinstance(proposals.answers["taken"], Refused)
    proposals.come_back()
    await proposals.propose("taken again", QueueTake("q"))
    proposals.come_back()
    assert isinstance(proposals.answers["taken again"], Item)


def _holds(shard: ReplicatedShard) -> bool:
    return shard.leasehold.holds


async def test_behind_the_end_of_a_lease_another_life_begins() -> None:
    """Before that nothing can be told: the others may be ending the one that took the item."""
    proposals = Proposals()
    shard = proposals.shard
    shard.leasehold.hold(-math.inf)
    later_s = steady_s() + 1000
    shard.lease(later_s, ended=True)
    assert not proposals.log.on_their_way, "nothing was taken in this life yet"
    await proposals.propose("offered", QueueOffer("q", b"i", None, 10))
    proposals.come_back()
    await proposals.propose("taken", QueueTake("q"))
    proposals.come_back()
    assert isinstance(proposals.answers["taken"], Item)
    await proposals.propose("late", put("a"))
    shard.lease(later_s, ended=False)
    assert "late" not in proposals.answers, "nobody ended anything: it may come back yet"
    shard.lease(later_s, ended=True)
    assert _holds(shard)
    assert isinstance(proposals.answers["late"], Refused)
    proposals.come_back()
    assert shard.state.queue_size("q") == 1, "nobody hears of the one that was taken"
    proposals.come_back(proposals.gone(1))
    assert not _holds(shard), "the others have ended it"
    on_their_way = len(proposals.log.sent)
    shard.lease(later_s, ended=True)
    assert _holds(shard)
    assert len(proposals.log.sent) == on_their_way, "that is the one that they began"


async def test_no_life_begins_while_the_log_is_read() -> None:
    """What was sent in the former life is looked for in it."""
    proposals = Proposals()
    shard = proposals.shard
    later_s = steady_s() + 1000
    shard.lease(steady_s(), ended=False)
    shard.reload()
    shard.lease(later_s, ended=True)
    assert not _holds(shard)
    await condition(lambda: proposals.log.resumed == 1)
    await condition(lambda: shard._reloading is None)
    shard.lease(later_s, ended=False)
    assert _holds(shard)
    assert proposals.log.sent[-1].incarnation == proposals.log.sent[0].incarnation + 1
    proposals.come_back()
    assert not shard.busy


async def test_each_copy_of_a_record_but_the_first_changes_nothing() -> None:
    proposals = Proposals()
    offer = await proposals.propose("offered", QueueOffer("q", b"i", None, 10))
    copies: Sequence[Record] = [offer, offer, offer]
    proposals.come_back(*copies)
    assert proposals.answers["offered"] is True
    assert proposals.shard.state.queue_size("q") == 1


NO_QUORUM = Refused(Reason.UNAVAILABLE, "no quorum")


async def without_a_quorum(proposals: Proposals) -> None:
    """Give up what is on its way, as a log without a quorum does."""
    proposals.log.refusal = NO_QUORUM
    proposals.shard.take_unknown(proposals.log.withdraw(), NO_QUORUM)


async def probed() -> None:
    """Wait for as long as it takes to ask another log without a quorum a few times."""
    other = Proposals()
    await without_a_quorum(other)
    sent = len(other.log.sent)
    await condition(lambda: len(other.log.sent) > sent + 3)
    await other.shard.close()


async def test_a_stop_does_not_wait_for_what_only_asks_for_a_quorum(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shard_module, "PROBE_S", 0.001)
    proposals = Proposals()
    await proposals.propose("given up", put("a"))
    proposals.shard.lose_patience(5)
    await without_a_quorum(proposals)
    sent = len(proposals.log.sent)
    await condition(lambda: len(proposals.log.sent) > sent + 2)
    assert not proposals.shard.busy
    await asyncio.wait_for(proposals.shard.settle(), 1)
    assert "1 operations of shard 0 may not be done" in caplog.text
    await proposals.shard.close()
    sent = len(proposals.log.sent)
    await probed()
    assert len(proposals.log.sent) == sent


async def test_a_probe_that_comes_back_is_no_life_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_module, "PROBE_S", 0.001)
    proposals = Proposals()
    await without_a_quorum(proposals)
    await condition(lambda: bool(proposals.log.on_their_way))
    proposals.log.refusal = None
    proposals.come_back()
    await proposals.propose("again", put("a"))
    proposals.come_back()
    assert proposals.answers["again"] is None
    sent = len(proposals.log.sent)
    await probed()
    assert len(proposals.log.sent) == sent


async def test_a_damaged_log_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "PROBE_S", 0.001)
    proposals = Proposals()
    proposals.log.damaged = True
    sent = len(proposals.log.sent)
    await without_a_quorum(proposals)
    await probed()
    assert len(proposals.log.sent) == sent


async def test_nothing_is_proposed_to_a_log_that_confirms_nothing() -> None:
    proposals = Proposals()
    proposals.log.refusal = NO_QUORUM
    answers: list[object] = []
    proposals.shard.propose(put("a"), answers.append, 1)
    proposals.shard.propose_system(ClusterStateChange(ClusterState.PASSIVE), answers.append)
    assert answers == [NO_QUORUM] * 2


async def test_time_goes_on_from_the_end_of_the_replay() -> None:
    before_s = time.monotonic()
    assert Proposals().shard.heard_s >= before_s


async def test_every_member_hears_of_another_state() -> None:
    proposals = Proposals()
    heard: list[ClusterState] = []
    state = proposals.shard.state
    proposals.shard.state_changed = lambda: heard.append(state.cluster_state)
    changes = [ClusterState.PASSIVE, ClusterState.PASSIVE, ClusterState.ACTIVE]
    for counter, changed in enumerate(changes, 1):
        proposals.come_back(Record(OTHER, 1, counter, (ClusterStateChange(changed),)))
    assert heard == [ClusterState.PASSIVE, ClusterState.ACTIVE]
