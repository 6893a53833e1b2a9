"""One member: who it is, which phase of its life it is in, and what it says about itself.

    STARTING ── engine replayed ──▶ RUNNING ── signal or memberShutdown ──▶ drain ──▶ STOPPING
        └────── parked ──▶ PARKED ── signal ─────────────────────────────────────────────┘

While it drains a member is RUNNING and `ending`: it is not ready, answers everything else, and says
with each answer that the connection closes.

The node state that health shows follows from the phase and the cluster state.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.member.follower import MembershipFollower
from grid_member.cluster.membership.shutdown_marker import ShutdownMarker
from grid_member.cluster.membership.shutdowns import (
    CLUSTER_STOP_PATIENCE_S,
    stop_all,
    stop_with_all,
)
from grid_member.engine.api import ClusterState
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replication import NO_MAJORITY
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from grid_member.cluster.management.management import Management
    from grid_member.cluster.membership.member_table import HealthDocument, MemberDocument
    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.membership.shutdowns import ShutdownRequest
    from grid_member.cluster.values.system_store import Put
    from grid_member.config.model.member import MemberConfig
    from grid_member.engine.api import Engine, EngineError
    from grid_member.engine.replication import Replication
    from grid_member.telemetry.measurements import Measurements

UNJOINED_VERSION: Final = "0.0"
UNCOPIED: Final = "this member's copies of the data are being made"
UNLEASED: Final = (
    "the others have not confirmed a sign of life of this member since it answers again: no queue "
    "can be polled yet"
)
_log: Final = logging.getLogger("grid.member")


class Phase(enum.Enum):
    """Where a member is in its life."""

    STARTING = "starting"
    """REST answers, the data is being replayed: not ready."""
    PARKED = "parked"
    """It was shut down over REST and started again: REST answers, nothing else is done."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Not ready any more; what was begun is finished, what is new is refused."""


_UNJOINED: Final = frozenset({Phase.STARTING, Phase.PARKED})


class NodeState(enum.Enum):
    """The member state that the health checks show."""

    STARTING = "STARTING"
    ACTIVE = "ACTIVE"
    PASSIVE = "PASSIVE"


