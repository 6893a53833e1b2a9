"""Where structures of several members live: where all agreed when the first of them began.

    kept/<id>            names and wildcards of maps and queues, and whether that is on disk
    kept/further/<id>    the same of names that nothing before it in the log matches

Members hear of a change at different moments, and that one of them emptied a structure another one
hears of later. For that long they would look for the same data in two shards, and hide what they
answered. So nothing moves while members run. What was agreed on is in the log of the shard in
memory, of several proposals the first, and goes with what that shard holds: when no member is left.
When the servers lose that log before, members that run tell those that start, and propose it again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import TYPE_CHECKING, Final

from grid_member.config.names import DEFAULT, find, shadowed_names
from grid_member.engine.local.placement import MAX_WARNINGS, Placement
from grid_member.engine.local.system import ignore, outcome_of
from grid_member.engine.local.usage import held_structures
from grid_member.engine.nats.admin.questions import answer_each
from grid_member.engine.nats.client.errors import NatsError, NoRespondersError, RequestTimeoutError
from grid_member.engine.state.operations import SystemPut

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from grid_member.engine.api import Persistence, Refused
    from grid_member.engine.local.placement import SettingsOf
    from grid_member.engine.local.usage import StructureKind
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.shard.shards import Shards

AGREED: Final = "kept/"
"""Begins the keys of proposals, in the system store of the shard in memory."""
FURTHER: Final = AGREED + "further/"
"""Begins the keys of those that say nothing unless there is another one before."""
RETRY_S: Final = 0.5
"""Until a proposal that the log did not take is sent again."""
MAX_KNOWN_NAMES: Final = 4096
"""Of maps and of queues: clients choose them, so not all can be kept."""
MAX_HELD_NAMES: Final = 1000
"""Structures in memory that a first proposal names one by one; it has to fit in a record."""
SUBJECT: Final = b"grid.kept"
"""What members that know what was agreed on are asked with."""
RUNNING_MEMBER_ANSWER_S: Final = 5.0
"""How long one of them may take to answer; where none listens nobody waits. One that stands still
for longer serves nobody meanwhile, and goes by the log when it does again."""
_log = logging.getLogger("grid_member.engine.cluster_placement")


class AgreedPlacement(Placement):
    """The shards of maps, or of queues, whatever a member's own settings say by now."""

    def __init__(self, shards: Shards, names: Callable[[Shard], Collection[str]]) -> None:
        """Go by the settings until it is known what was agreed on."""
        super().__init__(shards, names)
        self.agree({})

    def agree(self, kept: Mapping[str, bool]) -> None:
        """Hear what was agreed on; a name that nothing in it matches goes by the settings."""
        self._kept = kept
        # By what the settings say. Every request asks, and there may be many wildcards.
        self._known_shards: tuple[dict[str, Shard], dict[str, Shard]] = ({}, {})

    def shard(self, name: str, persistent: bool) -> Shard:
        """Return the shard of the structure called name."""
        return self._known_shards[persistent].get(name) or self._find(name, persistent)

    def away(self, name: str, persistent: bool) -> bool:
        """Tell whether the structure is in a shard that this member does not have."""
        try:
            self._shards.durable_of(name)
        except IndexError:
            kept = find(self._kept, name) if self._shards.volatile is not None else True
            return persistent if kept is None else kept
        return False

    def begin(self, kind: StructureKind, settings_of: SettingsOf) -> None:
        """Do nothing: what is on disk was looked at when it was agreed on."""

    def change(self, former: SettingsOf) -> None:
        """Do nothing: it takes effect when no member is left."""

    def _find(self, name: str, persistent: bool) -> Shard:
        kept, known = find(self._kept, name), self._known_shards[persistent]
        if len(known) >= MAX_KNOWN_NAMES:
            known.clear()
        shard = known[name] = super().shard(name, persistent if kept is None else kept)
        return shard


