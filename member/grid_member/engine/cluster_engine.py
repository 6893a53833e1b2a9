"""The engine of one of several members: the same state machine over logs that all share.

What a local engine reads at once is read here when the lane is current, so that nobody is ever
shown less than was answered before, by any member.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from grid_member.engine.cluster_lanes import ClusterLanes
from grid_member.engine.engine import LocalEngine
from grid_member.engine.landing import LANDING_RETRY_S
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.peers import SERVER, former_servers, peers, place_of, remove_server
from grid_member.engine.operations import MemberGone, SystemPut, SystemRemove
from grid_member.engine.polls import QueuePoll, QueuePolls
from grid_member.engine.system_side import ignore

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from grid_member.engine.api import ClusterState, Done, Entry, Item, Refused, Structures
    from grid_member.engine.cluster_lane import ClusterLane
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.lane import Lane
    from grid_member.engine.log import Clock
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.replication import Replication
    from grid_member.engine.stored import Stored

CURRENT_RETRY_S: Final = 0.2
FORMER_RETRY_S: Final = 1.0
"""How often it is looked whether a former server is there still."""
FORMER_LOOKS: Final = 3
"""Looks in a row that have to find it silent before it is taken off."""
_log: Final = logging.getLogger("grid.engine.nats")


def open_cluster_engine(
    structures: Structures, settings: ClusterSettings, *, clock: Clock
) -> ClusterEngine:
    """Return the engine of one of several members, to be started.

    Args:
        structures: finds the settings of maps and queues.
        settings: how the member finds the others.
        clock: milliseconds since the epoch, for looking for what is over.
    """
    return ClusterEngine(structures, ClusterLanes(settings), clock)


class ClusterEngine(LocalEngine):
    """The `Engine` of a member of a cluster."""

    _lanes: ClusterLanes

    def __init__(self, structures: Structures, lanes: ClusterLanes, clock: Clock) -> None:
        super().__init__(structures, lanes, clock)
        self._removing: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> str | None:
        """Why the start is not over yet; None when nothing is waited for."""
        return self._lanes.waiting

    @property
    def client(self) -> NatsClient:
        """The connection to the member's own server."""
        return self._lanes.client

    @property
    def server_name(self) -> str | None:
        """The name of the member's own server."""
        return self._lanes.server_name

    @property
    def restart_state(self) -> ClusterState:
        """The cluster state without transient changes."""
        return self._system_lane.state.restart_state

    def end_waiting(self) -> None:
        """End a start that waits for the other members."""
        self._lanes.end_waiting()

    def replication(self) -> Replication:
        """Return how well the data is replicated."""
        return self._lanes.replication

    def watch_system(self, changed: Callable[[set[str]], None]) -> None:
        """Tell changed which keys of the system store a batch changed, whoever did it."""
        self._lanes.system_changed = changed

    async def current(self) -> bool:
        """Wait until everything is applied here that was answered before, on any member.

        False when no quorum tells in time.
        """
        if self._refusal is not None:
            return False
        outcome: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()
        self._system_lane.when_current(_setter(outcome))
        return await outcome is None

    def member_gone(self, member: uuid.UUID) -> None:
        """Give back what the member has in flight: it is not there any more."""
        for lane in self._lanes.cluster_lanes:
            mark = lane.state.members.get(member.bytes)
            if mark is not None:
                self._end_life(lane, MemberGone(member.bytes, mark.incarnation))

    # Reads

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        settings = self._structures.map_settings(name)
        if settings is None or self._refusal is not None:
            super().map_get(name, key, done)  # which tells why not
            return
        read = super().map_get

        def reader(refused: Refused | None) -> None:
            if refused is None:
                read(name, key, done)
            else:
                done(refused)

        self._cluster_lane(self._maps.lane(name, settings.persistent)).when_current(reader)

    def map_peek(self, name: str, key: str) -> Stored | None:
        """Return None: nothing can be had at once."""
        return None

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        settings = self._structures.queue_settings(name)
        if settings is None or self._refusal is not None:
            super().queue_size(name, done)
            return
        count = super().queue_size

        def reader(refused: Refused | None) -> None:
            if refused is None:
                count(name, done)
            else:
                done(refused)

        self._cluster_lane(self._queues.lane(name, settings.persistent)).when_current(reader)

    # Inside

    def _end_life(self, lane: ClusterLane, end: MemberGone) -> None:
        """Propose the end of a member's life until the log took it; it is told of only once."""
        mark = lane.state.members.get(end.member)
        if self._refusal is not None or mark is None or mark.incarnation != end.incarnation:
            return

        def answer(outcome: Refused | None) -> None:
            if outcome is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(LANDING_RETRY_S, self._end_life, lane, end)

        lane.propose(end, answer, 0, always=True)

    @property
    def _system_lane(self) -> ClusterLane:
        return self._lanes.cluster_lanes[0]

    @property
    def _now_ms(self) -> int:
        # Members' clocks differ: the log's time is what they have in common.
        lane = self._system_lane
        silence_s = time.monotonic() - lane.heard_s
        return lane.state.timestamp_ms + int(silence_s * 1000)

    def _cluster_lane(self, lane: Lane) -> ClusterLane:
        return lane  # type: ignore[return-value]  # all lanes of these lanes are

    async def _begin(self) -> None:
        for lane in self._lanes.cluster_lanes:
            await self._catch_up(lane)
        self._removing = asyncio.get_running_loop().create_task(self._remove_former())

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        if self._removing is not None:
            self._removing.cancel()
        await super().stop()

    async def _remove_former(self) -> None:
        """Take the servers that this member had before off those that count."""
        settings = self._lanes.settings
        own, place = self.server_name, place_of(settings)
        if own is None or len(settings.members) == 1:
            return
        # The member serves nobody yet, but this is for the members themselves.
        lane = self._system_lane
        lane.propose_system(SystemPut(SERVER + own, place, 0), ignore)
        former = former_servers(self.system_items(SERVER), own, place)
        silent = 0
        while former:
            name = former[0]
            try:
                found = await peers(self._lanes.system)
                silent = silent + 1 if name in found.silent else 0
                if silent >= FORMER_LOOKS:
                    await remove_server(self._lanes.system, name)
                    silent = 0
                elif name not in found.names:
                    lane.propose_system(SystemRemove(SERVER + name), ignore)
                    former.pop(0)
                    continue
            except NatsError as error:
                _log.info("the former server %s is still there: %s", name, error)
            await asyncio.sleep(FORMER_RETRY_S)

    async def _catch_up(self, lane: ClusterLane) -> None:
        """Wait until the lane is current, for as long as it takes."""
        while True:
            outcome: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()
            lane.when_current(_setter(outcome))
            if await outcome is None:
                return
            if self._lanes.ended:
                return
            await asyncio.sleep(CURRENT_RETRY_S)

    def _make_polls(self, name: str, loop: asyncio.AbstractEventLoop) -> QueuePolls:
        polls = _ClusterPolls(name, loop, self.queue_return, self._landings.taken)
        polls.ended = lambda: self._refusal is not None
        return polls


