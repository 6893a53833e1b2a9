"""The backups in a directory that backups are made in: the newest, and the one a store began as."""

from __future__ import annotations

from pathlib import Path

from grid_member.engine.api import EngineError
from grid_member.engine.backup.backup import BACKUP
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.storage.exchange import STORE, number_in
from grid_member.engine.storage.identity import IDENTITY_FILE, read_identity
from grid_member.engine.storage.manifest import MANIFEST_FILE, read_manifest


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