class Agreement:
    """What the members agreed on: as this one goes by it, and tells those that start."""

    def __init__(
        self, shards: ReplicatedShards, maps: AgreedPlacement, queues: AgreedPlacement
    ) -> None:
        """Know nothing yet; maps and queues hear of what is agreed on."""
        self._shards = shards
        self._maps = maps
        self._queues = queues
        self._kept: Persistence | None = None
        self._proposing: set[asyncio.Task[None]] = set()

    async def begin(self, own: Persistence) -> None:
        """Go by what the members agreed on; propose it when this is the first of them.

        Args:
            own: what the member's settings say. The shards are current, and nobody is served yet.
        """
        volatile = self._shards.volatile
        if volatile is None:
            return
        self._shards.volatile_changed = self._take_changes
        await self._agree(volatile, own)
        kept = _merge(volatile)
        if kept is None:
            return  # the start was given up
        self._go_by(kept)
        _tell_differences(own, kept)
        answer_each(self._shards.client, SUBJECT, lambda _: json.dumps(self._kept).encode())

    async def await_made(self) -> bool:
        """Tell whether a member that does not hold everything can hear what was agreed on."""
        volatile = self._shards.volatile
        agreed = volatile is None or _merge(volatile) is not None
        return agreed or await _ask_agreement(self._shards) is not None

    def extend(self, own: Persistence) -> None:
        """Agree on what was added to the settings, which all members add alike."""
        if self._kept is not None:
            self._propose(own)

    def end(self) -> None:
        """Propose nothing any more."""
        self._shards.volatile_changed = ignore
        for task in self._proposing:
            task.cancel()

    def _take_changes(self, changes: Collection[str]) -> None:
        """Hear which values of the shard in memory changed."""
        volatile = self._shards.volatile
        if volatile is None or not any(key.startswith(AGREED) for key in changes):
            return
        kept = _merge(volatile)
        if kept is not None:
            self._go_by(kept)
        elif self._kept is not None:  # its servers have lost the log
            self._propose(self._kept)

    def _go_by(self, kept: Persistence) -> None:
        self._kept = kept
        self._maps.agree(kept["map"])
        self._queues.agree(kept["queue"])

    def _propose(self, own: Persistence) -> None:
        volatile = self._shards.volatile
        if volatile is not None:
            task = asyncio.get_running_loop().create_task(self._agree(volatile, own))
            self._proposing.add(task)
            task.add_done_callback(self._proposing.discard)

    async def _agree(self, volatile: Shard, own: Persistence) -> None:
        """Propose until the log says where everything is that the settings name."""
        while not self._shards.ended:
            kept = _merge(volatile)
            if kept is None:
                # A member that runs has data where it agreed on, whatever became of the log.
                report = self._kept or await _ask_agreement(self._shards)
                if report is None and not self._shards.whole:
                    await asyncio.sleep(RETRY_S)  # who has all shards proposes what they hold
                    continue
                proposal = report or _with_held(own, self._shards.durable, volatile)
            elif not any((proposal := _further(kept, own)).values()):
                return
            if not await _put_proposal(volatile, AGREED if kept is None else FURTHER, proposal):
                await asyncio.sleep(RETRY_S)


def _merge(shard: Shard) -> Persistence | None:
    """Return what the log's proposals come to, in its order: values are found in that."""
    kept: Persistence | None = None
    for key, found in shard.state.system.by_key.items():
        if key.startswith(AGREED):
            proposal: Persistence = json.loads(found.value)
            if kept is not None:
                further = _further(kept, proposal)
                kept = {kind: {**names, **further[kind]} for kind, names in kept.items()}
            elif not key.startswith(FURTHER):
                kept = proposal
    return kept


def _further(kept: Persistence, proposal: Persistence) -> Persistence:
    """Return what of a proposal is about names that nothing agreed on matches."""
    return {
        kind: {
            name: persistent
            for name, persistent in names.items()
            if name not in kept[kind] and (name == DEFAULT or not shadowed_names(kept[kind], name))
        }
        for kind, names in proposal.items()
    }


async def _ask_agreement(shards: ReplicatedShards) -> Persistence | None:
    """Return what a member that runs has agreed on, None when none tells."""
    while not shards.ended:
        try:
            answer = await shards.client.request(SUBJECT, timeout_s=RUNNING_MEMBER_ANSWER_S)
        except (NoRespondersError, RequestTimeoutError):
            return None
        except NatsError:
            pass  # it is the own server that is not there
        else:
            kept: Persistence | None = json.loads(answer.payload)
            return kept
        await asyncio.sleep(RETRY_S)
    return None


def _with_held(own: Persistence, durable: Iterable[Shard], volatile: Shard) -> Persistence:
    """Leave everything where it is, though settings say otherwise: they may be a mistake.

    What is in memory was put there by members of a version that agreed on nothing.
    """
    kept = {kind: dict(names) for kind, names in own.items()}
    meant = {kind: {name: name for name in names} for kind, names in own.items()}
    on_disk = set(held_structures(durable))
    in_memory = set(held_structures([volatile])) - on_disk
    for held, persistent in ((in_memory, False), (on_disk, True)):
        for kind, name in held:
            found = find(meant[kind], name)
            if found is not None:
                kept[kind][found] = persistent
    others = [(kind, name) for kind, name in in_memory if find(kept[kind], name)]
    for kind, name in others[:MAX_HELD_NAMES]:
        kept[kind][name] = False
    return kept


async def _put_proposal(shard: Shard, prefix: str, kept: Persistence) -> bool:
    """Put a proposal into the shard's log; tell whether that is known to be done."""
    put = SystemPut(prefix + uuid.uuid4().hex, json.dumps(kept).encode(), 0)
    refused: Refused | None = await outcome_of(
        lambda done: shard.propose_system(put, done, len(put.value))
    )
    return refused is None


def _tell_differences(own: Persistence, kept: Persistence) -> None:
    """Warn of what is not as the member's settings say."""
    others = [
        (kind, name, persistent)
        for kind, names in own.items()
        for name, persistent in names.items()
        if _differs(kept[kind], name, persistent)
    ]
    for kind, name, persistent in others[:MAX_WARNINGS]:
        _log.warning(
            "the %s %s stays %s: a change of data-persistence takes effect when all members are "
            "stopped at once, and of what is on disk when it is empty",
            *(kind, name, "in memory" if persistent else "on disk"),
        )
    if len(others) > MAX_WARNINGS:
        _log.warning("the same with %d more", len(others) - MAX_WARNINGS)


def _differs(kept: Mapping[str, bool], name: str, persistent: bool) -> bool:
    """Tell whether some of what is configured as name was agreed on otherwise."""
    meant = [name] if name in kept else shadowed_names(kept, name)
    return any(kept[one] is not persistent for one in meant)
