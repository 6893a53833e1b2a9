"""What the metrics of a running member tell."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, start_member
from grid_member.engine.local.usage import StructureUsage
from grid_member.engine.shard import shards
from grid_member.http.metrics import member as metrics
from grid_member.http.metrics.member import MAX_NAMED_STRUCTURES, Names
from grid_member.release import VERSION
from tests.unit.member.http.metrics.scraped import Scraped, configured
from tests.unit.member.wire import Wire, once
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Start = Callable[..., Awaitable[Scraped]]

ENTRY = "/grid/rest/maps/{name}/{key...}"


async def test_requests_are_counted_by_row_and_status(start: Start) -> None:
    member = await start()
    await member.ask("POST", "/grid/rest/maps/people/secret-key", b"secret-value")
    await member.ask("PUT", "/grid/rest/maps/people/secret-key", b"secret-value")
    for key in ("secret-key", "secret-key", "other"):
        await member.ask("GET", f"/grid/rest/maps/people/{key}")
    await member.ask("POST", "/grid/rest/log-level", b"secret-user&secret-password&INFO")
    await member.ask("PATCH", "/grid/rest/cluster")
    await member.ask("PURGE", "/secret/path")

    told = await member.figures()

    def counted(method: str, path: str, status: str) -> float:
        return told.value("grid_requests_total", method=method, path=path, status=status)

    assert counted("POST", ENTRY, "200") == 1
    assert counted("PUT", ENTRY, "200") == 1
    assert counted("GET", ENTRY, "200") == 2
    assert counted("GET", ENTRY, "204") == 1
    assert counted("POST", "/grid/rest/log-level", "403") == 1
    assert counted("other", "/grid/rest/cluster", "405") == 1
    assert counted("other", "other", "404") == 1
    assert sum(1 for _ in told.labels("grid_requests_total")) == 7
    assert told.value("grid_request_duration_seconds_count", method="GET", path=ENTRY) == 3
    assert "secret" not in told.text


async def test_durations_are_a_histogram(start: Start) -> None:
    member = await start()
    poll = "/grid/rest/queues/{name}/{seconds}"
    await member.ask("DELETE", "/grid/rest/queues/q/1")
    told = await member.figures()

    def waited(bound: str) -> float:
        name = "grid_request_duration_seconds_bucket"
        return told.value(name, method="DELETE", path=poll, le=bound)

    assert waited("0.5") == 0
    assert waited("5.0") == waited("+Inf") == 1
    total = told.value("grid_request_duration_seconds_sum", method="DELETE", path=poll)
    assert 0.9 < total < 5


async def test_structures_are_shown_by_name(start: Start) -> None:
    member = await start()
    await member.ask("POST", "/grid/rest/maps/a/k%22", b"12345")
    await member.ask("POST", "/grid/rest/maps/a/l", b"")
    await member.ask("POST", "/grid/rest/queues/odd%22%0A%5Cname", b"item")
    told = await member.figures()
    assert told.value("grid_structures", kind="map") == 1
    assert told.value("grid_structure_entries", kind="map", name="a") == 2
    assert told.value("grid_structure_bytes", kind="map", name="a") == len('k"l12345')
    assert told.value("grid_structure_entries", kind="queue", name='odd"\n\\name') == 1
    assert told.value("grid_structure_bytes", kind="queue", name='odd"\n\\name') == 4
    assert told.value("grid_structure_entries", kind="map", name="") == 0


async def test_too_many_structures_are_summed(start: Start) -> None:
    member = await start()
    assert member.member.rest_port is not None
    async with await Wire.connect(member.member.rest_port) as wire:
        for number in range(MAX_NAMED_STRUCTURES + 3):
            await wire.call("POST", f"/grid/rest/maps/m{number:04}/k", b"12")
        told = await member.figures()
        assert told.value("grid_structures", kind="map") == MAX_NAMED_STRUCTURES + 3
        assert told.value("grid_structure_entries", kind="map", name="") == 3
        assert told.value("grid_structure_bytes", kind="map", name="") == 9
        shown = told.labels("grid_structure_entries")
        assert len([labels for labels in shown if labels["kind"] == "map"]) == (
            MAX_NAMED_STRUCTURES + 1
        )
        # Who is shown stays so: a new name that comes first takes nobody's place,
        await wire.call("POST", "/grid/rest/maps/a/k", b"12")
        assert {"kind": "map", "name": "a"} not in (await member.figures()).labels(
            "grid_structure_entries"
        )
        # until one holds nothing any more.
        await wire.call("DELETE", "/grid/rest/maps/m0000")
        told = await member.figures()
    assert told.value("grid_structure_entries", kind="map", name="a") == 1
    assert {"kind": "map", "name": "m0000"} not in told.labels("grid_structure_entries")


async def test_limits_are_shown_where_there_are_any() -> None:
    limited = "{eviction: {eviction-policy: LRU, max-size-policy: %s, size: %d}}"
    counted, big = limited % ("PER_NODE", 7), limited % ("USED_HEAP_SIZE", 2)
    maps = f"default: {{}}, counted: {counted}, big: {big}"
    text = configured().replace("map: {default: {}", f"map: {{{maps}")
    member = Scraped(await start_member(Config.from_text(text, environment={})))
    try:
        for path in ("maps/counted/a", "maps/big/a", "maps/free/a", "queues/two", "queues/r"):
            assert (await member.ask("POST", f"/grid/rest/{path}", b"v")).status == 200
        told = await member.figures()
    finally:
        await member.member.stop()

    entries, size = "grid_structure_limit_entries", "grid_structure_limit_bytes"
    assert told.value(entries, kind="map", name="counted") == 7
    assert told.value(entries, kind="queue", name="two") == 2
    assert told.value(size, kind="map", name="big") == 2 << 20
    assert len(told.labels(entries)) == 2
    assert len(told.labels(size)) == 1


async def test_waiting_polls_are_counted(start: Start) -> None:
    member = await start()
    port = member.member.rest_port
    assert port is not None
    assert (await member.figures()).value("grid_poll_waiters") == 0
    async with await Wire.connect(port) as one, await Wire.connect(port) as other:
        for wire, queue in ((one, "a"), (other, "b")):
            wire.send(f"DELETE /grid/rest/queues/{queue}/60 HTTP/1.1\r\nHost: m\r\n\r\n".encode())
        await shown(member, "grid_poll_waiters", lambda values: values == [2])
        assert (await member.ask("POST", "/grid/rest/queues/a", b"item")).status == 200
        assert (await one.reply()).body == b"item"
        await shown(member, "grid_poll_waiters", lambda values: values == [1])


async def shown(member: Scraped, name: str, holds: Callable[[list[float]], bool]) -> float:
    """Return the last of a metric's values, once they are as they should be."""

    async def value() -> float | None:
        family = (await member.figures()).families.get(name)
        values = [sample.value for sample in family.samples] if family is not None else []
        return values[-1] if holds(values) else None

    return await eventually(value)


