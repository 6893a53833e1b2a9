"""One member: who it is, which phase of its life it is in, and what it says about itself.

    STARTING ── engine replayed ──▶ RUNNING ── signal or memberShutdown ──▶ STOPPING
        └────── parked ──▶ PARKED ── signal ───────────────────────────────────┘

The node state that health shows follows from the phase and the cluster state.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, Final, TypedDict

from grid_member.cluster.logs import event
from grid_member.cluster.parking import Parking
from grid_member.engine.api import ClusterState
from grid_member.engine.log import wall_clock_ms

if TYPE_CHECKING:
    from grid_member.cluster.management import Management
    from grid_member.cluster.measurements import Measurements
    from grid_member.config.model import MemberConfig
    from grid_member.engine.api import Engine

UNJOINED_VERSION: Final = "0.0"
_log: Final = logging.getLogger("grid.member")
CLUSTER_STOP_PATIENCE_S: Final = 5.0
"""How long a stop of the cluster waits for the log to take the state that goes before it."""


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


class MemberDocument(TypedDict):
    """One element of `members` in the cluster status document."""

    address: str
    liteMember: bool
    localMember: bool
    uuid: str
    memberVersion: str


class HealthDocument(TypedDict):
    """The whole health document."""

    nodeState: str
    clusterState: str
    clusterSafe: bool
    migrationQueueSize: int
    clusterSize: int


class Member:
    """The identity and the lifecycle of this member, which is alone in its cluster."""

    management: Management
    """Made with the member in its hands, so given to it right after it was made."""

    def __init__(self, config: MemberConfig, engine: Engine, name: str, version: str) -> None:
        self.config = config
        self.engine = engine
        self.name = name
        self.version = version
        self.address = ""
        self.phase = Phase.STARTING
        self.ending = False
        """Whether a stop was requested, of the member or of the cluster."""
        self.measurements: Measurements | None = None
        """None where nobody can ask for metrics."""
        self.parking = Parking(config.parked_file, wall_clock_ms)
        self.parked: str | None = None
        """Why the member is parked and what to do about it; None when it is not."""
        self._stop_wanted = asyncio.Event()
        self._stop_at_last: asyncio.TimerHandle | None = None

    async def join(self) -> None:
        """Replay the data and become the one member of the cluster, unless it is parked.

        Raises:
            EngineError: the engine cannot start, or runs a cluster that this member cannot; or it
                cannot be told whether the member is parked.
            ConfigError: what was added to the configuration does not go with the member's own.
        """
        if await self._park() or not await self.management.persistence.recovery.start(
            self.stop_wanted
        ):
            return
        self.management.begin()
        if self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING

    async def _park(self) -> bool:
        self.parked = await asyncio.to_thread(self.parking.find)
        if self.parked is None:
            return False
        if self.phase is Phase.STARTING:
            self.phase = Phase.PARKED
        event(_log, logging.WARNING, "parked", reason=self.parked)
        return True

    def request_cluster_stop(self) -> None:
        """Make the cluster passive for the rest of its life, then stop its members."""
        # Whatever comes of that, the members are to stop; of a disk that is stuck nothing comes.
        loop = asyncio.get_running_loop()
        self.ending = True
        self._stop_at_last = loop.call_later(CLUSTER_STOP_PATIENCE_S, self.request_stop)
        self.engine.change_cluster_state(
            ClusterState.PASSIVE, lambda _: self.request_stop(), transient=True
        )

    def request_stop(self) -> None:
        """Become not ready at once and let whoever waits in `stop_wanted` do the rest."""
        if self._stop_at_last is not None:
            self._stop_at_last.cancel()
        self.phase = Phase.STOPPING
        self.ending = True
        self._stop_wanted.set()

    async def stop_wanted(self) -> None:
        """Return when a stop was requested."""
        await self._stop_wanted.wait()

    @property
    def joined(self) -> bool:
        """True while this member is part of its cluster."""
        return self.phase is Phase.RUNNING

    @property
    def ready(self) -> bool:
        """True when the member can be used."""
        return self.joined and self.engine.ready

    @property
    def cluster_state(self) -> ClusterState:
        """The cluster state; ACTIVE before the join."""
        if self.phase in _UNJOINED:
            return ClusterState.ACTIVE
        return self.engine.cluster_state

    @property
    def node_state(self) -> NodeState:
        """The state of this member as health shows it."""
        if self.phase is Phase.STARTING:
            return NodeState.STARTING
        running = self.phase is Phase.RUNNING
        active = running and self.cluster_state is not ClusterState.PASSIVE
        return NodeState.ACTIVE if active else NodeState.PASSIVE

    @property
    def cluster_version(self) -> str:
        """`major.minor` of the cluster, `0.0` before the join."""
        if self.phase in _UNJOINED or self.parked is not None:
            return UNJOINED_VERSION
        return str(self.management.versions.current)

    @property
    def problem(self) -> str:
        """Why the member cannot be used now."""
        waits = self.management.persistence.recovery.problem
        return self.parked or waits or "the member is not ready"

    @property
    def safe(self) -> bool:
        """True when no data would be lost or moved: with one member, when it is ready."""
        return self.ready

    def health(self) -> HealthDocument:
        """Return the health document."""
        return {
            "nodeState": self.node_state.value,
            "clusterState": self.cluster_state.name,
            "clusterSafe": self.safe,
            "migrationQueueSize": 0,
            "clusterSize": 1,
        }

    def members(self) -> list[MemberDocument]:
        """Return the members in join order, oldest first."""
        return [
            {
                "address": self.address,
                "liteMember": False,
                "localMember": True,
                "uuid": self.engine.member_uuid,
                "memberVersion": self.version,
            }
        ]
