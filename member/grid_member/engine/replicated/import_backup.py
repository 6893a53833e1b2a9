"""How a new cluster begins with the data of a backup: imported before anybody serves.

    no streams ─▶ the first one, which names backup and importer ─▶ the others ─▶ a snapshot in each
               ─▶ all read back and compared ─▶ the first one says that it is done

Every member that starts waits for the last step. The importer begins again with the snapshots after
whatever ended it before that; the backup itself is only read.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.api import DataOrigin, EngineError
from grid_member.engine.backup.restore import restore_once
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.jetstream.replay import SnapshotChunk, replay_log
from grid_member.engine.jetstream.snapshots import SnapshotWriter, look_at
from grid_member.engine.lmdb.replay import Replay
from grid_member.engine.lmdb.tables import changed_log
from grid_member.engine.nats.admin.streams import (
    NoStreamError,
    ask,
    ask_successfully,
    stream_config,
)
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.state import codec, snapshot
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Committed
from grid_member.engine.state.sharding import merge, split, without_values
from grid_member.engine.storage.exchange import STORE
from grid_member.engine.storage.identity import IDENTITY_FILE, read_identity
from grid_member.engine.storage.manifest import MANIFEST_FILE, read_manifest
from grid_member.engine.storage.store import CLUSTER, shard_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.jetstream.replay import ReplaySource
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.snapshot import Part, Snapshot

IMPORT: Final = "import"
"""In the directory of the importer, until it is done: its checked copy of the backup, which
`grid-member restore --several` makes, too."""
RETRY_S: Final = 0.5
BACKUP_ID: Final = "grid.import"
IMPORTER: Final = "grid.importer"
DONE: Final = "grid.imported"
"""What the first stream's metadata says: which backup, the importer's UUID, that it is over."""
_NOT_FOUND: Final = 10059
_EXISTS: Final = 10058
_log: Final = logging.getLogger("grid.engine.nats")


class _Content(NamedTuple):
    """What a snapshot holds, to be compared."""

    entries: int
    items: int
    digest: str


class BackupImport:
    """The import of one start of a member."""

    def __init__(
        self,
        client: NatsClient,
        settings: ClusterSettings,
        member: str,
        streams: Sequence[Stream],
        waiting: Callable[[str], None],
    ) -> None:
        """Do nothing yet; streams are those of the shards that are kept, the first one first."""
        self._client = client
        self._settings = settings
        self._member = member
        self._streams = streams
        self._waiting = waiting
        self._place = None if settings.directory is None else import_place(settings.directory)
        self._backup = None if settings.directory is None else settings.restore_from

    async def begin(self) -> None:
        """Make the first stream when it is this member that imports. To be done before any other.

        Raises:
            EngineError: the backup cannot be imported, or the cluster began otherwise.
        """
        place, backup = self._place, self._backup
        if place is None or (backup is None and not await asyncio.to_thread(_is_copied, place)):
            return
        while True:
            try:
                made = await ask(self._client, f"STREAM.INFO.{self._streams[0].name}")
                error = made.get("error")
                backup_id = await asyncio.to_thread(_known_id, place, backup)
                if error is None:
                    _check_begun(backup or place, backup_id, made["config"])
                    return
                if error.get("err_code") != _NOT_FOUND:
                    self._waiting(f"{self._streams[0].name}: {error.get('description')}")
                elif backup_id is None:
                    self._waiting(f"no member has found the backup {backup} yet")
                else:
                    await asyncio.to_thread(_copy, backup, place)
                    await self._claim(backup_id)
            except NatsError as problem:
                self._waiting(str(problem))
            await asyncio.sleep(RETRY_S)

    async def finish(self, source: ReplaySource, made: Callable[[], Awaitable[None]]) -> DataOrigin:
        """Import when all streams are made, or let another member; return where the data is from.

        Raises:
            EngineError: the backup cannot be imported.
        """
        while True:
            try:
                info = await ask_successfully(self._client, f"STREAM.INFO.{self._streams[0].name}")
                said = info["config"].get("metadata", {})
                if BACKUP_ID not in said or DONE in said:
                    await asyncio.to_thread(self._forget)
                    return DataOrigin.BACKUP if BACKUP_ID in said else DataOrigin.OWN
                if said[IMPORTER] == self._member and self._place is not None:
                    await made()
                    await self._import(source, self._place)
                    await self._end(info["config"])
                    await asyncio.to_thread(self._forget)
                    return DataOrigin.IMPORTED
                self._waiting(f"the member {said[IMPORTER]} imports a backup")
            except NoStreamError:
                return DataOrigin.OWN  # a rescue has deleted it: nothing is left to import
            except NatsError as problem:
                self._waiting(f"the import waits: {problem}")
            await asyncio.sleep(RETRY_S)

    async def _claim(self, backup_id: str) -> None:
        """Make the first stream unless somebody was faster."""
        settings, stream = self._settings, self._streams[0]
        copies = min(settings.copies, len(settings.members))
        config = stream_config(stream, copies, settings.cluster_name)
        config["metadata"] |= {BACKUP_ID: backup_id, IMPORTER: self._member}
        error = (await ask(self._client, f"STREAM.CREATE.{stream.name}", config)).get("error")
        if error is not None and error.get("err_code") != _EXISTS:
            self._waiting(f"{stream.name}: {error.get('description')}")

    async def _import(self, source: ReplaySource, place: Path) -> None:
        self._waiting("this member imports a backup")
        await asyncio.to_thread(_copy, self._backup, place)
        whole = await asyncio.to_thread(_read_store, place / STORE)
        kept = without_values(whole, self._settings.leftovers)
        parts = split(kept, len(self._streams))
        for stream, part in zip(self._streams, parts, strict=True):
            held = await look_at(self._client, stream.name)
            await SnapshotWriter(self._client, stream.name, held, log_begins=True).write(part)
        found = [await asyncio.to_thread(_content_of, source, one.name) for one in self._streams]
        if found != [await asyncio.to_thread(_content, part) for part in parts]:
            raise EngineError(
                "what was imported of the backup reads back differently: start all members on "
                "empty base directories"
            )
        entries, items = sum(one.entries for one in found), sum(one.items for one in found)
        _log.info("imported a backup: %d entries, %d items", entries, items)

    async def _end(self, config: dict[str, Any]) -> None:
        done = {**config, "metadata": {**config["metadata"], DONE: "1"}}
        await ask_successfully(self._client, f"STREAM.UPDATE.{self._streams[0].name}", done)

    def _forget(self) -> None:
        """Remove the copy, which nobody needs any more."""
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)


def import_place(directory: Path) -> Path:
    """Return where the copy of a backup is in a member's base directory."""
    return directory / CLUSTER / IMPORT


