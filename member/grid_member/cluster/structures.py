"""The configured structures in the form in which the engine asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.config.names import find
from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings, QueueSettings

if TYPE_CHECKING:
    from grid_member.config.model import EvictionConfig, MapConfig, MemberConfig, QueueConfig


class ConfiguredStructures:
    """Implements `engine.api.Structures` over a member's configuration."""

    def __init__(self, config: MemberConfig) -> None:
        # Made once: the engine asks with every operation.
        self._maps = {name: _map_settings(found) for name, found in config.maps.items()}
        self._queues = {name: _queue_settings(found) for name, found in config.queues.items()}

    def map_settings(self, name: str) -> MapSettings | None:
        """Return the settings of the map called name, None when nothing matches."""
        return find(self._maps, name)

    def queue_settings(self, name: str) -> QueueSettings | None:
        """Return the settings of the queue called name, None when nothing matches."""
        return find(self._queues, name)


def _map_settings(config: MapConfig) -> MapSettings:
    return MapSettings(
        time_to_live_s=config.time_to_live_s,
        max_idle_s=config.max_idle_s,
        eviction=None if config.eviction is None else _eviction(config.eviction),
        persistent=config.persistent,
        fsync=config.fsync,
    )


def _eviction(config: EvictionConfig) -> Eviction:
    return Eviction(EvictionPolicy(config.policy), config.max_entries, config.max_bytes)


def _queue_settings(config: QueueConfig) -> QueueSettings:
    return QueueSettings(
        max_size=config.max_size_items, persistent=config.persistent, fsync=config.fsync
    )
