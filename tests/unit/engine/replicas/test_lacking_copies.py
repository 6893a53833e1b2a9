"""When a member asks for fewer copies, so that more can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.replicas.watch import LACKING_S, LEAST, _due
from tests.unit.engine.replicas.test_copy_watch import SETTINGS, STREAMS, World, all_of, plain_ids

if TYPE_CHECKING:
    import pytest

__all__ = ["plain_ids"]  # a fixture


async def test_fewer_copies_are_asked_for_only_where_servers_give_none_to_one_that_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, SETTINGS)
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b", wanted=3))
    await world.look()
    world.now_s += LACKING_S - 1
    await world.look()
    assert world.changed == [], "the servers may be about to give it"
    world.going = {"c"}
    world.now_s += LACKING_S
    await world.look()
    assert world.changed == [], "it leaves"
    world.going.clear()
    await world.look()
    assert world.changed == [("shard-0", 2), ("shard-1", 2)]
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b"))
    await world.look()
    assert world.changed[2:] == [("shard-0", 3), ("shard-1", 3)]


def test_never_is_one_copy_asked_for() -> None:
    """A server may have gone between the look and the lock."""
    assert _due(all_of("own", wanted=3), 3, lacking=True) == LEAST
    assert _due(all_of("own", "b", wanted=3), 3, lacking=True) == 2
