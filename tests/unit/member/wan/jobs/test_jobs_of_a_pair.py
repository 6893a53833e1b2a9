"""Promise: a sync brings the target what it lacks, and a check counts what differs."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.wan.agreement import PublisherState
from grid_member.wan.jobs.records import Counts
from tests.unit.member.wan.jobs.sites import CHECK, SYNC, add_peer, begin, done, ended, shown, store
from tests.unit.member.wan.pairs import Site, start_both, until, until_quiet, until_value
from tests.unit.member.wan.test_pair import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Site, Site]]:
    ports = free_port(), free_port()
    tokyo = Site("tokyo", ports[0], "london", ports[1])
    london = Site("london", ports[1], "tokyo", ports[0], publishes=False)
    yield tokyo, london
    for site in (tokyo, london):
        await site.stop()


@pytest.mark.parametrize("strategy", ["MERKLE_TREES", "NONE"])
async def test_a_sync_brings_what_was_not_queued(pair: tuple[Site, Site], strategy: str) -> None:
    tokyo, london = pair
    tokyo.publisher = {"sync": {"consistency-check-strategy": strategy}}
    await london.start()
    await start_both(tokyo)
    await tokyo.put("orders", "both", b"1")
    await tokyo.put("orders", "gone", b"1")
    await until_value(london, "orders", "gone", b"1")
    await until_quiet(tokyo)
    await tokyo.set_state(PublisherState.STOPPED)
    for number in range(500):
        await tokyo.put("orders", f"key-{number}", b"x")
    await tokyo.remove("orders", "gone")
    assert shown(tokyo)["needsSync"] == ["orders"]
    counts = await done(tokyo, SYNC)
    assert counts.entries == 501
    if strategy == "MERKLE_TREES":
        assert counts == Counts(entries=501, sent=501, missing=500, removed=1)
    else:
        assert counts == Counts(entries=501, sent=502)
    assert await london.get("orders", "key-499") == b"x"
    assert await london.get("orders", "gone") is None
    found = shown(tokyo)
    assert (found["needsSync"], found["job"]) == ([], None)
    assert [each["map"] for each in found["lastSyncs"]] == ["orders"]


async def test_a_check_counts(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await london.start()
    await start_both(tokyo)
    for key in "abc":
        await tokyo.put("orders", key, b"1")
    await until_value(london, "orders", "c", b"1")
    await until_quiet(tokyo)
    assert await done(tokyo, CHECK) == Counts(entries=3)
    await london.put("orders", "a", b"newer")
    await london.put("orders", "d", b"extra")
    await london.remove("orders", "b")
    assert await done(tokyo, CHECK) == Counts(entries=3, newer=2, extra=1)
    (found,) = shown(tokyo)["lastChecks"]
    assert (found["map"], found["entries"], found["newer"], found["extra"]) == ("orders", 3, 2, 1)
    assert await done(tokyo, SYNC) == Counts(entries=3, newer=2, extra=1)
    assert await london.get("orders", "a") == b"newer"


async def test_a_job_of_a_map_that_the_target_has_not_fails(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.lacks = ("people",)
    await london.start()
    await start_both(tokyo)
    await tokyo.put("orders", "a", b"1")
    await tokyo.put("people", "a", b"1")
    job = await ended(tokyo, await begin(tokyo, SYNC, ""))
    assert job.error == (
        "map people: the target has no configuration for this map: configure it there"
    )
    assert [(each.map, bool(each.error)) for each in job.results] == [
        ("people", True),
        ("orders", False),
    ]


async def test_a_mirror_that_publishes_back_by_a_call_is_refused(
    pair: tuple[Site, Site],
) -> None:
    tokyo, london = pair
    tokyo.publisher = {"sync": {"extra-entries": "REMOVE"}}
    london.more = {"wan-replication": {"peer-rep": {}}}
    london.map_more = {"orders": {"wan-replication-ref": {"peer-rep": {}}}}
    await london.start()
    await start_both(tokyo)
    await tokyo.put("orders", "same", b"1")
    await until_value(london, "orders", "same", b"1")
    await add_peer(london, "tokyo", tokyo.port, initialPublisherState=1)
    await london.put("orders", "waits", b"1")
    assert london.queued() == 1
    await tokyo.put("orders", "later", b"1")
    await until_quiet(tokyo)

    job = await ended(tokyo, await begin(tokyo, SYNC))
    assert "the target publishes the map back" in job.error
    assert await london.get("orders", "waits") == b"1"
    await london.set_state(PublisherState.REPLICATING)
    await until_value(tokyo, "orders", "waits", b"1")


async def test_a_full_queue_begins_a_sync_by_itself(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    tokyo.publisher = {"queue-capacity": 100}
    tokyo.metrics = True
    await tokyo.start()
    for number in range(150):
        await tokyo.put("orders", f"key-{number}", b"x")
    assert shown(tokyo)["needsSync"] == ["orders"]
    await london.start()
    await until_value(london, "orders", "key-149", b"x")

    def synced() -> bool:
        return bool(shown(tokyo)["lastSyncs"])

    await until(synced, "the sync has ended")
    (job,) = store(tokyo).jobs()
    assert (job.reason, job.error, job.maps) == ("a queue was full", "", ("orders",))
    assert shown(tokyo)["needsSync"] == []
    samples = await tokyo.scrape()
    labels = '{publisher="peer",replication="peer-rep"}'
    assert f"grid_wan_job_progress{labels}" not in samples
    assert samples[f"grid_wan_needs_sync{labels}"] == 0
    await done(tokyo, CHECK)
    assert (await tokyo.scrape())[f"grid_wan_check_differences{labels}"] == 0


async def test_a_sync_under_writes_on_both_sides(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.publishes = True
    await start_both(tokyo, london)
    for site in pair:
        await site.set_state(PublisherState.STOPPED)
        for number in range(1000):
            await site.put("orders", f"key-{number}", site.name.encode())
        for number in range(0, 1000, 10):
            await site.remove("orders", f"key-{number}")
        await site.set_state(PublisherState.REPLICATING)
    over = asyncio.Event()
    writing = [asyncio.create_task(_write(site, over)) for site in pair]
    jobs = [await begin(site, SYNC) for site in pair]
    for site, uuid in zip(pair, jobs, strict=True):
        assert (await ended(site, uuid)).error == ""
    over.set()
    await asyncio.gather(*writing)
    await until_quiet(tokyo, london)
    for site in pair:
        assert (await done(site, CHECK)).differences == 0
    assert held(tokyo) == held(london)
    assert len(held(tokyo)) > 900


async def _write(site: Site, over: asyncio.Event) -> None:
    chance = random.Random(site.name)
    while not over.is_set():
        key = f"key-{chance.randrange(1200)}"
        if chance.random() < 0.2:
            await site.remove("orders", key)
        else:
            await site.put("orders", key, f"{site.name}-{chance.random()}".encode())


def held(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for shard in site.engine.shards:
        if "orders" in shard.state.maps.by_name:
            found |= shard.state.maps.by_name["orders"].entries
    return found