async def test_the_version_and_the_free_disk_and_the_last_backup_are_told(
    start: Start, tmp_path: Path
) -> None:
    name, places = "grid_backup_last_success_timestamp_seconds", (tmp_path / "d", tmp_path / "b")
    member = await start(
        f"  persistence: {{enabled: true, base-dir: {places[0]}, backup-dir: {places[1]}}}"
    )
    before = await member.figures()
    assert before.value("grid_build_info", version=VERSION) == 1
    assert before.value("grid_store_free_bytes") == pytest.approx(
        shutil.disk_usage(tmp_path).free, rel=0.2
    )
    assert before.labels(name) == []
    began = time.time()

    asked = await member.ask("POST", "/grid/rest/management/cluster/backup", b"dev&")
    assert asked.status == 200

    assert began - 1 <= await shown(member, name, bool) <= time.time() + 1
    in_memory = await (await start()).figures()
    assert in_memory.labels("grid_store_free_bytes") == []
    assert in_memory.labels(name) == []


async def test_connections_are_counted_by_listener(start: Start) -> None:
    member = await start()
    assert member.member.rest_port is not None
    async with await Wire.connect(member.member.rest_port) as wire:
        await wire.call("GET", "/grid/rest/instance")
        told = await member.figures()
        document = (await wire.call("GET", "/grid/rest/cluster")).json
    assert told.value("grid_connections", listener="rest") == 1
    assert told.value("grid_connections", listener="management") == 0
    assert told.value("grid_connections", listener="metrics") == 1
    assert document["connectionCount"] == 1


