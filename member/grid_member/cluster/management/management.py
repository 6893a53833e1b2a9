"""What a member's management calls work with, in one place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.cp.subsystem import CpMemberDocument, CpSubsystem, bracket
from grid_member.cluster.management.config_changes import ConfigChanges
from grid_member.cluster.management.usage import UsageSource
from grid_member.cluster.membership.join_list import JoinList
from grid_member.cluster.values.idempotency import StoredAnswers
from grid_member.cluster.values.operations import Operations
from grid_member.cluster.values.versions import Versions
from grid_member.engine.api import EngineError, Refused
from grid_member.engine.log.log import Clock, wall_clock_ms
from grid_member.engine.state.system import SystemStore
from grid_member.telemetry.levels import LogLevels
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from grid_member.cluster.cp.keeper import CpKeeper
    from grid_member.cluster.cp.subsystem import CpCalls
    from grid_member.cluster.management.config_changes import ConfigSource
    from grid_member.cluster.management.departure import MemberDeparture
    from grid_member.cluster.membership.member_table import MemberDocument
    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.persistence.persistence import Persistence
    from grid_member.config.model.member import MemberConfig
    from grid_member.engine.api import Engine

_log: Final = logging.getLogger("grid.member")


class ManagedEngine(SystemStore, UsageSource, Protocol):
    """The engine as the management calls see it."""


class ManagedMember(Protocol):
    """The member as the management calls see it."""

    @property
    def version(self) -> str:
        """The version of Grid."""

    @property
    def address(self) -> str:
        """Empty until the member listens."""

    @property
    def config(self) -> MemberConfig:
        """The member's configuration, with what was added to it."""

    @property
    def engine(self) -> Engine:
        """Knows the member's UUID, once it is open."""

    @property
    def membership(self) -> Membership | None:
        """None: the member is alone."""

    def members(self) -> list[MemberDocument]:
        """Return the members in join order."""


class WanPart(Protocol):
    """The part of the member that replicates maps to other clusters."""

    def begin(self) -> None:
        """Go on from now on: the member has joined."""

    async def close(self) -> None:
        """Stop."""


class Management:
    """The management side of one member. All of it belongs to one event loop."""

    persistence: Persistence
    """Made with the operations in its hands, so given to it right after it was made."""

    def __init__(
        self,
        member: ManagedMember,
        engine: ManagedEngine,
        extend: Callable[[MemberConfig], None],
        *,
        source: ConfigSource | None = None,
        join_members: tuple[str, ...] | None = None,
        cp: bool = False,
        clock_ms: Clock = wall_clock_ms,
        log_levels: LogLevels | None = None,
    ) -> None:
        """Begin nothing yet.

        Extend makes a configuration with more maps and queues take effect, source is None without
        a file, join_members None without a TCP/IP join, and log_levels that of the loggers `grid`.
        """
        self.store: SystemStore = engine
        self.usage: UsageSource = engine
        self.stored_answers = StoredAnswers(engine)
        self.versions = Versions(engine, member.version)
        self.join_list = JoinList(engine, join_members)
        self.log_levels = log_levels or LogLevels()
        self.operations = Operations(engine, lambda: member.engine.member_uuid, clock_ms)
        self.config_changes = ConfigChanges(
            engine, lambda: member.config, extend, engine.held_structures, source
        )
        self.config_lock = asyncio.Lock()
        """Held from the plan of a change to its effect: the next plan counts on it."""
        self.upload_lock, self.reload_lock = asyncio.Lock(), asyncio.Lock()
        """Held while a configuration is read, for seconds if it is large: one at a time, so that
        many leave threads to others, and a file on a stuck volume holds up no upload."""
        self.cp: CpCalls | None = _cp(member) if cp else None
        """None: it is not configured."""
        self.cp_keeper: CpKeeper | None = None
        """What goes on in the CP subsystem of several members."""
        self.departing: MemberDeparture | None = None
        """How the member leaves for good; None: it is alone."""
        self.wan: WanPart | None = None
        """WAN replication; None where a program has a member without it."""
        self.changing = False
        """Whether a change of the cluster's state or version is under way."""

    def restore(self) -> None:
        """Go by what the cluster agreed on, as soon as it is known and before data goes by it.

        Raises:
            EngineError: the cluster has a version that this member cannot run.
            ConfigError: what was added to the configuration does not go with the member's own.
        """
        problem = self.versions.join_problem()
        if problem is not None:
            raise EngineError(problem)
        self.config_changes.apply_stored()

    def begin(self, others: Collection[str] = ()) -> None:
        """Keep what a join changes, given the UUIDs of the others; a later join tries it again."""
        at_join = self.versions.join_put()
        for put in (*((at_join,) if at_join else ()), *self.operations.join(others)):
            put.begin(self.store)(_ignore_outcome)

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Keep other changes of the cluster's state and version out."""
        self.changing = True
        try:
            yield
        finally:
            self.changing = False


def _ignore_outcome(outcome: object) -> None:
    if isinstance(outcome, Refused):
        event(_log, logging.WARNING, "join not recorded", reason=outcome.reason.value)


def _cp(member: ManagedMember) -> CpSubsystem:
    def alone() -> CpMemberDocument:
        return {"uuid": member.engine.member_uuid, "address": bracket(member.address)}

    return CpSubsystem(alone)
