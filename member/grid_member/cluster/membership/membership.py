"""This member among the others: how it joins, stays, sees who is there, and leaves.

    join:    current ─▶ lease ─▶ lock ─▶ may it join in this state? ─▶ on the list
    stays:   a heartbeat every `RENEW_S`; it names the barriers that the member has passed
    leaves:  off the list ─▶ (the member finishes what was begun) ─▶ its lease ends

A member that is silent is taken off the list by the others; when it was not dead after all it finds
that out and joins again. The engine tells with `follow` which keys of the system store changed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.broadcast_barrier import BARRIER, SHUTDOWN, BroadcastBarriers
from grid_member.cluster.membership.configuration_vote import VOTE, ConfigurationVote
from grid_member.cluster.membership.failure_detector import RENEW_S
from grid_member.cluster.membership.heartbeat import CLOSED_STATES, Heartbeat
from grid_member.cluster.membership.locks import CHANGE, LockedError, Locks
from grid_member.cluster.membership.member_table import (
    LEASE,
    LEFT,
    MEMBER,
    NO_DISK,
    Description,
    MemberRecord,
    MemberTable,
)
from grid_member.cluster.membership.shutdowns import shutdown_request
from grid_member.cluster.values.conditions import Conditions
from grid_member.cluster.values.system_store import Put, carry_out, put_all
from grid_member.config.tree import ConfigError
from grid_member.engine.api import ClusterState, EngineError
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.replication import NO_MAJORITY
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from grid_member.cluster.membership.interfaces import Entrance, ReplicatedEngine
    from grid_member.cluster.membership.shutdowns import ShutdownRequest
    from grid_member.engine.log.log import Clock

TICK_S: Final = 0.5
"""How often time is looked at."""
JOIN_RETRY_S: Final = 0.5
LEAVE_PATIENCE_S: Final = 2.0
"""How long a stop waits for the log to take the member off the list."""
JOINING: Final = "join"
"""The purpose of who holds `CHANGE` to join."""
_TRANSITIONS: Final = frozenset({"change_state", "change_version", "shutdown"})
"""The purposes for which the cluster is in transition meanwhile."""
_WATCHED: Final = (MEMBER, LEASE, BARRIER, SHUTDOWN, VOTE)
"""Begin the keys that the membership goes by."""
_log: Final = logging.getLogger("grid.member")


class JoinRefusedError(EngineError):
    """The state of the cluster lets no further member in."""


class Membership:
    """The membership of one member. All of it belongs to one event loop."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        description: Description,
        *,
        server: Callable[[], str],
        clock_s: Callable[[], float],
        clock_ms: Clock,
        new_id: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Join nothing yet; server returns the name of the nats-server once that is known."""
        self.engine = engine
        self.description = description
        self._server = server
        self._clock_ms = clock_ms
        self.new_id = new_id
        self._sleep = sleep
        self.member_table = MemberTable(engine)
        self.conditions = Conditions(clock_s)
        self.disk = NO_DISK
        """How this member's disk is, for the others to show."""
        self.heartbeat = Heartbeat(self, clock_s)
        self.locks = Locks(self)
        self.barriers = BroadcastBarriers(self)
        self.configuration_vote = ConfigurationVote(self)
        self.on_gone: list[Callable[[str], None]] = []
        """Told the UUID of a member that writes nothing any more, on every member."""
        self.on_shutdown: Callable[[ShutdownRequest], None] = lambda _: None
        """Told once when this member is to stop with all others."""
        self.on_change: dict[str, Callable[[], None]] = {}
        """By prefix of a key: called when such a key of the system store changed."""
        self._entrance: Entrance | None = None
        self._joined_ms = 0
        self.joined = False
        """Whether this member is on the list."""
        self._joined_before = self._entering = self._leaving = self._stopping = False
        self._waiting: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # The documents

    def members(self) -> list[MemberRecord]:
        """Return the members in the order in which they joined, this one always among them."""
        found = self.member_table.members()
        if all(member.uuid != self.engine.member_uuid for member in found):
            found.append(self._record())
        return found

    def own_incarnation(self) -> tuple[str, str]:
        """Return this member's UUID and its present incarnation, which may change."""
        return self.engine.member_uuid, self.heartbeat.incarnation

    def _record(self) -> MemberRecord:
        """Return what this member tells of itself."""
        return MemberRecord(
            uuid=self.engine.member_uuid,
            incarnation=self.heartbeat.incarnation,
            address="" if self._entrance is None else self._entrance.address,
            server=self._server(),
            joined_ms=self._joined_ms,
            **self.description._asdict(),
        )

    @property
    def others(self) -> set[str]:
        """The UUIDs of the other members on the list."""
        return {member.uuid for member in self.member_table.members()} - {self.engine.member_uuid}

    @property
    def changing(self) -> bool:
        """Whether the cluster's state or version is being changed, by any member."""
        return any(found.purpose in _TRANSITIONS for found in self.locks.contenders(CHANGE))

    @property
    def waiting(self) -> str | None:
        """Why this member has not joined yet."""
        return None if self.joined else self._waiting

    def forgetting_puts(self, state: ClusterState) -> list[Put]:
        """Return what is forgotten when the cluster state becomes another one."""
        if state in CLOSED_STATES and self.engine.cluster_state in CLOSED_STATES:
            return []
        return [Put(LEFT + member.uuid, None) for member in self.member_table.left_members()]

    async def wait_for_barrier(self) -> bool:
        """Return when every member shows what was changed before; see `BroadcastBarriers.wait`."""
        return await self.barriers.wait(self.new_id())

    # Joining and leaving

    async def join(self, entrance: Entrance) -> bool:
        """Become a member; return False when that was given up because the member is to stop.

        Raises:
            JoinRefusedError: the cluster state lets nobody in.
            EngineError: this member cannot be part of the cluster.
            ConfigError: its configuration does not go with what was added in the cluster.
        """
        self._entrance = entrance
        self.keep(self._run())
        while not self._ending:
            if not await self.engine.current():
                self._wait_for(NO_MAJORITY)
            elif await self._try_to_enter(entrance):
                return True
            await self.conditions.until(lambda: self._ending, JOIN_RETRY_S)
        return False

    async def leave(self) -> None:
        """Get off the list; its lease goes on until `close`, for what is still to be finished.

        Whoever waits for something of the membership goes on, told that it does not come.
        """
        self._leaving = True
        # Who is getting on it just now has to be there first.
        await self.conditions.until(lambda: not self._entering, LEAVE_PATIENCE_S)
        if self.joined:
            own = self.engine.member_uuid
            puts = [Put(MEMBER + own, None)]
            if self.engine.cluster_state in CLOSED_STATES:
                puts.append(self._record().put_left())
            for put in puts:
                # What is not taken now the others make up for, who see the lease end.
                put.send(self.engine)
            await self.conditions.until(
                lambda: self.engine.system_get(MEMBER + own) is None, LEAVE_PATIENCE_S
            )
        self.joined = False
        self.conditions.end()

    async def close(self) -> None:
        """Send no further heartbeat."""
        self._leaving = True
        self.conditions.end()
        await end_tasks(*self._tasks)
        await self.heartbeat.close()
        await self.barriers.close()

    # Driven by the engine and by time

    def follow(self, keys: set[str]) -> None:
        """Hear which keys of the system store have changed."""
        if self._entrance is None:
            return
        try:
            self._follow_keys(keys)
        except Exception as error:
            failure(_log, "a change of the system store could not be followed", error)

    def _follow_keys(self, keys: set[str]) -> None:
        # A call with an Idempotency-Key changes other keys, and there may be many a second.
        if any(key.startswith(_WATCHED) for key in keys):
            self._look()
        else:
            self.conditions.look()
        for prefix, hook in self.on_change.items():
            if any(key.startswith(prefix) for key in keys):
                hook()

    def tick(self) -> None:
        """Hear that time has gone on."""
        self.heartbeat.beat_when_due()
        self.locks.tidy()
        self.barriers.tidy()
        self._look()

    def _look(self) -> None:
        gone = self.heartbeat.failure_detector.look(self.member_table.leases())
        for uuid in gone - {self.engine.member_uuid}:
            event(_log, logging.INFO, "member is gone", member=uuid)
            for hook in self.on_gone:
                hook(uuid)
        if not self._leaving:
            self.barriers.look()
            self.configuration_vote.look()
            self.heartbeat.look()
            self._check_own()
        self.conditions.look()

    def _check_own(self) -> None:
        own = self.engine.member_uuid
        if self.joined and self.engine.system_get(MEMBER + own) is None:
            event(_log, logging.WARNING, "taken off the list of members: joining again")
            self.joined = False
            self.heartbeat.begin_incarnation()
            self.keep(self._rejoin())
        request = shutdown_request(self.engine)
        if request is None or self._stopping:
            return
        # Nobody joins while there is a request: who has joined before is meant, also when it had
        # no lease as it was made.
        if self._joined_before or request.includes(own, self.heartbeat.incarnation):
            self._stopping = True
            self.on_shutdown(request)

    async def _run(self) -> None:
        while True:
            try:
                self.tick()
            except Exception as error:
                # Without its lease the member would be taken for gone.
                failure(_log, "a look at the members failed", error)
            await self._sleep(TICK_S)

    async def _rejoin(self) -> None:
        entrance = self._entrance
        while entrance is not None and not self._ending:
            try:
                if await self.engine.current() and await self._try_to_enter(entrance):
                    return
            except (EngineError, ConfigError) as refused:
                self._wait_for(str(refused))
            except Exception as error:
                failure(_log, "an attempt to join again failed", error)
            await self.conditions.until(lambda: self._ending, JOIN_RETRY_S)

    async def _try_to_enter(self, entrance: Entrance) -> bool:
        self.heartbeat.beat()
        # What a lock is worth depends on the lease.
        if not await self.conditions.until(lambda: self.heartbeat.has_lease, RENEW_S):
            return False
        if self.description.lite and not self.engine.replication().in_contact:
            self._wait_for("no member that holds data answers lite ones: start or upgrade those")
            return False  # in vain it would keep the lock from the others
        try:
            async with self.locks.hold(CHANGE, JOINING, RENEW_S):
                if not await self._finish_former_shutdown():
                    self._wait_for("members are stopping, as was asked of the whole cluster")
                    return False
                self._check_state()
                if not await self.agree_on_state():
                    return False
                # The version is not changed meanwhile: that takes the same lock.
                entrance.admit()
                return not self._ending and await self._enter(entrance)
        except LockedError:
            self._wait_for("the cluster state is being changed, or another member joins")
            return False

    async def _finish_former_shutdown(self) -> bool:
        """Begin the cluster's next incarnation when the last one was ended and is over."""
        request = shutdown_request(self.engine)
        if request is None:
            return True
        leases = self.member_table.leases()
        if any(request.includes(uuid, lease.incarnation) for uuid, lease in leases.items()):
            return False
        state = self.engine.restart_state
        outcomes = await carry_out(
            lambda done: self.engine.change_cluster_state(state, done),
            *(put.begin(self.engine) for put in self.forgetting_puts(state)),
            Put(SHUTDOWN, None).begin(self.engine),
        )
        return not any(outcomes)

    async def agree_on_state(self) -> bool:
        """Let every shard have the cluster's state: one in memory has lost it in a full stop."""
        state = self.engine.cluster_state
        transient = state is not self.engine.restart_state
        outcomes = await carry_out(
            lambda done: self.engine.change_cluster_state(state, done, transient=transient)
        )
        return not any(outcomes)

    def _check_state(self) -> None:
        state = self.engine.cluster_state
        if state not in CLOSED_STATES:
            return
        own = self._record()
        for known in (*self.member_table.left_members(), *self.member_table.members()):
            if known.uuid == own.uuid or known.address == own.address:
                return
        raise JoinRefusedError(
            f"the cluster state is {state.name}: only members that left it in that state may "
            "join; change it to active or no_migration first"
        )

    async def _enter(self, entrance: Entrance) -> bool:
        own = self.engine.member_uuid
        others = [member for member in self.member_table.members() if member.uuid != own]
        # After all that are there, whatever the clocks say.
        self._joined_ms = max([self._clock_ms(), *(other.joined_ms + 1 for other in others)])
        record = self._record()
        left = self.member_table.left_members()
        back = [
            Put(LEFT + m.uuid, None) for m in left if m.address == record.address or m.uuid == own
        ]
        puts = [record.put(), *back, *entrance.entry_puts()]
        self._entering = True
        try:
            self.joined = await put_all(self.engine, puts) is None
        finally:
            self._entering = False
            self.conditions.look()
        self._joined_before = self._joined_before or self.joined
        return self.joined

    def keep(self, work: Coroutine[object, object, None]) -> None:
        """Run something for as long as this member is one."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            failure(_log, "what this member was doing has ended", error)

    # Inside

    @property
    def _ending(self) -> bool:
        return self._leaving or self._entrance is None or self._entrance.ending

    def _wait_for(self, reason: str) -> None:
        if reason != self._waiting:
            event(_log, logging.INFO, "waiting to join", reason=reason)
        self._waiting = reason
