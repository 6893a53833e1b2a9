"""The names of the clusters that said hello, for all members of this cluster.

    wan/source/<id>     the name

A source says hello to one member and sends batches to all: each counts them under the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put
from grid_member.wan.agreement.store import WAN
from grid_member.wan.figures import MAX_SOURCES
from grid_member.wan.receiver import SourceNames

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

SOURCE: Final = f"{WAN}source/"


class StoredSources:
    """Names that all members know."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store
        self._heard = SourceNames()

    def note(self, cluster_id: bytes, name: str) -> None:
        """Remember a name here, and for the others."""
        self._heard.note(cluster_id, name)
        known = dict(self._store.system_items(SOURCE))
        key, value = SOURCE + cluster_id.hex(), name.encode()
        if known.get(key) == value:
            return
        if key not in known and len(known) >= MAX_SOURCES:
            former = next((each for each, named in known.items() if named == value), None)
            if former is None:
                return
            # A cluster in memory has another id after each restart.
            Put(former, None).send(self._store)
        Put(key, value).send(self._store)

    def name(self, cluster_id: bytes) -> str | None:
        """Return the name of a cluster, None when no member knows it."""
        found = self._heard.name(cluster_id)
        if found is None:
            stored = self._store.system_get(SOURCE + cluster_id.hex())
            if stored is not None:
                found = stored.decode()
                self._heard.note(cluster_id, found)
        return found