async def test_refused_connections_are_counted_by_listener(start: Start) -> None:
    member = await start("  http: {max-connections: 2}\n")
    port = member.member.rest_port
    assert port is not None
    async with await Wire.connect(port) as first, await Wire.connect(port) as second:
        for wire in (first, second):
            assert (await wire.call("GET", "/grid/rest/instance")).status == 200
        for path, status in (("/grid/rest/instance", 503), ("/grid/health/ready", 200)) * 3:
            assert (await once(port, "GET", path)).status == status
        told = await member.figures()
    assert told.value("grid_refused_connections_total", listener="rest") == 3
    assert told.value("grid_refused_connections_total", listener="management") == 0
    assert told.value("grid_refused_connections_total", listener="metrics") == 0


async def test_throttled_logins_are_counted(start: Start) -> None:
    member = await start()
    port = member.member.management_port
    assert port is not None
    wrong = f"Basic {base64.b64encode(b'op:wrong').decode()}"
    statuses = [
        (await once(port, "GET", "/grid/rest/cluster", Authorization=wrong)).status
        for _ in range(12)
    ]
    told = await member.figures()
    assert statuses == [401] * 12
    assert told.value("grid_throttled_logins_total", listener="management") == 2
    assert told.value("grid_throttled_logins_total", listener="rest") == 0


async def test_commits_are_timed_where_there_is_a_store(start: Start, tmp_path: Path) -> None:
    name = "grid_store_commit_duration_seconds"
    kept = await start(f"  persistence: {{enabled: true, base-dir: {tmp_path / 'data'}}}")
    before = (await kept.figures()).value(f"{name}_count")
    for number in range(3):
        await kept.ask("POST", f"/grid/rest/maps/m/{number}", b"v")
    told = await kept.figures()
    assert told.value(f"{name}_count") >= before + 3
    assert told.value(f"{name}_bucket", le="+Inf") == told.value(f"{name}_count")
    assert told.value(f"{name}_sum") > 0
    assert told.value("grid_store_bytes") > 0
    in_memory = await (await start()).figures()
    assert in_memory.labels(f"{name}_count") == []
    assert in_memory.labels("grid_store_bytes") == []