class _ClusterPolls(QueuePolls):
    """Polls of a queue that other members offer to: only the log can tell that it is empty.

    A take that comes back empty is no exception here, so the order is kept by number.
    """

    ended: Callable[[], bool]
    """Whether nobody waits any more: the member stops."""
    _tickets = 0

    def poll(self, lane: Lane, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Take the head of the queue, or wait for one."""
        poll = self._made(timeout_s, done)
        if poll.done is not None:
            if self._waiting:
                self.serve(lane)
            self._tickets += 1
            poll.ticket = self._tickets
            self._send(lane, poll)
        return poll

    def _wait_again(self, poll: QueuePoll) -> None:
        if self.ended():
            poll.finish(None)
            return
        last = next(reversed(self._waiting), None)
        first = next(iter(self._waiting), None)
        self._wait(poll)
        if last is None or first is None or poll.ticket > last.ticket:
            return
        self._waiting.move_to_end(poll, last=False)
        if poll.ticket > first.ticket:
            in_order = sorted(self._waiting, key=lambda one: one.ticket)
            self._waiting.clear()
            self._waiting.update(dict.fromkeys(in_order))


def _setter(
    outcome: asyncio.Future[Refused | None],
) -> Callable[[Refused | None], None]:
    def set_outcome(refused: Refused | None) -> None:
        if not outcome.done():
            outcome.set_result(refused)

    return set_outcome
