"""Additions to the configuration while the cluster runs: new maps and queues, nothing else.

What is added is kept in the system store, values resolved, one document a change, and is added
again at every start, behind the member's own file: that wins where both have a block.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final, TypedDict

from grid_member.cluster.values.system_store import Put
from grid_member.config.build import member_config
from grid_member.config.load import config_from, raise_problems, read_document, read_text
from grid_member.config.model.member import MapConfig
from grid_member.config.names import ambiguous, find, shadowed_names
from grid_member.config.overrides import apply_overrides
from grid_member.config.settings.shape import path_text
from grid_member.config.tree import ConfigError, Node, Problem, Section, SourcePosition
from grid_member.config.validate import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from grid_member.config.model.cluster import ClusterConfig
    from grid_member.config.model.member import MemberConfig, QueueConfig, StructureConfig
    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values
    from grid_member.engine.state.system import SystemStore

MAX_ADDED_BLOCKS: Final = 1000
"""Of all changes together."""
SECTIONS: Final = ("map", "queue")
"""The elements whose blocks can be added."""
_PREFIX: Final = "config/"
_REFERENCE: Final = "wan-replication-ref"
_BACKUP_COUNT: Final = "backup-count"
_ASYNC_BACKUP_COUNT: Final = "async-backup-count"
_BACKUPS: Final = 1
"""What a cluster of several members has at least."""


class ChangeConflictError(Exception):
    """The present state does not allow the change; the message says why."""


class BlockDocument(TypedDict):
    """One configuration block."""

    sectionName: str
    configName: str


class ConfigResult(TypedDict):
    """What a change did, block by block in the order of the document."""

    addedConfigs: list[BlockDocument]
    ignoredConfigs: list[BlockDocument]


@dataclass(frozen=True, slots=True)
class Block:
    """A configured map or queue and the values that were written for it."""

    section: str
    name: str
    config: MapConfig | QueueConfig
    values: Mapping[str, object]

    @property
    def document(self) -> BlockDocument:
        """How the block is named in results."""
        return {"sectionName": self.section, "configName": self.name}


@dataclass(frozen=True, slots=True)
class Change:
    """What a document adds to the configuration and what of it exists already."""

    added_blocks: tuple[Block, ...]
    ignored_blocks: tuple[Block, ...]

    @property
    def result(self) -> ConfigResult:
        """The lists of the answer."""
        return {
            "addedConfigs": [block.document for block in self.added_blocks],
            "ignoredConfigs": [block.document for block in self.ignored_blocks],
        }


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A member's configuration file, and the environment that its variables come from."""

    file: FilePath
    environment: Mapping[str, str]

    def read_blocks(self, persistence: bool, present: int) -> list[Block]:
        """Return the maps and queues that the file has by now; see `read_blocks`.

        Raises:
            ConfigError: with everything that is wrong.
            ChangeConflictError: it has so many blocks that not all can be added.
        """
        if self.file.exists() and not self.file.is_file():
            # A pipe, which was read at the start, would keep whoever reads it waiting for ever.
            raise ConfigError(
                [Problem(SourcePosition(str(self.file), 0, 0), "", "is no file any more")]
            )
        text = read_text(self.file)
        return read_blocks(text, str(self.file), self.environment, persistence, present)


