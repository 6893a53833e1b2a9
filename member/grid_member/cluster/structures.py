"""The configured structures in the form in which the engine asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grid_member.config.names import find
from grid_member.engine.api import MapSettings, QueueSettings

if TYPE_CHECKING:
    from grid_member.config.model import MemberConfig


@dataclass(frozen=True, slots=True)
class ConfiguredStructures:
    """Implements `engine.api.Structures` over a member's configuration."""

    config: MemberConfig

    def map_settings(self, name: str) -> MapSettings | None:
        """Return the settings of the map called name, None when nothing matches."""
        found = find(self.config.maps, name)
        if found is None:
            return None
        return MapSettings(found.time_to_live_s, found.persistent, found.fsync)

    def queue_settings(self, name: str) -> QueueSettings | None:
        """Return the settings of the queue called name, None when nothing matches."""
        found = find(self.config.queues, name)
        if found is None:
            return None
        return QueueSettings(found.max_size_items, found.persistent, found.fsync)
