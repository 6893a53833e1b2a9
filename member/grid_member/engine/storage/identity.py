"""Who a store belongs to: `store.json`, the first file of every store and backup."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.files import write_new_file
from grid_member.engine.io.store_errors import damage_error, newer_error

if TYPE_CHECKING:
    from pathlib import Path

STORE_FORMAT: Final = 1
"""Counts changes of the layout that an older program must not touch."""
IDENTITY_FILE: Final = "store.json"
_KIND: Final = "grid-member"


@dataclass(frozen=True, slots=True)
class RestoreOrigin:
    """Which backup a store began as."""

    backup_id: str
    place: str
    """Where the backup was then."""


FORGOTTEN: Final = RestoreOrigin("", "")
"""Of a store whose identity was lost: a recovery that was asked for made it what it is now."""


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The member whose data it is, and how many logs that is spread over."""

    member: uuid.UUID
    shards: int
    restored: RestoreOrigin | None = None


def write_identity(path: Path, identity: StoreIdentity) -> None:
    """Write the identity into a new file, synced."""
    content: dict[str, object] = {
        "kind": _KIND,
        "format": STORE_FORMAT,
        "member": str(identity.member),
        "shards": identity.shards,
    }
    if identity.restored is not None:
        restored = identity.restored
        content["restored"] = {"backup": restored.backup_id, "place": restored.place}
    write_new_file(path, json.dumps(content))


def read_identity(path: Path) -> StoreIdentity:
    """Return what `write_identity` wrote.

    Raises:
        EngineError: the file is foreign or of a newer format; `DamagedStoreError`: it is damaged.
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        if content["kind"] != _KIND:
            raise EngineError(f"{path} was not written by a grid-member: choose another directory")
        if content["format"] != STORE_FORMAT:
            raise newer_error(str(path), content["format"], STORE_FORMAT)
        restored = content.get("restored")
        return StoreIdentity(
            uuid.UUID(content["member"]),
            int(content["shards"]),
            restored and RestoreOrigin(str(restored["backup"]), str(restored["place"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damage_error(str(path), "it is not what a grid-member writes") from None
