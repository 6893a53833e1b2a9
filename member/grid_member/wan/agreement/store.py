"""What the system store holds about WAN replication.

    wan/member/<uuid>                 the digest of the member's section
    wan/declared/<digest>             a section
    wan/added/<number>                publishers that a call has added, by replication
    wan/removed/<publisher>           the digests of the definitions that calls have removed
    wan/config                        what the members agreed on, and its revision
    wan/cluster-id                    names this cluster's data
    wan/state/<publisher>/<uuid>      what a member does for a publisher
    wan/source/<id>                   the name of another cluster: `wan/members/sources.py`
    wan/sender/<publisher>/<uuid>     how a member sends for a publisher: `wan/members/reports.py`
    wan/told                          the cluster id that every shard has known
    wan/lost/<publisher>              maps of which changes that waited may be lost, and the jobs
                                      that were under way then
    wan/paused/<publisher>            it began PAUSED, as the cluster began as a backup

`<publisher>` is replication and publisher, each percent-encoded, with a slash between them. Backups
leave out what is about this cluster and not about its data (`backups.LEFT_OUT`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, unquote

from grid_member.cluster.values.system_store import Put
from grid_member.config.names import find
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.wan.agreement.definitions import packed
from grid_member.wan.agreement.sections import Section

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from grid_member.engine.state.system import SystemStore
    from grid_member.engine.wan.agreement import Agreement
    from grid_member.wan.agreement.sections import Publishers

LostMarks: TypeAlias = "dict[str, list[str]]"
"""By the configured name of maps the UUIDs of jobs that were under way when data was lost."""
WAN: Final = "wan/"
MEMBER: Final = f"{WAN}member/"
DECLARED: Final = f"{WAN}declared/"
ADDED: Final = f"{WAN}added/"
REMOVED: Final = f"{WAN}removed/"
CONFIG: Final = f"{WAN}config"
CLUSTER_ID: Final = f"{WAN}cluster-id"
STATE: Final = f"{WAN}state/"
PAUSED: Final = f"{WAN}paused/"
TOLD: Final = f"{WAN}told"
LOST: Final = f"{WAN}lost/"


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """What the members agreed on."""

    revision: int
    section: Section

    def put(self) -> Put:
        """Return what keeps it."""
        content = {"revision": self.revision, "section": json.loads(self.section.pack())}
        return Put(CONFIG, packed(content))


class WanStore:
    """Reads the keys of WAN replication, and makes what is put there."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store
        self._read_config: tuple[bytes, StoredConfig] | None = None
        """What was read of `wan/config` last: each batch of a sender asks for it."""

    @property
    def used(self) -> bool:
        """Whether any member has written anything about WAN replication."""
        return bool(self._store.system_items(WAN))

    @property
    def config(self) -> StoredConfig | None:
        """What the members agreed on, None before they have."""
        stored = self._store.system_get(CONFIG)
        if stored is None:
            return None
        if self._read_config is None or self._read_config[0] != stored:
            content = json.loads(stored)
            found = StoredConfig(int(content["revision"]), Section.read(content["section"]))
            self._read_config = stored, found
        return self._read_config[1]

    @property
    def agreement(self) -> Agreement | None:
        """The same as the state machine goes by it."""
        config, cluster_id = self.config, self.cluster_id
        if config is None or cluster_id is None:
            return None
        return config.section.agreement(config.revision, cluster_id)

    @property
    def cluster_id(self) -> bytes | None:
        """16 bytes; None before the members have agreed."""
        stored = self._store.system_get(CLUSTER_ID)
        return None if stored is None else bytes.fromhex(stored.decode())

    @property
    def began_as_backup(self) -> bool:
        """Whether the agreement came with a backup: the cluster has no id of its own yet."""
        return self.cluster_id is None and self._store.system_get(CONFIG) is not None

    def paused_by_restore(self, publisher: PublisherName) -> bool:
        """Tell whether a publisher waits to be resumed because the cluster began as a backup."""
        return self._store.system_get(PAUSED + name_key(publisher)) is not None

    def replicating(self, publisher: PublisherName, members: Iterable[str]) -> list[str]:
        """Return which of the members are REPLICATING for a publisher.

        In a cluster that began as a backup no member is, until the publisher is resumed.
        """
        agreed = self.config
        found = None if agreed is None else agreed.section.publisher(publisher)
        if found is None or self.cluster_id is None or self.paused_by_restore(publisher):
            return []
        states, initial = self.states(), PublisherState(found.initial_publisher_state)
        return [
            member
            for member in members
            if states.get((publisher, member), initial) is PublisherState.REPLICATING
        ]

    def section_of(self, member: str) -> Section | None:
        """Return what a member has declared, None when it has not."""
        digest = self._store.system_get(MEMBER + member)
        stored = None if digest is None else self._store.system_get(DECLARED + digest.decode())
        return None if stored is None else Section.read(json.loads(stored))

    def declaration(self, member: str, section: Section) -> list[Put]:
        """Return what declares a member's section, empty when that is stored."""
        digest = section.digest
        puts: list[Put] = []
        if self._store.system_get(DECLARED + digest) is None:
            puts.append(Put(DECLARED + digest, section.pack()))
        if self._store.system_get(MEMBER + member) != digest.encode():
            puts.append(Put(MEMBER + member, digest.encode()))
        return puts

    def unused_declarations(self) -> list[Put]:
        """Return what removes the sections that no member names any more."""
        named = {digest.decode() for _, digest in self._store.system_items(MEMBER)}
        keys = [key for key, _ in self._store.system_items(DECLARED)]
        return [Put(key, None) for key in keys if key.removeprefix(DECLARED) not in named]

    def added(self) -> list[tuple[str, Publishers]]:
        """Return what calls have added, with its key, in the order of the calls."""
        return [(key, json.loads(value)) for key, value in self._store.system_items(ADDED)]

    def added_put(self, publishers: Publishers) -> Put:
        """Return what keeps publishers that are added."""
        keys = [key for key, _ in self.added()]
        number = int(keys[-1].removeprefix(ADDED)) + 1 if keys else 1
        return Put(f"{ADDED}{number:08d}", packed(publishers))

    def removed(self) -> dict[PublisherName, frozenset[str]]:
        """Return the digests of the definitions that calls have removed."""
        return {
            _name_of(key.removeprefix(REMOVED)): frozenset(digests.decode().split())
            for key, digests in self._store.system_items(REMOVED)
        }

    def states(self) -> dict[tuple[PublisherName, str], PublisherState]:
        """Return the states that were set, by publisher and the member's UUID."""
        found = {}
        for key, value in self._store.system_items(STATE):
            publisher, _, member = key.removeprefix(STATE).rpartition("/")
            found[_name_of(publisher), member] = PublisherState(value.decode())
        return found

    def members(self) -> set[str]:
        """Return the UUIDs of all members about which anything is stored."""
        declared = {key.removeprefix(MEMBER) for key, _ in self._store.system_items(MEMBER)}
        return declared | {member for _, member in self.states()}

    def departed_puts(self, members: Collection[str]) -> list[Put]:
        """Return what removes the states and declarations of members that left for good."""
        states = [
            Put(key, None)
            for key, _ in self._store.system_items(STATE)
            if key.rpartition("/")[2] in members
        ]
        declared = [key for key, _ in self._store.system_items(MEMBER)]
        return states + [Put(key, None) for key in declared if key.removeprefix(MEMBER) in members]

    def forgetting_puts(self, publisher: PublisherName) -> list[Put]:
        """Return what removes all that is about a publisher and not its definition."""
        lost = [lost_put(publisher, {})] if self.lost(publisher) else []
        return [*self.state_removals(publisher), *self.resuming_puts(publisher), *lost]

    def was_told(self, cluster_id: bytes) -> bool:
        """Tell whether every shard has known an agreement of this cluster."""
        return self._store.system_get(TOLD) == cluster_id.hex().encode()

    def lost(self, publisher: PublisherName) -> tuple[str, ...]:
        """Return the configured names of maps of which changes that waited may be lost."""
        return tuple(self.lost_marks(publisher))

    def lost_marks(self, publisher: PublisherName) -> LostMarks:
        """Return the same, with the UUIDs of the jobs that had begun before the loss."""
        stored = self._store.system_get(LOST + name_key(publisher))
        found = {} if stored is None else json.loads(stored)
        # Members of the first version noted the names alone.
        return found if isinstance(found, dict) else {name: [] for name in found}

    def synced_puts(self, publisher: PublisherName, job: str, maps: Iterable[str]) -> list[Put]:
        """Return what notes that a job, given by its UUID, has synchronised maps."""
        marks, agreed = self.lost_marks(publisher), self.config
        names = {name: name for name in (*marks, *(agreed.section.maps if agreed else ()))}
        synced = {find(names, name) for name in maps}
        left = {name: jobs for name, jobs in marks.items() if name not in synced or job in jobs}
        return [] if left == marks else [lost_put(publisher, left)]

    def state_removals(self, publisher: PublisherName) -> list[Put]:
        """Return what removes the members' states of a publisher."""
        prefix = f"{STATE}{name_key(publisher)}/"
        return [Put(key, None) for key, _ in self._store.system_items(prefix)]

    def resuming_puts(self, publisher: PublisherName) -> list[Put]:
        """Return what forgets that a publisher began PAUSED."""
        key = PAUSED + name_key(publisher)
        return [Put(key, None)] if self.paused_by_restore(publisher) else []


