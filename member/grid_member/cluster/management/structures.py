"""The configured structures in the form in which the engine asks for them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from grid_member.config.names import find
from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.model.member import EvictionConfig, MapConfig, MemberConfig, QueueConfig
    from grid_member.engine.api import Persistence


MAX_KNOWN_NAMES: Final = 4096
"""Of maps and of queues. Clients choose them, so not all can be kept."""


class ConfiguredStructures:
    """Implements `engine.api.Structures` over a member's configuration."""

    def __init__(self, config: MemberConfig) -> None:
        # Made once, and found once for each name: the engine asks with every operation, and there
        # may be a thousand wildcards to look through.
        maps = {name: _map_settings(found) for name, found in config.maps.items()}
        queues = {name: _queue_settings(found) for name, found in config.queues.items()}
        self._kept = {
            "map": {name: found.persistent for name, found in maps.items()},
            "queue": {name: found.persistent for name, found in queues.items()},
        }
        # Not methods: they would add a call to each of millions.
        remember = functools.lru_cache(MAX_KNOWN_NAMES)
        self.map_settings: Callable[[str], MapSettings | None]
        """Returns the settings of the map called so, None when nothing matches."""
        self.map_settings = remember(functools.partial(find, maps))
        self.queue_settings: Callable[[str], QueueSettings | None]
        """Returns the settings of the queue called so, None when nothing matches."""
        self.queue_settings = remember(functools.partial(find, queues))

    def persistence(self) -> Persistence:
        """Return which of all that is configured is persistent."""
        return self._kept


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
