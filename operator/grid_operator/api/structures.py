"""The part of a GridCluster's spec that configures maps and queues."""

from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import Field

from grid_operator.api.base import MAX_INT32, Rule, SpecModel
from grid_operator.api.wan import MapWanSpec

STRUCTURE_NAME_PATTERN: Final = r"^[^$\x00-\x1f\x7f]+$"
"""No control characters, and no `$`: it would start a variable in the member's configuration."""


class EvictionPolicy(StrEnum):
    """Which entries a map gives up when it is over its size."""

    NONE = "None"
    LRU = "Lru"
    LFU = "Lfu"
    RANDOM = "Random"


class MaxSizePolicy(StrEnum):
    """What the size of a map counts."""

    PER_NODE = "PerNode"
    USED_HEAP_SIZE = "UsedHeapSize"


class EvictionSpec(SpecModel):
    """What a map gives up when it holds too much."""

    policy: EvictionPolicy = Field(
        default=EvictionPolicy.NONE,
        description="Which entries go: the least recently used, the least frequently used, any.",
    )
    max_size_policy: MaxSizePolicy = Field(
        default=MaxSizePolicy.PER_NODE,
        description="What size counts: PerNode entries, UsedHeapSize megabytes (2^20 bytes) of "
        "keys and values.",
    )
    size: int = Field(default=0, ge=0, le=MAX_INT32, description="Most that a member holds of it.")
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.policy == 'None') == (self.size == 0)",
            "eviction needs both a policy other than None and a size above 0",
            lambda s: (s.policy is EvictionPolicy.NONE) == (s.size == 0),
        ),
    )


class DataPersistenceSpec(SpecModel):
    """Whether one map or queue is written to disk."""

    enabled: bool = Field(
        default=True, description="Whether its data is written to disk; needs persistence.enabled."
    )
    fsync: bool = Field(
        default=True, description="Whether a write is answered only when it survives a power loss."
    )


def _name(kind: str) -> Any:
    return Field(
        min_length=1,
        max_length=255,
        pattern=STRUCTURE_NAME_PATTERN,
        description=f"{kind} name; one * matches any text; `default` is for {kind.lower()}s that "
        "nothing else matches.",
    )


class MapSpec(SpecModel):
    """Configuration of the maps that a name matches."""

    name: str = _name("Map")
    time_to_live_seconds: int = Field(
        default=0, ge=0, le=MAX_INT32, description="Seconds after which an entry is gone; 0: never."
    )
    max_idle_seconds: int = Field(
        default=0,
        ge=0,
        le=MAX_INT32,
        description="Seconds without a read or write after which an entry is gone; 0: never.",
    )
    eviction: EvictionSpec = Field(
        default=EvictionSpec(), description="What goes when the map holds too much."
    )
    data_persistence: DataPersistenceSpec | None = Field(
        default=None, description="Whether it is written to disk; none: as persistence.enabled."
    )
    wan: MapWanSpec | None = Field(
        default=None, description="How it is replicated to other clusters; none: it is not."
    )


class QueueSpec(SpecModel):
    """Configuration of the queues that a name matches."""

    name: str = _name("Queue")
    max_size: int = Field(
        default=0, ge=0, le=MAX_INT32, description="Most items held; 0: 2147483647."
    )
    data_persistence: DataPersistenceSpec | None = Field(
        default=None, description="Whether it is written to disk; none: as persistence.enabled."
    )
