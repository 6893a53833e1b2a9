"""Promise: what a watch misses, a list finds; and a list passes on nothing that is known."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.listening import PACE, A, B, Heard, put, started, watching
from tests.unit.operator.watch_api import HANG_S, Asked, WatchApi, send_event, telling, watches_only
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

OFTEN = replace(PACE, relist_s=0.1)
"""A watch lasts for a second all the same."""
DEMO = f"{A}/demo"


def lists(api: WatchApi, path: str, more: int) -> Callable[[], Awaitable[bool]]:
    """Return whether there were so many more lists since now."""
    before = api.lists.get(path, 0)

    async def listed() -> bool:
        return api.lists.get(path, 0) >= before + more

    return listed


async def test_changes_whose_events_got_lost_are_found() -> None:
    heard = Heard()
    async with started() as api, watching(api, heard, OFTEN):
        put(api, "a", "kept")
        put(api, "a", "changed")
        put(api, "a", "deleted")
        for name in ("kept", "changed", "deleted"):
            await heard.name("a", name)
        heard.names.clear()
        api.lose_events = True
        put(api, "a", "made")
        put(api, "a", "changed", labels={"a": "b"})
        api.remove(f"{A}/deleted")
        for name in ("made", "changed", "deleted"):
            await heard.name("a", name)
        await eventually(lists(api, A, 2))
    assert sorted(name for _, _, name in heard.names) == ["changed", "deleted", "made"]


async def test_lists_find_what_there_is_while_watches_are_silent() -> None:
    heard = Heard()
    async with started() as api, watching(api, heard) as (hearing, _):
        await until(lambda: api.watching.get(A))
        api.befall[A] = watches_only(telling(then_s=HANG_S))
        api.cut(A)
        await until(lambda: hearing.shown()["failing"])
        put(api, "a", "demo")
        await heard.name("a", "demo")
        assert hearing.hears()


async def test_a_list_passes_on_what_the_queue_has_forgotten() -> None:
    """An API server that answers 404 by mistake makes the operator forget a cluster."""
    heard = Heard()
    async with started() as api, watching(api, heard, OFTEN):
        put(api, "a", "demo")
        await heard.name("a", "demo")
        heard.names.clear()
        heard.forgotten.add("demo")
        await heard.name("a", "demo")


async def test_a_list_passes_on_what_there_was_no_room_for() -> None:
    heard = Heard()
    heard.room = False
    async with started() as api, watching(api, heard, OFTEN):
        put(api, "a", "demo")
        await heard.name("a", "demo")
        heard.names.clear()
        heard.room = True
        await heard.name("a", "demo")


async def test_a_defect_where_objects_are_taken_ends_no_watch() -> None:
    heard = Heard()
    async with started() as api, watching(api, heard) as (hearing, metrics):
        heard.raises = KeyError("a defect")
        put(api, "a", "demo")

        def restarts() -> float | None:
            name = "grid_operator_watch_restarts_total"
            labels = {"resource": "gridclusters", "namespace": "a", "reason": "defect"}
            return metrics.registry.get_sample_value(name, labels)

        await until(restarts)
        assert hearing.shown()["failing"] == 1
        heard.raises = None
        await heard.name("a", "demo")


async def test_only_gridclusters_are_listed_again_without_a_cause() -> None:
    pods = "/api/v1/namespaces/a/pods"
    async with started() as api, watching(api, Heard(), OFTEN):
        await eventually(lists(api, A, 3))
        assert api.lists[pods] == 1


async def test_children_make_their_cluster_known_also_after_their_watch_broke() -> None:
    heard = Heard()
    labels = {"gridcluster.io/cluster": "demo"}
    pods = "/api/v1/namespaces/a/pods"

    def pod(name: str) -> None:
        meta = {"name": name, "namespace": "a", "labels": labels}
        api.put(f"{pods}/{name}", {"kind": "Pod", "metadata": meta})

    async with started() as api, watching(api, heard):
        pod("demo-0")
        await heard.name("a", "demo-0", "pods")
        api.cut(pods)
        pod("demo-1")
        await heard.name("a", "demo-1", "pods")
    assert heard.names.count(("pods", "a", "demo-0")) == 1


async def test_a_list_of_several_pages_is_read_to_its_end_and_begun_again_when_it_expires() -> None:
    heard = Heard()
    expired = asyncio.Event()

    async def paged(asked: Asked) -> web.StreamResponse | None:
        if asked.is_watch:
            return None
        if asked.request.query.get("continue") != "more":
            meta = {"resourceVersion": "1", "continue": "more"}
            items = [cluster_object("first")]
        elif not expired.is_set():
            expired.set()
            return web.json_response({"code": 410, "message": "expired"}, status=410)
        else:
            meta, items = {"resourceVersion": "1"}, [cluster_object("second")]
        return web.json_response({"metadata": meta, "items": items})

    async with started() as api:
        api.befall[A] = paged
        async with watching(api, heard):
            await heard.name("grids", "second")
    assert expired.is_set()
    assert heard.names.count(("gridclusters", "grids", "first")) == 1


async def test_a_version_that_has_expired_is_part_of_life() -> None:
    """The first time it makes a list, and no warning."""
    heard = Heard()
    told = asyncio.Event()

    async def expired_once(asked: Asked) -> web.StreamResponse | None:
        if not asked.is_watch or told.is_set():
            return None
        told.set()
        response = web.StreamResponse()
        await response.prepare(asked.request)
        await send_event(response, "ERROR", {"code": 410, "message": "too old"})
        return response

    async with started() as api, watching(api, heard) as (hearing, _):
        await until(lambda: api.watching.get(B))
        api.befall[B] = expired_once
        again = lists(api, B, 1)
        await eventually(again)
        assert hearing.shown()["failing"] == 0


async def test_in_all_namespaces_a_later_one_is_watched_as_well() -> None:
    heard = Heard()
    everywhere = "/apis/gridcluster.io/v1alpha1/gridclusters"
    async with started() as api, watching(api, heard, namespaces=(None,)):
        await until(lambda: api.watching.get(everywhere))
        put(api, "later", "demo")
        await heard.name("later", "demo")


async def test_each_request_carries_the_newest_token() -> None:
    heard = Heard()
    tokens: set[str | None] = set()

    async def check(asked: Asked) -> web.StreamResponse | None:
        token = asked.request.headers.get("Authorization")
        tokens.add(token)
        return None if token == f"Bearer {heard.token}" else web.Response(status=401)

    async with started() as api:
        api.befall_all(check)
        async with watching(api, heard):
            put(api, "a", "one")
            await heard.name("a", "one")
            heard.token = "newer"
            api.cut(A)
            put(api, "a", "two")
            await heard.name("a", "two")
    assert tokens == {"Bearer t", "Bearer newer"}


@pytest.mark.parametrize("error", [FileNotFoundError("token"), ValueError("no token")])
async def test_credentials_may_be_missing_for_some_time(error: Exception) -> None:
    heard = Heard()
    async with started() as api, watching(api, heard) as (hearing, _):
        await until(lambda: api.watching.get(A))
        heard.no_token = error
        await until(lambda: hearing.shown()["failing"] == hearing.shown()["watches"])
        assert {state.error.partition(":")[0] for state in hearing.failing()} == {"no credentials"}
        put(api, "a", "demo")
        heard.no_token = None
        await heard.name("a", "demo")


async def test_a_watch_that_is_not_ended_in_time_but_speaks_is_followed_on() -> None:
    """A proxy may disregard the time that was asked for; bookmarks show that the watch lives."""
    heard = Heard()
    lines = 0

    async def speaking(asked: Asked) -> web.StreamResponse | None:
        nonlocal lines
        if not asked.is_watch:
            return None
        response = web.StreamResponse()
        await response.prepare(asked.request)
        while True:
            await send_event(response, "BOOKMARK", {"metadata": {"resourceVersion": "1"}})
            lines += 1
            await asyncio.sleep(0.1)

    async with started() as api:
        api.befall[A] = speaking
        async with watching(api, heard) as (hearing, _):
            await until(lambda: lines > 20)  # longer than life and grace together
            assert hearing.shown()["failing"] == 0
            assert api.lists[A] == 1


async def test_a_line_may_be_long() -> None:
    heard = Heard()
    notes: dict[str, Any] = {"note": "x" * (3 << 20)}
    async with started() as api, watching(api, heard):
        await until(lambda: api.watching.get(A))
        put(api, "a", "demo", annotations=notes)
        await heard.name("a", "demo")


async def test_the_api_server_may_be_away_for_some_time() -> None:
    heard = Heard()
    api = WatchApi()
    await api.start()
    async with watching(api, heard) as (hearing, _):
        await until(lambda: api.watching.get(A))
        await api.stop()
        await until(lambda: hearing.shown()["failing"] == hearing.shown()["watches"])
        again = WatchApi()
        await again.start()
        try:
            api.url = again.url
            put(again, "a", "demo")
            await heard.name("a", "demo")
            await until(lambda: hearing.shown()["failing"] == 0)
        finally:
            await again.stop()