def _is_copied(place: Path) -> bool:
    return (place / STORE).exists()


def _known_id(place: Path, backup: Path | None) -> str | None:
    """Return the id of the backup as the copy tells it, or else the backup; None without both."""
    try:
        if _is_copied(place):
            restored = read_identity(place / STORE / IDENTITY_FILE).restored
            copied = None if restored is None else restored.backup_id
            if backup is not None and (backup / MANIFEST_FILE).exists():
                wanted = read_manifest(backup).backup_id
                if wanted != copied:
                    raise EngineError(
                        f"{place} holds a copy of another backup than {backup}: remove the copy "
                        "to begin as the configured one"
                    )
            return copied
        if backup is not None and (backup / MANIFEST_FILE).exists():
            return read_manifest(backup).backup_id
    except OSError as error:
        raise unusable_error("the backup", backup or place, error) from error
    return None


def _copy(backup: Path | None, place: Path) -> None:
    """Check the backup and copy it, unless there is a copy."""
    if not _is_copied(place):
        if backup is None:
            raise EngineError(f"{place} is gone: start all members on empty base directories")
        restore_once(backup, place)


def _check_begun(backup: Path, backup_id: str | None, config: dict[str, Any]) -> None:
    """Refuse a cluster that began as something else; an import that is over may be long ago."""
    begun_as = config.get("metadata", {}).get(BACKUP_ID)
    # Where it was then there may be no backup any more.
    if begun_as is not None and backup_id in {None, begun_as}:
        return
    raise EngineError(
        f"the cluster holds data that did not begin as the backup {backup}: set "
        "persistence.restore-from on all members of a new cluster and start them on empty base "
        "directories, or, to keep the data, take it out of the configuration"
    )


def _read_store(place: Path) -> Snapshot:
    """Return all that a store holds; nothing is in flight there. Blocks."""
    try:
        identity = read_identity(place / IDENTITY_FILE)
        states = [_log_state(shard_path(place, shard), shard) for shard in range(identity.shards)]
    except OSError as error:
        raise unusable_error("the directory", place, error) from error
    whole = merge([state.snapshot() for state in states])
    return replace(whole, cluster_state=whole.restart_state)


def _log_state(path: Path, shard: int) -> State:
    with changed_log(path, shard) as tables:
        return _load(Replay(tables, path).steps())


def _content_of(source: ReplaySource, stream: str) -> _Content:
    def steps() -> Iterator[Committed | Sequence[Part]]:
        with closing(replay_log(source, stream)) as chunks:
            for step in chunks:
                if not isinstance(step, SnapshotChunk):
                    raise EngineError(f"somebody wrote to {stream} while it was imported")
                if step.payload:
                    yield codec.decode_parts(step.payload)

    return _content(_load(steps()).snapshot())


def _load(steps: Iterable[Committed | Sequence[Part]]) -> State:
    state = State()
    for step in steps:
        if isinstance(step, Committed):
            state.apply(step.sequence, step.timestamp_ms, step.record)
        else:
            state.load(step)
    return state


def _content(found: Snapshot) -> _Content:
    digest = hashlib.sha256()
    for part in snapshot.parts(found, ordered=True):
        digest.update(codec.encode_part(part))
    return _Content(
        sum(len(one.entries) for one in found.maps.values()),
        sum(len(waiting) for waiting, _ in found.queues.values()),
        digest.hexdigest(),
    )
