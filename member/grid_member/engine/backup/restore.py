"""Finding and restoring: a backup becomes the store of a directory that holds none.

The restored member is another one than that of the backup: it gets a UUID of its own. The original
may still run, or come back. Under one UUID both would count the same incarnations and records, and
a log that met records of both would take the second ones for retries of the first; whoever looks
at the cluster could not tell them apart either. So what the former member had in flight is returned
here, as its own next start would have done, by one more record of each log.

The store is made in `creating`, synced and renamed, as every new store is.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from grid_member.engine.api import EngineError
from grid_member.engine.backup.backup import BACKUP
from grid_member.engine.io.directory_lock import LOCK, lock_directory
from grid_member.engine.io.files import DIRECTORY_MODE, PRIVATE_MODE, sync_directory
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.lmdb.replay import Replay
from grid_member.engine.lmdb.tables import changed_log, pack_records
from grid_member.engine.state.operations import Committed, Record
from grid_member.engine.state.snapshot import ItemPart, MemberPart, SystemPart
from grid_member.engine.storage.exchange import (
    EMPTIED,
    SALVAGED,
    STORE,
    check_unfinished,
    finish_exchange,
    number_in,
)
from grid_member.engine.storage.identity import (
    FORGOTTEN,
    IDENTITY_FILE,
    RestoreOrigin,
    StoreIdentity,
    read_identity,
    write_identity,
)
from grid_member.engine.storage.manifest import (
    MANIFEST_FILE,
    Checksum,
    Manifest,
    backup_error,
    file_checksum,
    read_manifest,
)
from grid_member.engine.storage.store import (
    CREATING,
    check_directory,
    clear_unfinished,
    make_directories,
    shard_path,
)

_HARMLESS: Final = frozenset({LOCK, "lost+found", "start-calls.json", CREATING})
"""What a directory may hold that is otherwise empty."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """What was restored."""

    member: uuid.UUID
    """The UUID that the restored member has."""
    former_member: str
    created_ms: int
    """When the backup was made, milliseconds since the epoch."""
    size_bytes: int
    """Of what was copied and checked."""


def newest_backup(place: Path) -> tuple[Path, list[Path]]:
    """Return the complete backup of the highest number, and the incomplete ones above it.

    Complete is what has a manifest: it is written last. A backup that is damaged is not passed
    over, which would restore older data without a word; whoever restores it is told.

    Raises:
        EngineError: there is none, or the directory cannot be read.
    """
    incomplete: list[Path] = []
    for backup in _backups(place):
        if (backup / MANIFEST_FILE).exists():
            return backup, incomplete
        incomplete.append(backup)
    if (place / MANIFEST_FILE).exists():
        raise EngineError(f"{place} is a backup itself: leave --newest out")
    raise EngineError(
        f"{place} holds no complete backup: name the directory that holds {BACKUP}1 or others"
    )


def began_in(place: Path, directory: Path) -> Path | None:
    """Return which backup of a place the store in a base directory began as, None if none."""
    try:
        restored = read_identity(directory / STORE / IDENTITY_FILE).restored
    except (EngineError, OSError):
        return None  # whoever restores there finds out what is wrong
    if restored is None or not restored.backup_id:
        return None
    if Path(restored.place).parent == place.resolve():
        return Path(restored.place)
    return next((b for b in _backups(place) if _has_id(b, restored.backup_id)), None)


def _backups(place: Path) -> list[Path]:
    """Return what is called a backup, the highest number first."""
    try:
        found = {number_in(path.name, BACKUP): path for path in place.iterdir() if path.is_dir()}
    except OSError as error:
        raise unusable_error("the directory of backups", place, error) from None
    return [found[number] for number in sorted(found, reverse=True) if number > 0]


def _has_id(backup: Path, backup_id: str) -> bool:
    try:
        return read_manifest(backup).backup_id == backup_id
    except (EngineError, OSError):
        return False


def restore_once(backup: Path, directory: Path) -> Restoration | None:
    """Restore the backup unless the directory's store began as this one already; None then.

    Raises:
        EngineError: the backup cannot be restored, or the directory holds another store.
    """
    try:
        if any((directory / name).exists() for name in (STORE, SALVAGED, EMPTIED)):
            _finish_recovery(directory)
            check_directory(directory)
            _check_restored(backup, directory)
            return None
    except OSError as error:
        raise unusable_error("the directory", directory, error) from error
    return restore_backup(backup, directory)


def _finish_recovery(directory: Path) -> None:
    """Do the rest of a recovery that was interrupted: what it left is the store."""
    if not any((directory / name).exists() for name in (SALVAGED, EMPTIED)):
        return
    lock_fd = lock_directory(directory)
    try:
        finish_exchange(directory)
    finally:
        os.close(lock_fd)


def restore_backup(backup: Path, directory: Path) -> Restoration:
    """Make the store of an empty directory from a backup, every byte of which is checked.

    Raises:
        EngineError: the backup is damaged, incomplete, of a newer format or none; the directory
            is not empty, locked or cannot be used. It holds what it held before then.
    """
    try:
        manifest = read_manifest(backup)
        identity = _identity(backup, manifest)
    except OSError as error:
        raise unusable_error("the backup", backup, error) from error
    try:
        _check_outside(directory)
        made = make_directories(directory)
        try:
            _check_empty(directory)
            return _restore_locked(backup, manifest, identity, directory)
        except BaseException:
            _unmake(made)
            raise
    except (OSError, lmdb.Error) as error:
        raise unusable_error("the directory", directory, error) from error


def _check_outside(directory: Path) -> None:
    """Refuse a directory in a backup, which would be one no more."""
    for place in directory.resolve().parents:
        if all((place / name).is_file() for name in (MANIFEST_FILE, IDENTITY_FILE)):
            raise EngineError(
                f"{directory} is inside of the backup {place}: choose a directory elsewhere"
            )


def _restore_locked(
    backup: Path, manifest: Manifest, identity: StoreIdentity, directory: Path
) -> Restoration:
    had_lock = (directory / LOCK).exists()
    lock_fd = lock_directory(directory)
    try:
        _check_empty(directory)
        return _restore(backup, manifest, identity, directory)
    except BaseException:
        if not had_lock:
            # Whoever has opened it by now finds out that it is gone: see `lock_directory`.
            (directory / LOCK).unlink(missing_ok=True)
        raise
    finally:
        os.close(lock_fd)


def _unmake(made: list[Path]) -> None:
    """Remove the directories that were made for a restore, as far as nobody has used them."""
    with contextlib.suppress(OSError):
        for path in made:
            path.rmdir()


def _restore(
    backup: Path, manifest: Manifest, identity: StoreIdentity, directory: Path
) -> Restoration:
    creating = clear_unfinished(directory)
    try:
        creating.mkdir(mode=DIRECTORY_MODE)
        for name, checksum in manifest.files.items():
            _copy(backup, name, checksum, creating)
        for shard in range(identity.shards):
            if not shard_path(creating, shard).is_dir():
                raise backup_error(backup, f"it has no shard {shard}")
            return_items_in_flight(shard_path(creating, shard), shard)
        member = uuid.uuid4()
        restored = RestoreOrigin(manifest.backup_id, str(backup.resolve()))
        (creating / IDENTITY_FILE).unlink()
        write_identity(creating / IDENTITY_FILE, StoreIdentity(member, identity.shards, restored))
        sync_directory(creating)
    except lmdb.Error as error:
        # What was written has not gone yet: it can be told whether that has filled the disk.
        problem = unusable_error("the directory", directory, error)
        clear_unfinished(directory)
        raise problem from error
    except BaseException:
        clear_unfinished(directory)
        raise
    creating.rename(directory / STORE)
    sync_directory(directory)
    size_bytes = sum(checksum.size_bytes for checksum in manifest.files.values())
    return Restoration(member, manifest.member, manifest.created_ms, size_bytes)


def _identity(backup: Path, manifest: Manifest) -> StoreIdentity:
    try:
        found = file_checksum(backup / IDENTITY_FILE)
    except FileNotFoundError:
        found = None
    if found is None or found != manifest.files.get(IDENTITY_FILE):
        raise backup_error(backup, f"{IDENTITY_FILE} is not as it was written")
    return read_identity(backup / IDENTITY_FILE)


def _check_restored(backup: Path, directory: Path) -> None:
    identity = read_identity(directory / STORE / IDENTITY_FILE)
    restored = identity.restored
    if restored == FORGOTTEN:
        return
    if restored is not None and restored.place == str(backup.resolve()):
        # Where it was before there may be no backup any more, or a newer one of that name.
        try:
            if read_manifest(backup).backup_id == restored.backup_id:
                return
        except (EngineError, OSError):
            return  # nobody needs that one any more
    elif restored is not None and read_manifest(backup).backup_id == restored.backup_id:
        return
    raise EngineError(
        f"{directory} holds a store that did not begin as the backup {backup}: choose an empty "
        "base directory to restore the backup, or, to keep the store, take "
        "persistence.restore-from out of the configuration"
    )


def _check_empty(directory: Path) -> None:
    left = sorted(path.name for path in directory.iterdir() if path.name not in _HARMLESS)
    if left:
        raise EngineError(
            f"{directory} is not empty, it holds {left[0]}: choose an empty directory"
        )
    if (directory / CREATING).exists():
        check_unfinished(directory / CREATING)


def _copy(backup: Path, name: str, expected: Checksum, creating: Path) -> None:
    """Copy a file of the backup, checking what is copied."""
    target = creating / name
    if ".." in target.parts or not target.is_relative_to(creating):
        raise backup_error(backup, "its manifest names a file outside of it")
    target.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    file_fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    with os.fdopen(file_fd, "wb") as copy:
        try:
            found = file_checksum(backup / name, copy.write)
        except FileNotFoundError:
            raise backup_error(backup, f"{name} is missing") from None
        copy.flush()
        os.fsync(file_fd)
    if found != expected:
        raise backup_error(backup, f"{name} is not as it was written")
    sync_directory(target.parent)


def return_items_in_flight(path: Path, shard: int) -> None:
    """Read all of the log in a directory; append what returns the items that are in flight.

    Raises:
        EngineError: the log is damaged.
    """
    with changed_log(path, shard) as tables:
        replay = Replay(tables, path)
        endings = _endings(replay)
        values = pack_records(endings, replay.sequence + 1, replay.timestamp_ms)
        tables.append(replay.sequence, values)


def _endings(replay: Replay) -> list[Record]:
    """Read the log; return the records that return what is in flight at its end."""
    takers: set[bytes] = set()
    incarnations: dict[bytes, int] = {}
    for step in replay.steps():
        if isinstance(step, Committed):
            record = step.record
            # Whoever sent a record may have taken something.
            takers.add(record.member)
            known = incarnations.get(record.member, 0)
            incarnations[record.member] = max(known, record.incarnation)
            continue
        for part in step:
            if isinstance(part, SystemPart):
                replay.timestamp_ms = max(replay.timestamp_ms, part.timestamp_ms)
            elif isinstance(part, MemberPart):
                incarnations[part.member] = part.mark.incarnation
            elif isinstance(part, ItemPart) and part.taker is not None:
                takers.add(part.taker)
    return [Record(m, incarnations.get(m, 0) + 1, 1, ()) for m in sorted(takers)]