class Member:
    """The identity and the lifecycle of this member; alone in its cluster without a membership."""

    management: Management
    """Made with the member in its hands, so given to it right after it was made."""

    def __init__(
        self,
        config: MemberConfig,
        engine: Engine,
        name: str,
        version: str,
        membership: Membership | None = None,
    ) -> None:
        self.config = config
        self.membership = membership
        self.engine = engine
        self.name = name
        self.version = version
        self.address = ""
        self._phase = Phase.STARTING
        self._ending = False
        self.is_running = False
        """Whether it runs and no stop was requested. Asked with every request."""
        self.measurements: Measurements | None = None
        """None where nobody can ask for metrics."""
        self.shutdown_marker = ShutdownMarker(config.parked_file, wall_clock_ms)
        self.marker_reason: str | None = None
        """Why the member is parked and what to do about it; None when it is not."""
        self.failure: EngineError | None = None
        """Why the member ended by itself; None while it did not."""
        self._stop_request = asyncio.Event()
        self._stop_at_last: asyncio.TimerHandle | None = None
        self._drain_end: asyncio.TimerHandle | None = None
        if membership is not None:
            membership.on_shutdown = self._stop_with_cluster

    @property
    def phase(self) -> Phase:
        """Where the member is in its life."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self._note()

    @property
    def ending(self) -> bool:
        """Whether a stop was requested, of the member or of the cluster."""
        return self._ending

    @ending.setter
    def ending(self, ending: bool) -> None:
        self._ending = ending
        self._note()

    def _note(self) -> None:
        self.is_running = self._phase is Phase.RUNNING and not self._ending

    async def join(self) -> None:
        """Replay the data and become a member of the cluster, unless it is parked.

        Raises:
            EngineError: the engine cannot start, or runs a cluster that this member cannot; or it
                cannot be told whether the member is parked.
            ConfigError: what was added to the configuration does not go with the member's own.
        """
        if await self._park() or not await self.management.persistence.recovery.start(
            self.wait_for_stop
        ):
            return
        if self.membership is None:
            self.management.begin()
        elif not await self._join(self.membership):
            return
        if self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING
        if self.management.wan is not None:
            self.management.wan.begin()

    async def _join(self, membership: Membership) -> bool:
        following = MembershipFollower(self.management, membership)
        following.begin()
        if self.config.data_directory is not None:
            membership.keep(following.watch_disk(self.config.data_directory))
        try:
            joined = await membership.join(self)
        except BaseException:
            # A start that fails leaves nothing behind.
            await self.stop()
            raise
        if joined:
            self.management.begin(membership.others)
            following.serve_requests()
        return joined

    def admit(self) -> None:
        """Go by what the cluster agreed on, as it is known now.

        Raises:
            EngineError: the cluster has a version that this member cannot run.
            ConfigError: what was added to the configuration does not go with the member's own.
        """
        self.management.restore()

    def entry_puts(self) -> tuple[Put, ...]:
        """Return what is to be kept together with the join."""
        put = self.management.versions.join_put()
        return () if put is None else (put,)

    async def stop(self) -> None:
        """Get off the list of the members, then stop the engine."""
        if self.management.wan is not None:
            await self.management.wan.close()
        if self.membership is None:
            await self.engine.stop()
            return
        await self.membership.leave()
        try:
            await self.engine.stop()
        finally:
            await self.membership.close()

    async def _park(self) -> bool:
        self.marker_reason = await asyncio.to_thread(self.shutdown_marker.find)
        if self.marker_reason is None:
            return False
        if self.phase is Phase.STARTING:
            self.phase = Phase.PARKED
        event(_log, logging.WARNING, "parked", reason=self.marker_reason)
        return True

    def request_cluster_stop(self) -> None:
        """Make the cluster passive for the rest of its life, then stop its members."""
        if self.ending and not self.draining:
            return
        # Whatever comes of that, the members are to stop; of a disk that is stuck nothing comes.
        loop = asyncio.get_running_loop()
        self._leave_drain()
        self.ending = True
        if self.membership is not None:
            self.membership.keep(stop_all(self, self.membership))
            return
        self._stop_at_last = loop.call_later(CLUSTER_STOP_PATIENCE_S, self.request_stop)
        self.engine.change_cluster_state(
            ClusterState.PASSIVE, lambda _: self.request_stop(), transient=True
        )

    def _stop_with_cluster(self, request: ShutdownRequest) -> None:
        """Stop with all other members, as soon as they know that they are to."""
        self._leave_drain()
        self.ending = True
        if self.membership is not None:
            self.membership.keep(stop_with_all(self, self.membership, request))

    def request_stop(self, *, drain: bool = True) -> None:
        """Become not ready at once; drain, then let whoever waits in `wait_for_stop` do the rest.

        A member that stops with all others does not drain: none is there to take over.

        Args:
            drain: whether load balancers get the time to notice; False ends a drain, too.
        """
        if drain and self.draining:
            return
        if drain and self.joined and not self.ending and self.config.drain_s:
            self._drain(self.config.drain_s)
        else:
            self._stop_now()

    @property
    def draining(self) -> bool:
        """Whether a stop was requested that waits until load balancers have noticed."""
        return self._drain_end is not None

    def _drain(self, drain_s: int) -> None:
        self.ending = True
        self._drain_end = asyncio.get_running_loop().call_later(drain_s, self._stop_now)
        event(_log, logging.INFO, "draining", seconds=drain_s)
        self.engine.end_polls()

    def _leave_drain(self) -> None:
        if self._drain_end is not None:
            self._drain_end.cancel()
            self._drain_end = None

    def _stop_now(self) -> None:
        if self._stop_at_last is not None:
            self._stop_at_last.cancel()
        self._leave_drain()
        self.phase = Phase.STOPPING
        self.ending = True
        self._stop_request.set()

    def fail(self, failure: EngineError) -> None:
        """Stop, as the member cannot go on."""
        self.failure = failure
        self._stop_now()

    async def wait_for_stop(self) -> None:
        """Return when a stop was requested."""
        await self._stop_request.wait()

    @property
    def joined(self) -> bool:
        """True while this member is part of its cluster."""
        return self.phase is Phase.RUNNING

    @property
    def ready(self) -> bool:
        """True when the member can be used."""
        if self.ending or not (self.joined and self.engine.ready):
            return False
        if self.engine.directory_lost is not None:
            return False
        if self.membership is None:
            return True
        now = self.membership.engine.replication()
        return self.membership.joined and now.answering and now.leased and now.copied

    @property
    def cluster_state(self) -> ClusterState:
        """The cluster state as it is known here; ACTIVE before anything is."""
        if self.membership is not None and self.membership.changing:
            return ClusterState.IN_TRANSITION
        return self.engine.cluster_state

    @property
    def node_state(self) -> NodeState:
        """The state of this member as health shows it."""
        if self.phase is Phase.STARTING:
            return NodeState.STARTING
        running = self.phase is Phase.RUNNING
        active = running and self.engine.cluster_state is not ClusterState.PASSIVE
        return NodeState.ACTIVE if active else NodeState.PASSIVE

    @property
    def cluster_version(self) -> str:
        """`major.minor` of the cluster, `0.0` before the join."""
        if self.phase in _UNJOINED or self.marker_reason is not None:
            return UNJOINED_VERSION
        return str(self.management.versions.current)

    @property
    def problem(self) -> str:
        """Why the member cannot be used now."""
        waits = self.management.persistence.recovery.problem
        contact = None
        if self.membership is not None and self.phase is Phase.RUNNING:
            contact = _contact_problem(self.membership.engine.replication())
        joining = None if self.membership is None else self.membership.waiting
        drains = "the member drains: it answers for a while, then it stops"
        ends = (drains if self.draining else "the member is stopping") if self.ending else None
        why = ends or contact or "the member is not ready"
        failed = None if self.failure is None else str(self.failure)
        return failed or self.engine.directory_lost or self.marker_reason or waits or joining or why

    @property
    def safe(self) -> bool:
        """True when no data would be lost or moved: with one member, when it is ready."""
        return self.unsafe is None

    @property
    def unsafe(self) -> str | None:
        """What is missing for the cluster to be safe, None when it is."""
        replication = None if self.membership is None else self.membership.engine.replication()
        if not self.ready:
            return f"not safe: {self.problem}"
        if replication is not None and replication.twins is not None:
            return f"not safe: {replication.twins}"
        if replication is not None and not replication.in_contact:
            # It may still be ready, while a leader is elected.
            return f"not safe: {replication.trouble or 'no majority answered this member lately'}"
        if replication is not None and replication.not_current:
            return f"not safe: {replication.shortage}"
        if self.moving_replicas:
            return (
                f"not safe: {self.moving_replicas} copies of CP groups are missing or behind; "
                "remove a CP member that is gone for good (cp-subsystem/members)"
            )
        return None

    @property
    def moving_replicas(self) -> int:
        """How many copies of the data are missing, behind or out of reach."""
        if self.membership is None:
            return 0
        keeper = self.management.cp_keeper
        of_groups = 0 if keeper is None else keeper.missing_copies
        return self.membership.engine.replication().not_current + of_groups

    @property
    def migrating(self) -> bool:
        """Whether copies are moved to other members, which no change may come between."""
        return self.membership is not None and self.membership.engine.replication().moving

    def health(self) -> HealthDocument:
        """Return the health document."""
        return {
            "nodeState": self.node_state.value,
            "clusterState": self.cluster_state.name,
            "clusterSafe": self.safe,
            "migrationQueueSize": self.moving_replicas,
            "clusterSize": len(self.members()),
        }

    def members(self) -> list[MemberDocument]:
        """Return the members in join order, oldest first; this one alone before its join."""
        own = self.engine.member_uuid
        known = [(self.address, False, own, self.version)]
        if self.membership is not None and self.phase not in _UNJOINED:
            listed = self.membership.members()
            known = [(each.address, each.lite, each.uuid, each.version) for each in listed]
        return [
            {
                "address": address,
                "liteMember": lite,
                "localMember": uuid == own,
                "uuid": uuid,
                "memberVersion": version,
            }
            for address, lite, uuid, version in known
        ]


def _contact_problem(replication: Replication) -> str:
    if replication.answering:
        return UNCOPIED if replication.leased else UNLEASED
    return replication.trouble or NO_MAJORITY
