"""The engine of a lite member: it serves all requests and holds no data.

Its one shard has what is about the cluster itself. What is asked of maps and queues is asked of a
member that holds them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import EngineError, Refused
from grid_member.engine.forward.client import ForwardClient
from grid_member.engine.forward.messages import Frame, FrameKind
from grid_member.engine.local.maps import unconfigured_refusal
from grid_member.engine.local.polls import MAX_TIMER_S, NoPoll
from grid_member.engine.local.system import NOT_STARTED, nothing
from grid_member.engine.local.usage import decode_usage
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.shard.answers import StateChange
from grid_member.engine.state.operations import ClusterStateChange, TransientStateChange

if TYPE_CHECKING:
    from grid_member.engine.api import ClusterState, Done, Entry, Item, Poll, Structures
    from grid_member.engine.forward.session import ForwardCall
    from grid_member.engine.local.usage import StructureUsage
    from grid_member.engine.log.log import Clock
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
    from grid_member.engine.state.snapshot import Snapshot

_NO_DATA: Final = (
    "this member holds no data (lite-member.enabled): a member that does makes the backups"
)


class LiteEngine(ClusterEngine):
    """The `Engine` of a member that holds no data."""

    def __init__(self, structures: Structures, shards: ReplicatedShards, clock: Clock) -> None:
        super().__init__(structures, shards, clock)
        self._forward_client: ForwardClient | None = None
        """None before the member has met the others."""

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        if self._forward_client is not None:
            await self._forward_client.stop()
        await super().stop()

    def end_polls(self) -> None:
        """End waiting polls with None, and let none wait from now on: the member stops soon."""
        if self._forward_client is not None:
            self._forward_client.end_polls()
        super().end_polls()

    def hurry(self) -> None:
        """Wait for nobody any more: for a stop."""
        if self._forward_client is not None:
            self._forward_client.hurry()
        super().hurry()

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Do nothing: what is taken is taken by forward servers, which have leases of their own."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, and a member with data is there."""
        forward_client = self._forward_client
        return super().in_contact and forward_client is not None and forward_client.in_contact

    @property
    def answering(self) -> bool:
        """Whether no shard refuses, and a member with data is there or was there a moment ago."""
        forward_client = self._forward_client
        return super().answering and forward_client is not None and forward_client.answering

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state; only who holds data can tell."""
        return self._forward_client is not None and self._forward_client.agreed

    async def moment(self) -> list[Snapshot]:
        """Refuse: there is nothing here to make a snapshot of.

        Raises:
            EngineError: always.
        """
        raise EngineError(_NO_DATA)

    async def cluster_usage(self) -> list[StructureUsage] | Refused:
        """Return what the structures hold, as a member tells that holds them."""
        outcome: asyncio.Future[Entry | Refused] = asyncio.get_running_loop().create_future()

        def tell(report: Entry | Refused) -> None:
            if not outcome.done():  # whoever asked may have left
                outcome.set_result(report)

        self._forward(Frame(FrameKind.USAGE, 0), tell)
        report = await outcome
        if isinstance(report, Refused):
            return report
        return await asyncio.to_thread(decode_usage, report.value)

    @property
    def _forward_name(self) -> bytes:
        """What this member is called as a forward server: nothing, as it is none."""
        return b""

    # The cluster state

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state in all shards but the first, which decides and is changed next."""
        self._forward(Frame(FrameKind.SPREAD, 0, state.value), done)

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state, here in the first shard; then in the others."""
        if self._refusal is not None:
            done(self._refusal)
            return
        kind = FrameKind.SPREAD_FOR_NOW if transient else FrameKind.SPREAD
        operation = TransientStateChange(state) if transient else ClusterStateChange(state)

        def changed(outcome: bool | Refused) -> None:
            def spread(others: bool | Refused) -> None:
                done(others if isinstance(others, Refused) else outcome)

            if isinstance(outcome, Refused):
                done(outcome)
            elif self._cluster.whole:
                StateChange(self.shards[1:], operation, nothing, spread).send()
            else:
                self._forward(Frame(kind, 0, state.value), spread)

        StateChange([self._system_shard], operation, self._state_changed, changed).send()

    # Maps

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        if self._has_map(name, done):
            self._forward(Frame(FrameKind.MAP_PUT, 0, name, key, value, content_type), done)

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        if self._has_map(name, done):
            self._forward(Frame(FrameKind.MAP_GET, 0, name, key), done)

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        if self._has_map(name, done):
            self._forward(Frame(FrameKind.MAP_REMOVE, 0, name, key), done)

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        if self._has_map(name, done):
            self._forward(Frame(FrameKind.MAP_CLEAR, 0, name), done)

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        if self._has_queue(name, done):
            self._forward(Frame(FrameKind.QUEUE_OFFER, 0, name, "", value, content_type), done)

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        if not self._has_queue(name, done):
            return NoPoll()
        wait_s = max(0.0, min(timeout_s, MAX_TIMER_S)) if self._polls_wait else 0.0
        frame = Frame(FrameKind.QUEUE_POLL, 0, name, number=int(wait_s * 1000))
        return self._forward(frame, done, wait_s) or NoPoll()

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        if self._forward_client is not None:
            self._forward_client.end_delivery(FrameKind.QUEUE_CONFIRM, item)

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        if self._forward_client is not None:
            self._forward_client.end_delivery(FrameKind.QUEUE_RETURN, item)

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        if self._has_queue(name, done):
            self._forward(Frame(FrameKind.QUEUE_SIZE, 0, name), done)

    # Inside

    def _serve_others(self) -> None:
        """Serve nobody: look for a member that holds the data."""
        self._forward_client = ForwardClient(self.client, self._forward_name)
        self._forward_client.start()

    def _has_map(self, name: str, done: Done[Any]) -> bool:
        if self._structures.map_settings(name) is not None:
            return True
        done(unconfigured_refusal("map"))
        return False

    def _has_queue(self, name: str, done: Done[Any]) -> bool:
        if self._structures.queue_settings(name) is not None:
            return True
        done(unconfigured_refusal("queue"))
        return False

    def _forward(self, frame: Frame, done: Done[Any], wait_s: float = 0.0) -> Poll | None:
        """Ask a member that holds the data; None when that was refused here."""
        if self._refusal is not None or self._forward_client is None:
            done(self._refusal or NOT_STARTED)
            return None
        return ForwardedPoll(self._forward_client, self._forward_client.call(frame, done, wait_s))


class ForwardedPoll:
    """A poll that was forwarded, or anything else that may be waited for no more."""

    __slots__ = ("_call", "_forward_client")

    def __init__(self, forward_client: ForwardClient, call: ForwardCall) -> None:
        self._forward_client = forward_client
        self._call = call

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        self._forward_client.cancel(self._call)
