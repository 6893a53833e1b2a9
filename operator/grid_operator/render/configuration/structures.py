"""The maps and queues of the member configuration, each as the element with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.structures import EvictionPolicy, MaxSizePolicy
from grid_operator.render.configuration.wan import map_reference

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridClusterSpec
    from grid_operator.api.structures import DataPersistenceSpec, MapSpec, QueueSpec

_EVICTION_POLICIES: Final = {
    EvictionPolicy.NONE: "NONE",
    EvictionPolicy.LRU: "LRU",
    EvictionPolicy.LFU: "LFU",
    EvictionPolicy.RANDOM: "RANDOM",
}
_SIZE_POLICIES: Final = {
    MaxSizePolicy.PER_NODE: "PER_NODE",
    MaxSizePolicy.USED_HEAP_SIZE: "USED_HEAP_SIZE",
}


def structure_trees(spec: GridClusterSpec) -> dict[str, dict[str, Any]]:
    """Return the elements `map` and `queue`, left out where there is none."""
    sections = {
        "map": {structure.name: _map(structure) for structure in spec.maps},
        "queue": {structure.name: _queue(structure) for structure in spec.queues},
    }
    return {section: trees for section, trees in sections.items() if trees}


def _map(structure: MapSpec) -> dict[str, Any]:
    element: dict[str, Any] = {
        "time-to-live-seconds": structure.time_to_live_seconds,
        "max-idle-seconds": structure.max_idle_seconds,
    }
    eviction = structure.eviction
    if eviction.policy is not EvictionPolicy.NONE:
        element["eviction"] = {
            "eviction-policy": _EVICTION_POLICIES[eviction.policy],
            "max-size-policy": _SIZE_POLICIES[eviction.max_size_policy],
            "size": eviction.size,
        }
    kept = _data_persistence(structure.data_persistence)
    return {**element, **kept, **map_reference(structure.wan)}


def _queue(structure: QueueSpec) -> dict[str, Any]:
    return {"max-size": structure.max_size, **_data_persistence(structure.data_persistence)}


def _data_persistence(wanted: DataPersistenceSpec | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    # What is not written to disk is not synced either: members refuse to be told both.
    fsync = {"fsync": wanted.fsync} if wanted.enabled else {}
    return {"data-persistence": {"enabled": wanted.enabled, **fsync}}