class ConfigChanges:
    """Plans changes against the present configuration, and makes them take effect."""

    def __init__(
        self,
        store: SystemStore,
        present: Callable[[], MemberConfig],
        extend: Callable[[MemberConfig], None],
        held: Callable[[], Iterable[tuple[str, str]]],
        source: ConfigSource | None,
    ) -> None:
        """Change nothing yet.

        Extend makes the configuration with more maps and queues take effect, held returns section
        and name of those that hold anything, and source is None without a file.
        """
        self._store = store
        self._present = present
        self._extend = extend
        self._held_structures = held
        self.source = source
        self.replications: Callable[[], Collection[str]] = lambda: present().wan.replications
        """Returns the names of all WAN replications that members declare or calls have added."""

    @property
    def persistence(self) -> bool:
        """Whether the member keeps data on disk; blocks are checked against that."""
        return self._present().data_directory is not None

    @property
    def block_count(self) -> int:
        """How many maps and queues are configured now."""
        present = self._present()
        return len(present.maps) + len(present.queues)

    def plan(self, blocks: list[Block]) -> Change:
        """Return what the blocks of a document would add.

        Raises:
            ConfigError: together with what there is they would be ambiguous, they ask for more
                backups than the cluster has, or they refer to a replication that no member has.
            ChangeConflictError: there would be too many, or a block would move data.
        """
        change = self._plan(blocks)
        _check_references(self.replications(), change)
        return change

    def _plan(self, blocks: list[Block]) -> Change:
        """Return the change as each member looks at it.

        What it refers to is not looked at: members hear of replications one after the other.
        """
        present = self._present()
        change = _change(present, blocks)
        before = sum(len(names) for _, tree in self._read_stored() for names in tree.values())
        if change.added_blocks and before + len(change.added_blocks) > MAX_ADDED_BLOCKS:
            raise _too_many()
        _check_names(present, change)
        if present.cluster is not None:
            _check_backups(present.cluster, change)
        if self.persistence and change.added_blocks:
            _check_shards(present, change)
            self._check_data(present, change)
        return change

    def _check_data(self, present: MemberConfig, change: Change) -> None:
        # What is on disk stays there and what is not cannot get there: under another setting the
        # structure would seem empty.
        extended = _extend(present, change)
        new = {s: {b.name: b for b in change.added_blocks if b.section == s} for s in SECTIONS}
        for section, name in self._held_structures():
            # Only what a new block matches can be another's: there may be very many names.
            if find(new[section], name) is None:
                continue
            before = find(_structures(present, section), name)
            after = find(_structures(extended, section), name)
            if before and after and before.persistent is not after.persistent:
                shown = name if name.isprintable() else ascii(name)
                raise ChangeConflictError(
                    f"{section} {shown} holds data, and a new block that matches its name has "
                    "another data-persistence.enabled: give it the same"
                )

    def keep(self, change: Change) -> Put | None:
        """Return what keeps the change, None when it adds nothing."""
        if not change.added_blocks:
            return None
        stored = self._read_stored()
        number = int(stored[-1][0].removeprefix(_PREFIX)) + 1 if stored else 1
        content: dict[str, dict[str, Mapping[str, object]]] = {}
        for block in change.added_blocks:
            content.setdefault(block.section, {})[block.name] = block.values
        value = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        return Put(f"{_PREFIX}{number:08d}", value)

    def objection(self, content: bytes) -> str | None:
        """Return why this member cannot go by what another one is asked to keep."""
        try:
            blocks = _read_stored(json.loads(content), self.persistence)
            change = self._plan(blocks)
        except ConfigError as error:
            return str(error.problems[0])
        except ChangeConflictError as conflict:
            return str(conflict)
        for block in change.ignored_blocks:
            if _structures(self._present(), block.section)[block.name] != block.config:
                return f"{block.section}.{block.name}: is configured otherwise there"
        return None

    def apply_stored(self) -> None:
        """Make everything that is stored and not there yet take effect.

        Raises:
            ConfigError: it does not go together with the member's file, which has changed.
        """
        for key, tree in self._read_stored():
            try:
                blocks = _read_stored(tree, self.persistence)
                change = _change(self._present(), blocks)
                _check_names(self._present(), change)
            except ConfigError as error:
                raise ConfigError([_at_key(problem, key) for problem in error.problems]) from None
            if change.added_blocks:
                self._extend(_extend(self._present(), change))

    def _read_stored(self) -> list[tuple[str, dict[str, dict[str, object]]]]:
        return [(key, json.loads(value)) for key, value in self._store.system_items(_PREFIX)]


def read_blocks(
    text: str, file: str, environment: Mapping[str, str], persistence: bool, present: int = 0
) -> list[Block]:
    """Return the maps and queues of a YAML or XML text; all of the text is checked.

    Whether blocks may ask for persistence depends on the member, which has so many blocks that are
    present, and not on the text.

    Raises:
        ConfigError: with everything that is wrong.
        ChangeConflictError: it has so many blocks that not all can be added.
    """
    document = read_document(text, file)
    problems, root = list(document.problems), document.root
    # Before anything is done with each of them: a text has room for tens of thousands.
    if _block_count(root) > present + MAX_ADDED_BLOCKS:
        raise _too_many()
    try:
        root = apply_overrides(root, environment).root
    except ConfigError as error:
        problems += error.problems
    found = collect(root, environment)
    problems, found.problems = [*problems, *found.problems], []
    found.values["persistence", "enabled"] = persistence
    config = member_config(found, FilePath(), whole=False)
    # One mistake is told once: what the syntax could not read is missing for the table as well.
    told = {(problem.place, problem.path) for problem in problems}
    raise_problems(problems + [p for p in found.problems if (p.place, p.path) not in told])
    return _blocks(config, found)


def _too_many() -> ChangeConflictError:
    return ChangeConflictError(
        f"more than {MAX_ADDED_BLOCKS} blocks would have been added at run time: "
        "write some into the members' files and restart them"
    )


def _block_count(root: Node) -> int:
    children = root.children if isinstance(root, Section) else {}
    sections = [children.get(name) for name in SECTIONS]
    return sum(len(found.children) for found in sections if isinstance(found, Section))


