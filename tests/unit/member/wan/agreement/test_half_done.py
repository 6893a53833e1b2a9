"""Calls of which the store or a shard takes a part alone, and what they leave behind."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.values.system_store import Put, carry_out
from grid_member.engine.api import Reason, Refused
from grid_member.engine.state.operations import WanMemberState
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.wan.agreement import keeper as keepers
from grid_member.wan.agreement.calls import WanUnknownError
from grid_member.wan.agreement.store import CONFIG, STATE, state_put
from tests.unit.member.wan.agreement.test_live import (
    EXTRA,
    addition,
    agreed,
    put,
    status,
    tell,
    text,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember

LONDON = PublisherName("r", "london")
REFUSED = Refused(Reason.UNAVAILABLE, "a test refuses it")
GONE = uuid.uuid4()


class Parts:
    """A running member, its keeper and its only shard."""

    def __init__(self, member: RunningMember) -> None:
        part: Any = member.member.management.wan
        self.member, self.part = member, part
        self.calls, self.keeper = part.calls, part.calls.keeper
        self.store = member.member.management.store

    @property
    def wan(self) -> Any:
        (shard,) = self.keeper.shards.with_data()
        return shard.state.wan

    def state(self, member: uuid.UUID | None = None) -> PublisherState:
        of = member or uuid.UUID(self.keeper.own_uuid)
        found: PublisherState = self.wan.member_state(LONDON, of.bytes)
        return found

    async def carry_out(self, *puts: Put) -> None:
        assert not any(await carry_out(*(each.begin(self.store) for each in puts)))

    async def look(self) -> None:
        """Look; what it tells shards is there when this returns."""
        await self.keeper.look()
        await self.carry_out(Put("test", b""))


async def started(start_member: Callable[..., RunningMember], extra: str = EXTRA) -> Parts:
    """Return a member that has agreed, and looks at nothing by itself any more."""
    member = await start_member(text(extra)).start()
    await until(lambda: agreed(member))
    parts = Parts(member)
    await parts.part.close()
    return parts


async def test_a_state_that_came_beside_a_removal_is_not_that_of_a_new_publisher(
    start_member: Callable[..., RunningMember],
) -> None:
    parts = await started(start_member)
    assert (await tell(parts.member, "removeWanConfig", "r", "london")).status == 200
    await parts.carry_out(state_put(LONDON, parts.keeper.own_uuid, PublisherState.PAUSED))
    assert (await tell(parts.member, "addWanConfig", addition())).status == 200
    assert parts.keeper.stored.states() == {}
    await parts.look()
    await parts.look()
    assert parts.state() is PublisherState.REPLICATING


async def test_states_of_a_publisher_that_is_no_more_are_forgotten(
    start_member: Callable[..., RunningMember],
) -> None:
    parts = await started(start_member)
    assert (await tell(parts.member, "removeWanConfig", "r", "london")).status == 200
    await parts.carry_out(state_put(LONDON, parts.keeper.own_uuid, PublisherState.PAUSED))
    await parts.look()
    assert parts.store.system_items(STATE) == []


async def test_a_call_that_a_removal_overtakes_says_so_and_leaves_nothing(
    start_member: Callable[..., RunningMember],
) -> None:
    parts = await started(start_member)
    named = parts.calls.publisher("r", "london")
    assert (await tell(parts.member, "removeWanConfig", "r", "london")).status == 200
    with pytest.raises(WanUnknownError, match="wan-replication r has no publisher london"):
        await parts.calls.set_state(named, PublisherState.PAUSED)
    assert parts.store.system_items(STATE) == []


def refuse_puts(parts: Parts, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Have the log refuse, a tick later, what is put below a key."""
    engine: Any = parts.store
    put = engine.system_put

    def system_put(key: str, value: Any, done: Callable[[object], None], **more: int) -> None:
        if key.startswith(prefix):
            asyncio.get_running_loop().call_soon(done, REFUSED)
        else:
            put(key, value, done, **more)

    monkeypatch.setattr(engine, "system_put", system_put)


