"""What a member tells in its log, once, of copies that are in trouble."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from grid_member.engine.replicas import watch
from grid_member.engine.replicas.watch import LEADERLESS_S
from tests.unit.engine.replicas.test_copy_watch import SETTINGS, World


@pytest.fixture(autouse=True)
def plain_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers have their names as ids."""
    monkeypatch.setattr(watch, "peer_id", str)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, SETTINGS)


async def test_a_look_that_fails_is_told_and_is_not_the_last_one(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broken = KeyError("cluster")
    pauses = 0

    async def pause(_: float) -> None:
        nonlocal pauses
        pauses += 1
        world.broken = None
        if pauses == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    with caplog.at_level(logging.WARNING), pytest.raises(asyncio.CancelledError):
        await world.watch.run()
    assert "cannot be looked at" in caplog.text
    assert world.watch.replication(in_contact=True).not_current == 0


async def test_a_list_that_is_too_short_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ids.add("d")
    world.places = {"c": "place", "d": "place"}  # a member came back with another server
    await world.look()
    assert "join.tcp-ip.member-list" not in caplog.text
    world.places.clear()
    await world.look()
    await world.look()
    assert caplog.text.count("join.tcp-ip.member-list") == 1


@pytest.mark.parametrize(
    ("directory", "advice"), [(Path("/d"), "partialStart"), (None, "others in their places")]
)
async def test_a_stream_whose_copies_are_out_of_reach_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    directory: Path | None,
    advice: str,
) -> None:
    world = World(monkeypatch, replace(SETTINGS, directory=directory))
    whole = world.copies["shard-1"]
    world.copies["shard-1"] = None
    assert await world.trouble() is None
    world.now_s += LEADERLESS_S
    assert await world.trouble() is None, "all servers are there: they elect"
    world.silent = {"b", "c"}
    for _ in range(2):
        told = await world.trouble()
        assert told is not None
        assert told.startswith("shard-1: most copies are out of reach")
        assert "servers of b, c are silent" in told
        assert advice in told
    assert caplog.text.count("out of reach") == 1
    world.copies["shard-1"] = whole
    assert await world.trouble() is None


async def test_an_election_is_no_trouble_yet(world: World) -> None:
    whole = world.copies["shard-1"]
    world.silent = {"b"}
    for _ in range(3):
        world.copies["shard-1"] = None
        await world.look()
        world.now_s += LEADERLESS_S - 1
        assert await world.trouble() is None
        world.copies["shard-1"] = whole
        await world.look()