def state_put(publisher: PublisherName, member: str, state: PublisherState) -> Put:
    """Return what keeps what a member does for a publisher."""
    return Put(f"{STATE}{name_key(publisher)}/{member}", state.value.encode())


def paused_put(publisher: PublisherName) -> Put:
    """Return what keeps that a publisher began PAUSED, as the cluster began as a backup."""
    return Put(PAUSED + name_key(publisher), b"restored")


def told_put(cluster_id: bytes) -> Put:
    """Return what keeps that every shard has known an agreement of this cluster."""
    return Put(TOLD, cluster_id.hex().encode())


def lost_put(publisher: PublisherName, marks: LostMarks) -> Put:
    """Return what keeps of which maps changes may be lost; none takes the mark away."""
    return Put(LOST + name_key(publisher), packed(marks) if marks else None)


def removed_put(publisher: PublisherName, digests: frozenset[str]) -> Put:
    """Return what marks definitions as removed; none takes the mark away."""
    key = REMOVED + name_key(publisher)
    return Put(key, " ".join(sorted(digests)).encode() if digests else None)


def name_key(name: PublisherName) -> str:
    """Return how a publisher is named in keys."""
    return f"{quote(name.replication, safe='')}/{quote(name.publisher, safe='')}"


def _name_of(key: str) -> PublisherName:
    replication, _, publisher = key.partition("/")
    return PublisherName(unquote(replication), unquote(publisher))
