"""What the engine is told of the configured maps and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.cluster.management import structures
from grid_member.cluster.management.structures import ConfiguredStructures
from grid_member.config.model.member import EvictionConfig, MapConfig, MemberConfig, QueueConfig
from grid_member.config.names import find
from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

STRUCTURES = ConfiguredStructures(
    MemberConfig(
        maps={
            "plain": MapConfig(persistent=False, fsync=True),
            "cache*": MapConfig(
                persistent=True,
                fsync=False,
                time_to_live_s=5,
                max_idle_s=7,
                eviction=EvictionConfig("LFU", 100, 2**20),
            ),
        },
        queues={"default": QueueConfig(persistent=True, fsync=False, max_size_items=3)},
    )
)


def test_every_setting_arrives() -> None:
    assert STRUCTURES.map_settings("plain") == MapSettings(persistent=False)
    assert STRUCTURES.map_settings("cache-of-pages") == MapSettings(
        time_to_live_s=5,
        max_idle_s=7,
        eviction=Eviction(EvictionPolicy.LFU, max_entries=100, max_bytes=2**20),
        persistent=True,
        fsync=False,
    )
    assert STRUCTURES.queue_settings("any") == QueueSettings(3, persistent=True, fsync=False)


def test_what_is_not_configured_is_not_there() -> None:
    assert STRUCTURES.map_settings("other") is None


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(configured: Mapping[str, object], name: str) -> object:
        asked.append(name)
        return find(configured, name)

    monkeypatch.setattr(structures, "find", counting)
    one = ConfiguredStructures(MemberConfig(maps={"a*": MapConfig(persistent=False, fsync=False)}))
    for name in ("ab", "other"):
        assert one.map_settings(name) == one.map_settings(name)
        assert one.queue_settings(name) is None
    assert sorted(asked) == ["ab", "ab", "other", "other"]
