"""Promise: what is put here is got there, both ways, whatever happens to the line or the target."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.config.model.wan import WanPublisherConfig
from grid_member.engine.api import ClusterState
from grid_member.engine.wan.agreement import PublisherState
from grid_member.telemetry.repeats import FIELDS
from grid_member.wan.agreement.definitions import packed, publisher_document
from grid_member.wan.jobs.records import JobKind
from tests.unit.member.security.certificates import Authority
from tests.unit.member.wan.pairs import (
    Site,
    outcome,
    start_both,
    until,
    until_quiet,
    until_value,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Site, Site]]:
    ports = free_port(), free_port()
    tokyo = Site("tokyo", ports[0], "london", ports[1])
    london = Site("london", ports[1], "tokyo", ports[0])
    yield tokyo, london
    for site in (tokyo, london):
        await site.stop()


async def test_both_ways(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    await tokyo.put("orders", "ada", b"1")
    await london.put("people", "grace", b"2")
    await until_value(london, "orders", "ada", b"1")
    await until_value(tokyo, "people", "grace", b"2")
    await london.remove("orders", "ada")
    await until_value(tokyo, "orders", "ada", None)
    for number in range(50):
        await tokyo.put("orders", f"key-{number}", b"x")
    await until_value(london, "orders", "key-49", b"x")
    await until_quiet(tokyo, london)
    await london.clear("orders")
    await until_value(tokyo, "orders", "key-49", None)
    await until_quiet(tokyo, london)
    assert tokyo.wan.figures.received["london"]["taken"] >= 3


async def test_a_time_to_live_and_an_end_travel(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    tokyo.map_more = {"orders": {"time-to-live-seconds": 1}}
    await start_both(tokyo, london)
    await tokyo.put("orders", "ada", b"short")
    await until_value(london, "orders", "ada", b"short")
    await until_value(london, "orders", "ada", None)
    await until_value(tokyo, "orders", "ada", None)


async def test_a_map_without_a_reference_stays_here(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    await tokyo.put("plain", "ada", b"here")
    await tokyo.put("orders", "ada", b"there")
    await until_value(london, "orders", "ada", b"there")
    assert await london.get("plain", "ada") is None


async def test_a_target_that_was_down_gets_everything(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await tokyo.start()
    for number in range(20):
        await tokyo.put("orders", f"key-{number}", b"before")
    await until(lambda: tokyo.figures.problem, "the line is told")
    assert tokyo.figures.problem == "Connection refused"
    await london.start()
    await until_value(london, "orders", "key-19", b"before")
    await until_quiet(tokyo)
    await london.stop()
    await tokyo.put("orders", "key-3", b"meanwhile")
    await tokyo.remove("orders", "key-4")
    await london.start()
    await until_value(london, "orders", "key-3", b"meanwhile")
    await until_quiet(tokyo)
    assert tokyo.figures.connected


async def test_what_was_queued_survives_a_restart_of_the_source(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    tokyo, london = pair
    tokyo.directory = tmp_path
    await tokyo.start()
    await tokyo.put("orders", "ada", b"kept")
    await tokyo.stop()
    await tokyo.start()
    await london.start()
    await until_value(london, "orders", "ada", b"kept")
    await until_quiet(tokyo)


async def test_a_batch_whose_answer_was_lost_changes_nothing_when_it_comes_again(
    pair: tuple[Site, Site],
) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    receiver = london.wan.receiver
    taking = receiver.take
    lost: list[bytes] = []

    async def take_and_die(data: bytes) -> bytes:
        codes = await taking(data)
        if len(lost) < 2:
            lost.append(codes)
            raise ConnectionResetError
        return cast("bytes", codes)

    receiver.take = take_and_die
    await tokyo.put("orders", "ada", b"once")
    await until_value(london, "orders", "ada", b"once")
    await until_quiet(tokyo)
    assert len(lost) == 2
    results = london.wan.figures.received["tokyo"]
    assert results == {"taken": 1, "unchanged": 2}
    assert await london.get("orders", "ada") == b"once"
    assert not london.queued()


async def test_a_wrong_password_is_told_and_a_right_one_goes_on(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.user_password = "another"
    await tokyo.start()
    await london.start()
    await tokyo.put("orders", "ada", b"secret")
    await until(lambda: tokyo.figures.problem, "the refusal is told")
    assert "the publisher's realm must show a user" in tokyo.figures.problem
    assert await london.get("orders", "ada") is None
    await london.stop()
    london.user_password = "shown"
    await london.start()
    await until_value(london, "orders", "ada", b"secret")


@pytest.mark.parametrize("shown", [False, True])
async def test_tls(pair: tuple[Site, Site], tmp_path: Path, shown: bool) -> None:
    """With certificates of the clients no realm is needed."""
    tokyo, london = pair
    authority = Authority(tmp_path)
    for site in pair:
        own = authority.issue(site.name)
        files = {"certificate-file": str(own.certificate), "key-file": str(own.key)}
        site.listener = {"ssl": {"enabled": True, "ca-file": str(authority.file), **files}}
        if shown:
            site.listener["ssl"] |= {
                "client-certificates": "required",
                "client-ca-file": str(authority.file),
            }
            site.listener["realm"] = site.publisher["realm"] = None
    await start_both(tokyo, london)
    await tokyo.put("orders", "ada", b"1")
    await london.put("people", "grace", b"2")
    await until_value(london, "orders", "ada", b"1")
    await until_value(tokyo, "people", "grace", b"2")


async def test_a_member_without_its_files_of_tls_takes_no_publisher(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    tokyo, _ = pair
    authority = Authority(tmp_path)
    own = authority.issue("tokyo")
    files = {"certificate-file": str(own.certificate), "key-file": str(own.key)}
    tokyo.listener = {"ssl": {"enabled": True, "ca-file": str(authority.file), **files}}
    tokyo.publishes = False
    await tokyo.start()
    assert tokyo.handle is not None
    part: Any = tokyo.handle._member.management.wan
    publisher = WanPublisherConfig("peer", "london", (("127.0.0.1", 1),), realm="to-peer")
    question = packed({"wan": {"peer-rep": {"peer": publisher_document(publisher)}}})
    content = authority.file.read_bytes()
    authority.file.write_bytes(b"")
    assert part.calls.objection(question) == (f"network.wan.ssl.ca-file: {authority.file} is empty")
    authority.file.write_bytes(content)
    assert part.calls.objection(question) is None


async def test_a_certificate_of_another_authority_is_refused(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    tokyo, london = pair
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own = authority.issue("london")
    files = {"certificate-file": str(own.certificate), "key-file": str(own.key)}
    london.listener = {"ssl": {"enabled": True, "ca-file": str(authority.file), **files}}
    tokyo.publisher = {"ssl": {"enabled": True, "ca-file": str(other.file)}}
    await tokyo.start()
    await london.start()
    await tokyo.put("orders", "ada", b"secret")
    await until(lambda: "certificate" in tokyo.figures.problem, "the refusal is told")
    assert await london.get("orders", "ada") is None


async def test_a_cluster_of_another_name_is_refused(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.name = "paris"
    await tokyo.start()
    await london.start()
    await tokyo.put("orders", "ada", b"secret")
    await until(lambda: "called paris" in tokyo.figures.problem, "the refusal is told")
    assert await london.get("orders", "ada") is None


async def test_a_cluster_that_is_not_accepted_is_refused(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.more = {"wan": {"accepted-clusters": ["kyoto"]}}
    await tokyo.start()
    await london.start()
    await until(lambda: "accepted-clusters" in tokyo.figures.problem, "the refusal is told")


async def test_a_map_that_the_target_lacks_is_blocked(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.lacks = ("people",)
    await start_both(tokyo, london)
    await tokyo.put("people", "grace", b"waits")
    await until(lambda: "people" in tokyo.figures.blocked, "the map is blocked")
    await tokyo.put("orders", "ada", b"goes on")
    await until_value(london, "orders", "ada", b"goes on")
    await until(lambda: tokyo.queued() == 1, "the blocked map waits alone")


async def test_a_passive_target_takes_nothing_until_it_is_active(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    await outcome(partial(london.engine.change_cluster_state, ClusterState.PASSIVE))
    await tokyo.put("orders", "ada", b"later")
    await until(lambda: "PASSIVE" in tokyo.figures.problem, "the state is told")
    await outcome(partial(london.engine.change_cluster_state, ClusterState.ACTIVE))
    await until_value(london, "orders", "ada", b"later")
    await until(lambda: not tokyo.figures.problem, "nothing is wrong any more")


async def test_metrics_tell_how_far_it_is(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.lacks = ("people",)
    tokyo.metrics = london.metrics = True
    await start_both(tokyo, london)
    for number in range(5):
        await tokyo.put("orders", f"key-{number}", b"x")
    await tokyo.put("people", "grace", b"waits")
    await tokyo.remove("orders", "key-4")
    await until(lambda: tokyo.queued() == 1, "one key is left")
    await until(lambda: tokyo.figures.blocked, "its map is blocked")
    told = await tokyo.scrape()
    labels = 'publisher="peer",replication="peer-rep"'
    assert told[f"grid_wan_queued_keys{{{labels}}}"] == 1
    assert told[f"grid_wan_queued_keys_all{{{labels}}}"] == 1
    assert told[f"grid_wan_lag_seconds{{{labels}}}"] >= 0
    assert told[f"grid_wan_connected{{{labels}}}"] == 1
    assert told[f"grid_wan_blocked_maps{{{labels}}}"] == 1
    assert told[f"grid_wan_needs_sync{{{labels}}}"] == 0
    assert told[f'grid_wan_state{{{labels},state="REPLICATING"}}'] == 1
    assert told[f'grid_wan_state{{{labels},state="PAUSED"}}'] == 0
    sent = told[f"grid_wan_sent_changes_total{{{labels}}}"]
    assert sent >= 6
    assert told[f"grid_wan_sent_bytes_total{{{labels}}}"] > 0
    assert told[f"grid_wan_batch_duration_seconds_count{{{labels}}}"] >= 1
    assert told["grid_wan_tombstones"] == 1
    other = await london.scrape()
    taken = other['grid_wan_received_changes_total{result="taken",source="tokyo"}']
    assert taken == 5 or taken == 6, "a key that is removed at once is sent once or twice"
    assert other['grid_wan_received_changes_total{result="refused",source="tokyo"}'] >= 1


async def test_a_stop_in_memory_sends_what_it_can(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    for number in range(3000):
        tokyo.engine.map_put("orders", f"key-{number}", b"x", None, lambda _: None)
    await tokyo.stop()
    assert await london.get("orders", "key-2999") == b"x"


async def test_a_stop_in_memory_waits_for_a_target_that_is_slow(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    tokyo.publisher = {"max-concurrent-invocations": 1, "batch-size": 100}
    await start_both(tokyo, london)
    take = london.wan.receiver.take

    async def slow(body: bytes) -> bytes:
        await asyncio.sleep(1.2)
        answer: bytes = await take(body)
        return answer

    london.wan.receiver.take = slow
    for number in range(150):
        tokyo.engine.map_put("orders", f"key-{number}", b"x", None, lambda _: None)
    await tokyo.stop()
    assert await london.get("orders", "key-149") == b"x"


async def test_a_stop_tells_what_was_not_sent(
    pair: tuple[Site, Site], caplog: pytest.LogCaptureFixture
) -> None:
    tokyo, _ = pair
    await tokyo.start()
    await tokyo.put("orders", "ada", b"lost")
    await until(lambda: tokyo.figures.problem, "the target is down")
    await tokyo.stop()
    assert "stopping with changes that were not sent" in caplog.messages


async def test_a_stop_tells_of_maps_in_memory_beside_a_directory(
    pair: tuple[Site, Site], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    tokyo, _ = pair
    tokyo.directory = tmp_path
    tokyo.map_more = {"people": {"data-persistence": {"enabled": False}}}
    await tokyo.start()
    await tokyo.put("orders", "ada", b"kept")
    await tokyo.put("people", "ada", b"lost")
    await tokyo.put("people", "grace", b"lost")
    await tokyo.stop()
    told = [each for each in caplog.records if "changes that were not sent" in each.message]
    assert [getattr(each, FIELDS)["keys"] for each in told] == [2]


async def test_maps_of_a_shard_that_was_lost_need_a_synchronisation(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    tokyo, london = pair
    tokyo.directory = tmp_path
    tokyo.metrics = True
    tokyo.map_more = {"people": {"data-persistence": {"enabled": False}}}
    await start_both(tokyo, london)
    await until(lambda: stored_of(tokyo).was_told(tokyo.cluster_id), "the shards were told")
    assert publisher_status(tokyo)["needsSync"] == []
    await london.stop()
    await tokyo.put("people", "ada", b"lost")
    await tokyo.stop()
    await tokyo.start()
    found = publisher_status(tokyo)
    assert found["needsSync"] == ["people"], "orders is on disk"
    assert found["needsSyncReason"] == (
        "data in memory was lost: changes of people that waited may be gone, and the target may "
        "have entries that are not here any more"
    )
    samples = await tokyo.scrape()
    assert samples['grid_wan_needs_sync{publisher="peer",replication="peer-rep"}'] == 1

    await tokyo.stop()
    await tokyo.start()
    assert publisher_status(tokyo)["needsSync"] == ["people"], "it is kept"
    await london.start()
    await tokyo.put("people", "grace", b"new")
    await synchronise(tokyo, "people")
    await until(lambda: publisher_status(tokyo)["needsSync"] == [], "the synchronisation ended")
    assert publisher_status(tokyo)["needsSyncReason"] == ""


async def test_a_map_that_a_lost_shard_left_empty_is_synchronised_at_once(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    tokyo, _ = pair
    tokyo.directory = tmp_path
    tokyo.map_more = {"people": {"data-persistence": {"enabled": False}}}
    await tokyo.start()
    await until(lambda: stored_of(tokyo).was_told(tokyo.cluster_id), "the shards were told")
    await tokyo.stop()
    await tokyo.start()
    assert publisher_status(tokyo)["needsSync"] == ["people"]
    await synchronise(tokyo, "people")
    assert publisher_status(tokyo)["needsSync"] == []


def calls_of(site: Site) -> Any:
    assert site.handle is not None
    part: Any = site.handle._member.management.wan
    return part.calls


def stored_of(site: Site) -> Any:
    return calls_of(site).keeper.stored


def publisher_status(site: Site) -> Any:
    return calls_of(site).status("")["replications"][0]["publishers"][0]


async def synchronise(site: Site, name: str) -> None:
    calls = calls_of(site)
    publisher = calls.publisher("peer-rep", "peer")
    _, puts = await calls.begin_job(JobKind.SYNC, publisher, name)
    assert await calls.keeper.keep(*puts) is None


async def test_what_a_paused_member_took_in_waits_until_it_is_resumed(
    pair: tuple[Site, Site],
) -> None:
    tokyo, london = pair
    await start_both(tokyo, london)
    await tokyo.set_state(PublisherState.PAUSED)
    await tokyo.put("orders", "ada", b"waits")
    await london.put("people", "grace", b"comes")
    await until_value(tokyo, "people", "grace", b"comes")
    await until_quiet(london)
    assert await london.get("orders", "ada") is None
    assert tokyo.queued()
    await tokyo.set_state(PublisherState.REPLICATING)
    await until_value(london, "orders", "ada", b"waits")


async def test_a_cluster_that_only_takes_changes(pair: tuple[Site, Site]) -> None:
    tokyo, london = pair
    london.publishes = False
    await london.start()
    await tokyo.start()
    await tokyo.put("orders", "ada", b"1")
    await until_value(london, "orders", "ada", b"1")
    await tokyo.remove("orders", "ada")
    await until_value(london, "orders", "ada", None)
    await until_quiet(tokyo)
