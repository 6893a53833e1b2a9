"""What a backup says about itself: the file `manifest`, written last.

Its first line is JSON: kind, format, id, when it was made, the UUID of the member, and size and
SHA-256 of every other file by name. Its second line is the SHA-256 of the first.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.files import write_new_file
from grid_member.engine.io.store_errors import newer_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

BACKUP_FORMAT: Final = 1
"""Counts changes of a backup that an older program must not restore."""
MANIFEST_FILE: Final = "manifest"
_PIECE_BYTES: Final = 1024 * 1024
"""Bytes that are read at a time."""
_KIND: Final = "grid-backup"
_ANOTHER: Final = "restore another backup"


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a file of a backup holds."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup's own description."""

    backup_id: str
    created_ms: int
    member: str
    """UUID of the member whose data it is."""
    files: Mapping[str, Checksum]
    """By path below the backup."""


def write_manifest(place: Path, manifest: Manifest) -> None:
    """Write the manifest of the backup at place, synced."""
    content = {
        "kind": _KIND,
        "format": BACKUP_FORMAT,
        "id": manifest.backup_id,
        "created": manifest.created_ms,
        "member": manifest.member,
        "files": {name: [sum_.size_bytes, sum_.sha256] for name, sum_ in manifest.files.items()},
    }
    line = json.dumps(content, separators=(",", ":"))
    digest = hashlib.sha256(line.encode()).hexdigest()
    write_new_file(place / MANIFEST_FILE, f"{line}\n{digest}\n")


def read_manifest(place: Path) -> Manifest:
    """Return the manifest of the backup at place.

    Raises:
        EngineError: there is no backup, or it is incomplete, damaged or of a newer format.
        OSError: the file cannot be read.
    """
    try:
        data = (place / MANIFEST_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _no_backup_error(place) from None
    line, _, rest = data.partition(b"\n")
    if rest != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise backup_error(place, f"its {MANIFEST_FILE} is not as it was written")
    try:
        content = json.loads(line)
        if content["kind"] != _KIND:
            raise _no_backup_error(place)
        if content["format"] != BACKUP_FORMAT:
            raise newer_error(f"the backup {place}", content["format"], BACKUP_FORMAT)
        files = {name: Checksum(*found) for name, found in content["files"].items()}
        return Manifest(content["id"], content["created"], content["member"], files)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise backup_error(place, f"its {MANIFEST_FILE} is not what a grid-member writes") from None


def file_checksum(path: Path, take: Callable[[bytes], object] = len) -> Checksum:
    """Return the checksum of a file; take gets each piece that is read of it, and may raise."""
    digest = hashlib.sha256()
    size_bytes = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size_bytes += len(piece)
            take(piece)
    return Checksum(size_bytes, digest.hexdigest())


def backup_error(place: Path, why: str) -> EngineError:
    """Return the error of a backup that must not be restored."""
    return EngineError(f"the backup {place} is damaged or incomplete: {why}: {_ANOTHER}")


def _no_backup_error(place: Path) -> EngineError:
    several = sorted(path.parent.name for path in place.glob(f"backup-*/{MANIFEST_FILE}"))
    if several:
        return EngineError(f"{place} holds backups: name one of them, such as {place}/{several[0]}")
    return EngineError(f"{place} is not a backup, it holds no {MANIFEST_FILE}: {_ANOTHER}")
