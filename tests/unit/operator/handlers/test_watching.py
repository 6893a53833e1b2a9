"""Promise: whatever befalls one watch, it is begun again by itself, and no other watch is touched.

Each case lets something befall the watch of GridClusters in the namespace `b` while that of `a`
goes on; then the cause ends, and what happened in `b` meanwhile is heard, as is what comes later.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.handlers.hearing import Hearing
from grid_operator.handlers.watching import WatchPace, run_watches, watch_targets
from grid_operator.ports.kube_rest import Credentials
from grid_operator.ports.kube_watch import KubeWatch
from grid_operator.ports.metrics import OperatorMetrics
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.watch_api import (
    HANG_S,
    WatchApi,
    aborting,
    answering,
    hanging,
    telling,
    trickling,
    watches_only,
)
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_operator.ports.kube_watch import Seen, WatchTarget
    from tests.unit.operator.watch_api import Fault

PACE = WatchPace(
    life_s=(1, 1),
    request_s=0.5,
    grace_s=0.5,
    least_life_s=0.05,
    retry_first_s=0.02,
    retry_max_s=0.1,
    relist_s=600.0,
)
A, B = (f"/apis/gridcluster.io/v1alpha1/namespaces/{name}/gridclusters" for name in "ab")
GONE = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}\n'
BROKEN = b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "broken"}}\n'
BOOKMARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}\n'
FOREIGN = '{"kind": "GridClusterList", "metadata": {"resourceVersion": "1"}, "items": [7]}'
WAYS: dict[str, Fault] = {
    "the RoleBinding is removed": answering(403),
    "the CustomResourceDefinition is deleted": answering(404),
    "the token has expired": answering(401),
    "too many requests": answering(429, **{"Retry-After": "1"}),
    "too many requests, and a page of HTML": answering(429, "<html>", **{"Retry-After": "soon"}),
    "the API server fails": answering(500),
    "the API server is away behind a proxy": answering(503, "<html>"),
    "the version is gone": answering(410),
    "the method is not known": answering(405),
    "a redirect in a circle": answering(302, Location=B),
    "an empty answer": answering(200, " "),
    "a list that is no JSON": answering(200, "no"),
    "a list that is no object": answering(200, "[]"),
    "a list without metadata": answering(200, '{"items": []}'),
    "a list of something else": answering(200, FOREIGN),
    "a list that hangs": hanging,
    "a list that trickles": trickling,
    "connections are reset": aborting,
    "a watch that hangs": watches_only(hanging),
    "a watch that is silent": watches_only(telling(then_s=HANG_S)),
    "a watch that trickles": watches_only(trickling),
    "a watch that is refused": watches_only(answering(403)),
    "a watch that ends at once": watches_only(telling()),
    "a watch that breaks at once": watches_only(aborting),
    "a watch whose version is gone": watches_only(answering(410)),
    "an ERROR event": watches_only(telling(BROKEN, then_s=HANG_S)),
    "an ERROR event of an expired version": watches_only(telling(GONE, then_s=HANG_S)),
    "an ERROR event without a code": watches_only(telling(b'{"type": "ERROR", "object": {}}\n')),
    "bad JSON in the stream": watches_only(telling(b"{no\n", then_s=HANG_S)),
    "no UTF-8 in the stream": watches_only(telling(b"\xff\xfe\n", then_s=HANG_S)),
    "a line that is no object": watches_only(telling(b"7\n", then_s=HANG_S)),
    "an event without an object": watches_only(telling(b'{"type": "ADDED"}\n', then_s=HANG_S)),
    "an event of no metadata": watches_only(telling(b'{"type": "ADDED", "object": {}}\n')),
    "half a line": watches_only(telling(b'{"type": "ADD')),
}


class Heard:
    """What watches passed on."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str, str]] = []
        self.room = True
        self.forgotten: set[str] = set()
        self.raises: Exception | None = None

    def changed(self, target: WatchTarget, seen: Seen) -> bool:
        if self.raises is not None:
            raise self.raises
        self.names.append((target.plural, seen.namespace, seen.name))
        return self.room

    def has(self, _target: WatchTarget, seen: Seen) -> bool:
        return seen.name not in self.forgotten

    async def name(self, namespace: str, name: str, plural: str = "gridclusters") -> None:
        async def told() -> bool:
            return (plural, namespace, name) in self.names

        await eventually(told)


@contextlib.asynccontextmanager
async def started() -> AsyncIterator[WatchApi]:
    api = WatchApi()
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


@contextlib.asynccontextmanager
async def watching(
    api: WatchApi, heard: Heard, pace: WatchPace = PACE, limit_s: float = 60.0
) -> AsyncIterator[tuple[Hearing, OperatorMetrics]]:
    async def credentials() -> Credentials:
        return Credentials(api.url, None, False, None, None, "bearer t")

    metrics = OperatorMetrics()
    hearing = Hearing(asyncio.get_running_loop().time, metrics, limit_s)
    targets = list(watch_targets(("a", "b")))
    async with (
        KubeWatch.connected(credentials, request_s=pace.request_s, grace_s=pace.grace_s) as port,
        run_watches(targets, port, heard, hearing, random.Random(1), pace),
    ):
        yield hearing, metrics


def put(api: WatchApi, namespace: str, name: str, **metadata: Any) -> None:
    path = f"/apis/gridcluster.io/v1alpha1/namespaces/{namespace}/gridclusters/{name}"
    obj = cluster_object()
    obj["metadata"] = {"name": name, "namespace": namespace, **metadata}
    api.put(path, obj)


def fails(hearing: Hearing) -> Callable[[], Any]:
    async def told() -> bool:
        shown = hearing.shown()["failingWatches"]
        assert isinstance(shown, list)
        found = {(w["resource"], w["namespace"]) for w in shown}
        assert found <= {("gridclusters", "b")}
        return bool(found) and all(w["lastError"] for w in shown)

    return told


def works(hearing: Hearing) -> Callable[[], Any]:
    async def told() -> bool:
        return hearing.shown()["failing"] == 0

    return told


@pytest.mark.parametrize("way", WAYS)
async def test_what_befalls_one_watch_ends_and_touches_no_other(way: str) -> None:
    heard = Heard()
    async with started() as api, watching(api, heard) as (hearing, _):
        put(api, "a", "first")
        put(api, "b", "first")
        await heard.name("a", "first")
        await heard.name("b", "first")
        api.befall[B] = WAYS[way]
        api.cut(B)
        await eventually(fails(hearing))
        put(api, "b", "meanwhile")
        put(api, "a", "meanwhile")
        await heard.name("a", "meanwhile")
        assert hearing.hears()
        del api.befall[B]
        await heard.name("b", "meanwhile")
        await eventually(works(hearing))
        put(api, "b", "later")
        await heard.name("b", "later")
    assert heard.names.count(("gridclusters", "b", "first")) == 1
