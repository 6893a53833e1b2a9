"""Keeps the members' agreement on WAN replication, and lets every shard go by it.

    own section ─▶ wan/declared ─▶ union of all members, under the lock CHANGE ─▶ wan/config
                                        every shard that lacks the revision ◀── WanAgree

Nothing of it is written before the cluster's version is 0.2: members of an older one could not read
the records.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.membership.locks import CHANGE, LockedError
from grid_member.cluster.values.system_store import Put, carry_out, put_all
from grid_member.config.names import find
from grid_member.engine.api import Reason, Refused
from grid_member.engine.state.operations import WanAgree, WanMemberState
from grid_member.engine.wan.agreement import WAN_CLUSTER_VERSION, PublisherName, PublisherState
from grid_member.engine.wan.changes import CLUSTER_ID_BYTES
from grid_member.telemetry.logs import event, failure
from grid_member.wan.agreement.departed import (
    LOOKS_IN_MEMORY,
    LOOKS_WITH_DISKS,
    DepartedMembers,
)
from grid_member.wan.agreement.lost import LostShards
from grid_member.wan.agreement.sections import Union, section_of, union_of
from grid_member.wan.agreement.shard_states import ShardStates
from grid_member.wan.agreement.shards import tell
from grid_member.wan.agreement.store import (
    CLUSTER_ID,
    StoredConfig,
    WanStore,
    paused_put,
    state_put,
)
from grid_member.wan.jobs.store import JobStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable

    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.values.versions import Versions
    from grid_member.config.model.member import MapConfig, MemberConfig
    from grid_member.engine.api import Engine
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Operation
    from grid_member.engine.state.system import SystemStore
    from grid_member.wan.agreement.sections import Publishers, Removed, Section
    from grid_member.wan.agreement.shard_states import WantedState
    from grid_member.wan.agreement.shards import WanShards

LOOK_S: Final = 1.0
"""How often a member looks whether the agreement and the shards are as they should be."""
DECLARATION_PATIENCE_S: Final = 10.0
"""How long a call waits until the other members have declared what they have."""
TELLING_PATIENCE_S: Final = 5.0
"""How long a call waits for shards that refuse what they are told."""
TELLING_REST_S: Final = 0.25
NOT_NOTED: Final = Refused(
    Reason.UNAVAILABLE, "that a shard lost its data could not be noted: try again"
)
AGREEING: Final = "wan"
"""The purpose of the lock."""
_log: Final = logging.getLogger("grid.wan")


class AgreeingMember(Protocol):
    """The member as the agreement sees it."""

    @property
    def config(self) -> MemberConfig:
        """Its configuration, with what was added to it."""

    @property
    def joined(self) -> bool:
        """Whether it is part of its cluster."""

    @property
    def engine(self) -> Engine:
        """Knows its UUID, once it is open."""


class WanKeeper:
    """The agreement as one member sees it and works for it."""

    def __init__(
        self,
        store: SystemStore,
        member: AgreeingMember,
        versions: Versions,
        shards: WanShards,
        membership: Membership | None,
        alone: asyncio.Lock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Keep nothing yet.

        Args:
            store: keeps the agreement.
            member: whose configuration is declared.
            versions: tells whether members may write about WAN replication.
            shards: those of this member.
            membership: the other members; None: this one is alone.
            alone: what calls hold while they change the configuration, for a member that is alone.
            sleep: waits for some seconds.
        """
        self.shards = shards
        self.stored = WanStore(store)
        self._store = store
        self._member = member
        self._versions = versions
        self._membership = membership
        self._alone = alone
        self._sleep = sleep
        self._departed = DepartedMembers()
        self._lacking_looks = 0
        self._told: set[str] = set()
        self._states = ShardStates(self.stored, shards)
        self._lost = LostShards(self.stored, JobStore(store), lambda: member.config, self.keep)

    @property
    def own_uuid(self) -> str:
        """The UUID of this member."""
        return self._member.engine.member_uuid

    @property
    def member_uuids(self) -> list[str]:
        """The UUIDs of the members, oldest first."""
        return [member for member, _ in self._members()]

    @property
    def live_with_data(self) -> list[str]:
        """The UUIDs of the members with data that live, oldest first."""
        alive = {member for member, alive in self._members() if alive}
        return [member for member in self._listed()[0] if member in alive]

    def own_map(self, name: str) -> MapConfig | None:
        """Return this member's configuration of a map, None when none matches."""
        return find(self._member.config.maps, name)

    @property
    def own_section(self) -> Section:
        """What this member's configuration says."""
        return section_of(self._member.config)

    @property
    def version_problem(self) -> str | None:
        """Why the cluster's version lets members write nothing yet, None when it does."""
        current = self._versions.current
        if (current.major, current.minor) >= WAN_CLUSTER_VERSION:
            return None
        needed = ".".join(map(str, WAN_CLUSTER_VERSION))
        return f"the cluster version is {current}: WAN replication needs {needed}"

    @property
    def configured(self) -> bool:
        """Whether there is any replication, agreed on or in this member's own configuration."""
        agreed = self.stored.config
        if agreed is not None and agreed.section.configured:
            return True
        return bool(self._member.config.wan.replications)

    def replications(self) -> frozenset[str]:
        """Return the names of all replications, agreed on or in this member's own configuration."""
        agreed = self.stored.config
        names = () if agreed is None else agreed.section.replications
        return frozenset((*names, *self._member.config.wan.replications))

    @property
    def _listens(self) -> bool:
        return self._member.config.wan_listener is not None

    async def run(self) -> None:
        """Look every second until the task is cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:
                failure(_log, "a look at the agreement on WAN replication failed", error)
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Declare, agree and tell shards, as far as it is this member's turn."""
        if not self._member.joined:
            return
        own = self.own_section
        if not (own.configured or self.stored.used or self._listens):
            return
        if self.version_problem is not None:
            self._say_once(f"what is configured waits: {self.version_problem}")
            return
        if not await self._declare(own):
            return
        union = self.union()
        if union is not None and not self._is_agreed(union):
            await self._agree()
        await self._pause_after_restore()
        await self._tell_shards()
        await self._forget_departed()
        await self._forget_removed()

    async def _forget_departed(self) -> None:
        """Forget members that left for good; the oldest member does it.

        What they took in is sent, or waits, as for a member without calls that change its state.
        """
        with_data, others = self._listed()
        listed = {*with_data, *others}
        in_memory = self._member.config.data_directory is None
        looks = LOOKS_IN_MEMORY if in_memory else LOOKS_WITH_DISKS
        departed = self._departed.look(self.stored.members(), listed, looks)
        if departed and not self._place():
            await self.forget(departed)

    async def forget(self, departed: Collection[str]) -> None:
        """Forget the states and declarations of members that left for good."""
        told = [partial(self.shards.propose, each) for each in self._initial_states(departed)]
        if not any(await self._carry_out(*self.stored.departed_puts(departed))):
            await carry_out(*told)  # later looks tell shards that refuse it

    def _initial_states(self, members: Collection[str]) -> Iterable[Operation]:
        """Yield what gives members the states that publishers begin with."""
        agreed = self.stored.config
        for publisher, member in self.stored.states():
            found = None if agreed is None else agreed.section.publisher(publisher)
            # A cluster that began as a backup sends nothing until its publishers are resumed.
            waits = self.stored.paused_by_restore(publisher)
            if member in members and found is not None and not waits:
                state = PublisherState(found.initial_publisher_state)
                yield _member_state(publisher, member, state)

    async def _forget_removed(self) -> None:
        """Forget the states of publishers that are no more; the oldest member does it.

        A call that sets a state may come beside the one that removes the publisher. Under the lock
        no publisher comes that has the name, so no state of a new one is taken for that.
        """
        if self._place() or not self._removed_states():
            return
        with contextlib.suppress(LockedError):
            async with self.lock():
                await self._carry_out(*self._removed_states())

    def _removed_states(self) -> list[Put]:
        agreed = self.stored.config
        names = {name for name, _ in self.stored.states()}
        return [
            put
            for name in sorted(names)
            if agreed is None or agreed.section.publisher(name) is None
            for put in self.stored.state_removals(name)
        ]

    async def keep(self, *puts: Put) -> Refused | None:
        """Carry out what a call changes in the store; return the first refusal."""
        return await put_all(self._store, puts)

    async def tell(self, operation: Operation, is_wanted: Callable[[], bool]) -> Refused | None:
        """Tell every shard what the store has; return a refusal that lasts.

        It is tried again for a while, as long as it is wanted. Later, and when this member ends
        before, members tell shards what they lack.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TELLING_PATIENCE_S
        while True:
            (refused,) = await carry_out(partial(self.shards.propose, operation))
            if refused is None or not is_wanted():
                return None
            if loop.time() >= until_s:
                return refused
            await self._sleep(TELLING_REST_S)

    async def tell_agreement(self) -> Refused | None:
        """Let every shard go by what is agreed; return a refusal that lasts."""
        agreement = self.stored.agreement
        if agreement is None:
            return None
        if not await self._lost.note_lost(self.lacking_shards(), agreement):
            return NOT_NOTED
        return await self.tell(WanAgree(agreement), lambda: self.stored.agreement == agreement)

    async def prepare(self) -> bool:
        """Let all members declare what they have; tell whether those that live have done so.

        Members declare nothing as long as there is nothing about WAN replication.
        """
        if not await self._declare(self.own_section):
            return False
        membership = self._membership
        if membership is None:
            return self.union() is not None
        return await membership.conditions.until(
            lambda: self.union() is not None, DECLARATION_PATIENCE_S
        )

    async def _declare(self, own: Section) -> bool:
        declaration = self.stored.declaration(self.own_uuid, own)
        return not declaration or not any(await self._carry_out(*declaration))

    def union(
        self,
        added: Iterable[Publishers] | None = None,
        removed: Removed | None = None,
    ) -> Union | None:
        """Return what the members would agree on now, None while one has not declared.

        Args:
            added: instead of what is stored.
            removed: instead of what is stored.
        """
        sections = self.sections()
        if not sections:
            return None
        if added is None:
            added = [publishers for _, publishers in self.stored.added()]
        return union_of(sections, added, self.stored.removed() if removed is None else removed)

    def sections(self) -> list[Section]:
        """Return what the members have declared, empty while one that lives has not."""
        found: list[Section] = []
        for member, alive in self._members():
            section = self.stored.section_of(member)
            if section is not None:
                found.append(section)
            elif alive:
                return []
        return found

    def change(self, union: Union) -> tuple[Put, ...]:
        """Return what makes a union the agreement; to be called under the lock."""
        present, cluster_id = self.stored.config, self.stored.cluster_id
        revision = 1 if present is None else present.revision + 1
        puts = [StoredConfig(revision, union.section).put()]
        if cluster_id is None:
            cluster_id = secrets.token_bytes(CLUSTER_ID_BYTES)
            puts.append(Put(CLUSTER_ID, cluster_id.hex().encode()))
            # A backup from before WAN replication was configured has no agreement.
            if self.stored.began_as_backup or self.shards.began_as_backup:
                puts += self._pausing_puts(union)
        return tuple(puts)

    def _pausing_puts(self, union: Union) -> Iterable[Put]:
        """Yield what lets all publishers of a cluster that began as a backup wait.

        A restore that was made to look at old data must not send that data.
        """
        event(_log, logging.WARNING, "publishers are paused: the cluster began as a backup")
        for replication, publishers in union.section.replications.items():
            for publisher in publishers:
                name = PublisherName(replication, publisher)
                yield paused_put(name)
                for member in self.member_uuids:
                    yield state_put(name, member, PublisherState.PAUSED)

    def lacking_shards(self) -> list[Shard]:
        """Return the shards of this member that do not go by what is agreed yet."""
        agreement = self.stored.agreement
        if agreement is None:
            return []
        return [
            shard
            for shard in self.shards.with_data()
            if (known := shard.state.wan.agreement) is None
            or known.revision < agreement.revision
            or known.cluster_id != agreement.cluster_id
        ]

    def _members(self) -> list[tuple[str, bool]]:
        """Return the members on the list, oldest first, and whether each lives."""
        membership = self._membership
        if membership is None:
            return [(self.own_uuid, True)]
        leases = membership.member_table.leases()
        return [(each.uuid, each.uuid in leases) for each in membership.member_table.members()]

    def _is_agreed(self, union: Union) -> bool:
        present = self.stored.config
        if present is None:
            # A cluster that only takes changes has an id and a limit of clocks, too.
            return not (union.section.configured or self._listens)
        return present.section == union.section and self.stored.cluster_id is not None

    async def _agree(self) -> None:
        with contextlib.suppress(LockedError):
            async with self.lock():
                union = self.union()
                if union is None or self._is_agreed(union):
                    return
                puts = [*self.change(union), *self.stored.unused_declarations()]
                if not any(await self._carry_out(*puts)):
                    self._tell_differences(union)

    def _tell_differences(self, union: Union) -> None:
        for name in union.differing:
            self._say_once(
                "members define a publisher differently: that of the oldest member counts",
                replication=name.replication,
                publisher=name.publisher,
            )

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Have the lock under which calls change the configuration and begin jobs.

        Raises:
            LockedError: another member has it, or the log takes nothing now.
        """
        if self._membership is None:
            async with self._alone:
                yield
            return
        async with self._membership.locks.hold(CHANGE, AGREEING):
            yield

    async def _tell_shards(self) -> None:
        """Tell shards that lack the agreement or a state; members do so one after the other.

        Any member may, and what is told twice changes nothing. The oldest begins.
        """
        agreement = self.stored.agreement
        if agreement is None:
            return
        shards, lacking = self.shards.with_data(), self.lacking_shards()
        states: list[WantedState] = []
        if lacking:
            self._states.forget()
        else:
            states = self._states.look(*self._listed())
            if self.shards.has_all:
                await self._lost.note_told(agreement)
        if not (lacking or states):
            self._lacking_looks = 0
            return
        self._lacking_looks += 1
        if self._lacking_looks <= self._place():
            return
        if not await self._lost.note_lost(lacking, agreement):
            return
        tell(lacking, WanAgree(agreement), _ignore)
        if lacking:
            # Right behind the agreement: nothing is sent in between that is to wait.
            for (publisher, member), state in self.stored.states().items():
                tell(lacking, _member_state(publisher, member, state), _ignore)
        for publisher, member, state in states:
            tell(shards, _member_state(publisher, member, state), _ignore)

    async def _pause_after_restore(self) -> None:
        """Let this member be PAUSED where it joined a cluster that began as a backup."""
        agreed, own = self.stored.config, self.own_uuid
        if agreed is None:
            return
        states = self.stored.states()
        names = (
            PublisherName(replication, publisher)
            for replication, publishers in agreed.section.replications.items()
            for publisher in publishers
        )
        await self._carry_out(
            *(
                state_put(name, own, PublisherState.PAUSED)
                for name in names
                if self.stored.paused_by_restore(name) and (name, own) not in states
            )
        )

    def _listed(self) -> tuple[list[str], list[str]]:
        """Return the members on the list with data, and the others and those that may come back."""
        membership = self._membership
        if membership is None:
            return [self.own_uuid], []
        members = membership.member_table.members()
        others = [each.uuid for each in members if each.lite]
        others += [each.uuid for each in membership.member_table.left_members()]
        return [each.uuid for each in members if not each.lite], others

    def _place(self) -> int:
        """Return how many members come before this one."""
        members = self.member_uuids
        return members.index(self.own_uuid) if self.own_uuid in members else len(members)

    async def _carry_out(self, *puts: Put) -> list[object]:
        return list(await carry_out(*(put.begin(self._store) for put in puts)))

    def _say_once(self, message: str, **fields: str) -> None:
        said = f"{message} {sorted(fields.items())}"
        if said not in self._told:
            self._told.add(said)
            event(_log, logging.WARNING, message, **fields)


def _member_state(publisher: PublisherName, member: str, state: PublisherState) -> WanMemberState:
    return WanMemberState(publisher, uuid.UUID(member).bytes, state)


def _ignore(outcome: object) -> None:
    """What was not taken is proposed again at the next look."""