async def test_a_disk_that_does_not_tell_its_size_holds_nobody_up(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = await start(f"  persistence: {{enabled: true, base-dir: {tmp_path / 'data'}}}")
    monkeypatch.setattr(metrics, "DISK_PATIENCE_S", 0.05)
    answers = threading.Event()
    looks: list[object] = []

    def stuck(directory: object) -> int:
        looks.append(directory)
        assert answers.wait(30)
        return 4096

    monkeypatch.setattr(shards, "tree_bytes", stuck)
    usage = asyncio.create_task(member.ask("GET", "/grid/rest/management/cluster/usage"))
    try:
        for told in await asyncio.gather(member.figures(), member.figures()):
            assert told.value("grid_ready") == 1
            assert told.labels("grid_store_bytes") == []
        assert (await member.ask("GET", "/grid/health/ready")).status == 200
        assert len(looks) == 2  # one for the metrics, one for the usage
        assert not usage.done()
    finally:
        answers.set()
    assert (await usage).json["members"][0]["storeBytes"] == 4096
    assert (await member.figures()).value("grid_store_bytes") == 4096


async def test_what_is_asked_for_is_about_this_process(start: Start) -> None:
    told = await (await start()).figures()
    assert told.value("grid_ready") == 1
    assert told.value("process_resident_memory_bytes") > 1 << 20
    assert told.value("process_open_fds") > 3


async def test_there_is_nothing_but_metrics(start: Start) -> None:
    member = await start()
    assert (await member.metrics("HEAD")).status == 200
    assert (await member.metrics(path="/metrics?x=y")).status == 200
    for path in ("/", "/metrics/", "/grid/health/ready", "/grid/rest/cluster", "/Metrics"):
        reply = await member.metrics(path=path)
        assert (reply.status, reply.body) == (404, b"")
        assert reply.header("X-Grid-Error") == "no such path"
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        reply = await member.metrics(method)
        assert (reply.status, reply.header("Allow")) == (405, "GET, HEAD")
    assert (await member.ask("GET", "/metrics")).status == 404


async def test_a_body_is_not_waited_for(start: Start) -> None:
    member = await start()
    assert member.member.metrics_port is not None
    async with await Wire.connect(member.member.metrics_port) as wire:
        wire.send(b"GET /metrics HTTP/1.1\r\nHost: m\r\nContent-Length: 9\r\n\r\n")
        reply = await wire.reply()
        assert (reply.status, reply.header("Connection")) == (200, "close")
        assert await wire.ended()


async def test_many_ask_at_once(start: Start) -> None:
    member = await start()
    replies = await asyncio.gather(*(member.metrics() for _ in range(20)))
    assert {reply.status for reply in replies} == {200}


async def test_off_there_is_no_port_and_nothing_is_counted(start: Start) -> None:
    member = await start(metrics="enabled: false")
    assert member.member.metrics_port is None
    assert (await member.ask("GET", "/grid/rest/cluster")).status == 200


async def test_members_in_one_process_tell_of_themselves(start: Start) -> None:
    one, other = await start(), await start()
    await one.ask("GET", "/grid/rest/instance")
    assert len((await one.figures()).labels("grid_requests_total")) == 1
    assert (await other.figures()).labels("grid_requests_total") == []


async def test_no_metrics_are_told_after_a_stop() -> None:
    member = await start_member(Config.from_text(configured(), environment={}))
    port = member.metrics_port
    assert port is not None
    await member.stop()
    with pytest.raises(ConnectionRefusedError):
        await once(port, "GET", "/metrics")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_client_library_is_loaded_only_where_it_is_used(enabled: bool) -> None:
    program = f"""
import asyncio, sys
from grid_member import Config, start_member
from grid_member.engine.shard import shards
async def main():
    tree = {{"metrics": {{"enabled": {enabled}, "port": {{"port": 0}}}}}}
    member = await start_member(Config(tree))
    await member.stop()
asyncio.run(main())
print("prometheus_client" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == f"{enabled}\n"


async def test_what_is_no_request_is_counted_without_a_path(start: Start) -> None:
    member = await start()
    assert member.member.rest_port is not None
    for sent in (b"S3CRET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: m\r\nX: " + b"y" * 70_000):
        async with await Wire.connect(member.member.rest_port) as wire:
            wire.send(sent)
            assert (await wire.reply()).status in (400, 431)
    told = await member.figures()
    for status in ("400", "431"):
        known = {"method": "other", "path": "other", "status": status}
        assert told.value("grid_requests_total", **known) == 1
    assert told.labels("grid_request_duration_seconds_count") == []
    assert "S3CRET" not in told.text


async def test_pipelined_requests_are_counted_each_and_a_poll_that_was_left_is_not(
    start: Start,
) -> None:
    member = await start()
    port = member.member.rest_port
    assert port is not None
    async with await Wire.connect(port) as wire:
        wire.send(b"GET /grid/rest/maps/m/k HTTP/1.1\r\nHost: m\r\n\r\n" * 5)
        assert [(await wire.reply()).status for _ in range(5)] == [204] * 5
        wire.send(b"DELETE /grid/rest/queues/q/60 HTTP/1.1\r\nHost: m\r\n\r\n")
    told = await member.figures()
    assert told.value("grid_requests_total", method="GET", path=ENTRY, status="204") == 5
    assert [found["method"] for found in told.labels("grid_requests_total")] == ["GET"]


def test_names_are_chosen_in_order_and_kept() -> None:
    names = Names(2)

    def shown(*held: str) -> list[tuple[str, int, int]]:
        return list(names.sum_up(StructureUsage("map", name, 1, 10) for name in held))

    assert shown("c", "b", "d") == [("b", 1, 10), ("c", 1, 10), ("", 1, 10)]
    assert shown("a", "b", "c", "d") == [("b", 1, 10), ("c", 1, 10), ("", 2, 20)]
    assert shown("d", "a", "c") == [("a", 1, 10), ("c", 1, 10), ("", 1, 10)]
    assert shown() == [("", 0, 0)]