@pytest.mark.parametrize("call", ["pausePublisher", "stopPublisher"])
async def test_a_state_that_is_not_kept_is_told_to_no_shard(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    parts = await started(start_member)
    with monkeypatch.context() as patch:
        refuse_puts(parts, patch, STATE)
        assert (await tell(parts.member, call, "r", "london")).status == 503
    await parts.look()
    assert parts.state() is PublisherState.REPLICATING
    assert (await status(parts.member))["members"][0]["state"] == "REPLICATING"


async def test_an_agreement_that_is_not_kept_is_told_to_no_shard(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = await started(start_member)
    with monkeypatch.context() as patch:
        refuse_puts(parts, patch, CONFIG)
        assert (await tell(parts.member, "removeWanConfig", "r", "london")).status == 503
    await parts.carry_out(Put("test", b""))
    assert parts.wan.agreement.revision == parts.keeper.stored.config.revision
    assert [each.name for each in parts.wan.agreement.publishers] == [LONDON]


def refuse_telling(parts: Parts, monkeypatch: pytest.MonkeyPatch, times: int) -> list[object]:
    """Have shards refuse what they are told so many times; return what they were told."""
    shards, told = parts.keeper.shards, []
    propose = shards.propose

    def refusing(operation: Any, done: Callable[[object], None]) -> None:
        told.append(operation)
        if len(told) <= times:
            done(REFUSED)
        else:
            propose(operation, done)

    monkeypatch.setattr(shards, "propose", refusing)
    monkeypatch.setattr(keepers, "TELLING_REST_S", 0.0)
    return told


CALLS = [
    ("pausePublisher", ("r", "london")),
    ("removeWanConfig", ("r", "london")),
    ("addWanConfig", (addition().replace('"london"', '"paris"'),)),
    ("clearWanQueues", ("r", "london")),
]


def told_all(parts: Parts, call: str) -> bool:
    """Tell whether the shard goes by what a call has changed."""
    names = [each.name.publisher for each in parts.wan.agreement.publishers]
    if call == "pausePublisher":
        return parts.state() is PublisherState.PAUSED
    if call == "clearWanQueues":
        return not parts.wan.queue_sizes(LONDON)
    return names == ([] if call == "removeWanConfig" else ["london", "paris"])


@pytest.mark.parametrize(("call", "parameters"), CALLS)
async def test_what_a_shard_refuses_at_first_is_complete_when_it_is_answered(
    start_member: Callable[..., RunningMember],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    parameters: tuple[str, ...],
) -> None:
    parts = await started(start_member)
    await put(parts.member, "a")
    told = refuse_telling(parts, monkeypatch, 2)
    assert (await tell(parts.member, call, *parameters)).status == 200
    assert len(told) == 3
    assert told_all(parts, call)


@pytest.mark.parametrize(("call", "parameters"), CALLS)
async def test_what_a_shard_refuses_for_long_is_told_truly_and_completed_later(
    start_member: Callable[..., RunningMember],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    parameters: tuple[str, ...],
) -> None:
    parts = await started(start_member)
    await put(parts.member, "a")
    with monkeypatch.context() as patch:
        patch.setattr(keepers, "TELLING_PATIENCE_S", 0.0)
        refuse_telling(parts, patch, 1_000_000)
        reply = await tell(parts.member, call, *parameters)
    assert reply.status == 503
    reason = reply.header("X-Grid-Error")
    assert not told_all(parts, call)
    if call == "clearWanQueues":
        assert reason == "not all queues are cleared: a test refuses it"
        return
    assert reason == ("the change is kept, and a shard does not go by it yet: a test refuses it")
    # As when the member was killed between the two parts.
    await parts.look()
    await parts.look()
    assert told_all(parts, call)


async def test_a_member_that_lacks_the_shards_does_not_say_that_they_were_told(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = await started(start_member)
    monkeypatch.setattr(keepers, "TELLING_PATIENCE_S", 0.0)
    refuse_telling(parts, monkeypatch, 1_000_000)
    monkeypatch.setattr(parts.keeper.shards, "with_data", list)
    assert (await tell(parts.member, "removeWanConfig", "r", "london")).status == 503


async def test_a_state_of_which_nothing_is_kept_does_not_stay_in_a_shard(
    start_member: Callable[..., RunningMember],
) -> None:
    parts = await started(start_member)
    own = uuid.UUID(parts.keeper.own_uuid).bytes
    paused = WanMemberState(LONDON, own, PublisherState.PAUSED)
    await carry_out(lambda done: parts.keeper.shards.propose(paused, done))
    await parts.look()
    assert parts.state() is PublisherState.PAUSED, "a call may be under way"
    await parts.look()
    assert parts.state() is PublisherState.REPLICATING


async def test_the_queue_of_a_member_that_is_gone_is_sent_when_others_send(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several in memory restarts as another member: no call reaches its former queue."""
    monkeypatch.setattr(keepers, "LOOKS_IN_MEMORY", 3)
    waits = EXTRA.replace("realm: to", "realm: to, initial-publisher-state: PAUSED")
    parts = await started(start_member, waits)
    await put(parts.member, "a")
    # As the member had declared its configuration before.
    await parts.carry_out(Put(f"wan/member/{GONE}", b"digest"))
    parts.wan.maps["m"].queues[LONDON].queue("b", GONE.bytes, 1)

    for _ in range(6):
        await parts.look()
    assert parts.state(GONE) is PublisherState.PAUSED, "no member sends yet"
    assert (await tell(parts.member, "resumePublisher", "r", "")).status == 200
    await parts.look()
    await parts.look()
    assert parts.state(GONE) is PublisherState.REPLICATING
    assert parts.state() is PublisherState.REPLICATING