def _read_stored(tree: Mapping[str, Mapping[str, object]], persistence: bool) -> list[Block]:
    # Members declared what a block refers to when it was added.
    referred = [
        block.get(_REFERENCE) for block in tree.get("map", {}).values() if isinstance(block, dict)
    ]
    replications: dict[str, object] = {}
    for each in referred:
        replications |= dict.fromkeys(each) if isinstance(each, dict) else {}
    rest = {"persistence": {"enabled": persistence}, "wan-replication": replications}
    config = config_from({**tree, **rest}, {})
    maps = [Block("map", name, block, {}) for name, block in config.maps.items()]
    queues = [Block("queue", name, block, {}) for name, block in config.queues.items()]
    return [*maps, *queues]


def _blocks(config: MemberConfig, found: Values) -> list[Block]:
    blocks: list[Block] = []
    for section, configured in (("map", config.maps), ("queue", config.queues)):
        written = {str(name) for name in found.children((section,))}
        for name, block in configured.items():
            if name in written:
                blocks.append(Block(section, name, block, _values(found, (section, name))))
    return blocks


def _values(found: Values, below: tuple[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for path in found.places:
        if path[:2] == below and path in found.values:
            _set(values, path[2:], found.values[path])
        elif path[:2] == below and path[2:-1] == (_REFERENCE,):
            _set(values, path[2:], {})  # may have nothing below: the name is what it says
    return values


def _set(values: dict[str, object], path: Path, value: object) -> None:
    *parents, last = path
    if isinstance(last, int):
        *parents, name = parents
        items = _below(values, parents).setdefault(str(name), [])
        if not isinstance(items, list):
            raise TypeError("an element has both a value and a list below")
        items.append(value)
    else:
        _below(values, parents)[last] = value


def _below(values: dict[str, object], path: Sequence[str | int]) -> dict[str, object]:
    for part in path:
        deeper = values.setdefault(str(part), {})
        if not isinstance(deeper, dict):
            raise TypeError("an element has both a value and elements below")
        values = deeper
    return values


def _change(present: MemberConfig, blocks: list[Block]) -> Change:
    exists = {section: _structures(present, section) for section in SECTIONS}
    return Change(
        tuple(block for block in blocks if block.name not in exists[block.section]),
        tuple(block for block in blocks if block.name in exists[block.section]),
    )


def _check_names(present: MemberConfig, change: Change) -> None:
    problems: list[Problem] = []
    for section in SECTIONS:
        new = [block.name for block in change.added_blocks if block.section == section]
        for one, other in ambiguous([*_structures(present, section), *new]):
            message = f"matches names that {one} matches as well"
            problems.append(Problem(None, f"{section}.{other}", message))
    raise_problems(problems)


def _check_backups(cluster: ClusterConfig, change: Change) -> None:
    # Every log has as many copies as the highest count asked for at the start.
    highest = max(cluster.backup_count, _BACKUPS)
    problems: list[Problem] = []
    for block in change.added_blocks:
        limits = ((_BACKUP_COUNT, highest), (_ASYNC_BACKUP_COUNT, 0))
        for setting, limit in limits:
            count = block.values.get(setting)
            if isinstance(count, int) and count > limit:
                message = f"must be at most {limit} in this cluster"
                problems.append(Problem(None, f"{block.section}.{block.name}.{setting}", message))
    raise_problems(problems)


def _check_references(replications: Collection[str], change: Change) -> None:
    problems: list[Problem] = []
    for block in change.added_blocks:
        reference = block.config.wan if isinstance(block.config, MapConfig) else None
        if reference is not None and reference.replication not in replications:
            path = path_text((block.section, block.name, _REFERENCE, reference.replication))
            message = (
                "no member declares this replication: add it with wan/addWanConfig, or write it "
                "into wan-replication of the members' files and restart them one after the other"
            )
            problems.append(Problem(None, path, message))
    raise_problems(problems)


def _check_shards(present: MemberConfig, change: Change) -> None:
    # Several members do not hear of it at the same moment.
    for block in change.added_blocks if present.cluster is not None else ():
        former = _structures(present, block.section)
        for name in shadowed_names(former, block.name):
            if former[name].persistent is not block.config.persistent:
                raise ChangeConflictError(
                    f"{block.section} {block.name} has another data-persistence.enabled than "
                    f"{name}, which matches such names now: several members change that in their "
                    "files, while all are stopped"
                )


def _structures(config: MemberConfig, section: str) -> Mapping[str, StructureConfig]:
    return config.maps if section == "map" else config.queues


def _extend(present: MemberConfig, change: Change) -> MemberConfig:
    added = [(block.name, block.config) for block in change.added_blocks]
    maps = {name: config for name, config in added if isinstance(config, MapConfig)}
    queues = {name: config for name, config in added if not isinstance(config, MapConfig)}
    return replace(present, maps={**present.maps, **maps}, queues={**present.queues, **queues})


def _at_key(problem: Problem, key: str) -> Problem:
    return Problem(SourcePosition(key, 0, 0), problem.path, problem.message)
