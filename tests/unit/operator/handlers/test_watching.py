"""Promise: a watch that has fallen silent is noticed and begun anew, and its age is shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING

import aiohttp
import kopf
from aiohttp import web

from grid_operator.handlers.registry import make_registry
from grid_operator.handlers.settings import make_settings
from grid_operator.handlers.watching import WatchAges, connect
from grid_operator.ports.kube_rest import Credentials
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.reconciler import ClusterKey
from tests.unit.operator.fake_api import PLURALS
from tests.unit.serving import serving
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

GROUPS = {
    "/api/v1": (
        *("services", "configmaps", "secrets", "pods", "persistentvolumeclaims"),
        *("namespaces", "events"),
    ),
    "/apis/apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "/apis/apps/v1": ("statefulsets",),
    "/apis/batch/v1": ("jobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/gridcluster.io/v1alpha1": ("gridclusters",),
}
SILENCE_S = 0.3


class SilentApi:
    """Lists nothing; its first watch of GridClusters says nothing, a later one tells an event."""

    discovered = frozenset({"/api", "/apis", *GROUPS})
    """Paths that tell which resources there are."""

    def __init__(self, *, later_event: bool = True) -> None:
        self.watches = 0
        self.authorizations: set[str | None] = set()
        self._later_event = later_event

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.add(request.headers.get("Authorization"))
        path = request.path.rstrip("/")
        if path.rpartition("/")[2] not in PLURALS:
            return web.json_response(self._discovery(path))
        if request.query.get("watch") != "true":
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        return await self._watch(request)

    def _discovery(self, path: str) -> object:
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            return {
                "groups": [
                    {
                        "name": group,
                        "versions": [{"version": version, "groupVersion": f"{group}/{version}"}],
                        "preferredVersion": {"version": version},
                    }
                    for _, _, group, version in (p.split("/") for p in GROUPS if p != "/api/v1")
                ]
            }
        return {
            "resources": [
                {
                    "name": plural,
                    "singularName": plural[:-1],
                    "kind": plural.capitalize(),
                    "namespaced": True,
                    "verbs": ["get", "list", "watch"],
                }
                for plural in GROUPS.get(path, ())
            ]
        }

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path.endswith("/gridclusters"):
            self.watches += 1
            if self.watches > 1 and self._later_event:
                meta = {"name": "demo", "namespace": "grids", "uid": "u", "resourceVersion": "8"}
                event = {"type": "ADDED", "object": {"metadata": meta}}
                await response.write(json.dumps(event).encode() + b"\n")
        await asyncio.sleep(60)
        return response


@contextlib.asynccontextmanager
async def silent_api() -> AsyncIterator[tuple[SilentApi, str]]:
    api = SilentApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    async with serving(app) as url:
        yield api, url


def credentials(server: str) -> Credentials:
    return Credentials(
        server=server,
        ca_path=None,
        insecure=False,
        certificate_path=None,
        private_key_path=None,
        authorization="bearer secret-token",
    )


async def test_a_silent_watch_is_begun_anew_and_its_events_arrive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys: list[ClusterKey] = []
    seen: list[str] = []
    metrics = OperatorMetrics()
    ages = WatchAges(asyncio.get_running_loop().time, metrics)
    async with silent_api() as (api, url):

        async def log_in() -> kopf.AiohttpSession:
            return connect(credentials(url), ages)

        caplog.set_level(logging.CRITICAL, "kopf")
        watching = asyncio.create_task(
            kopf.operator(
                registry=make_registry(keys.append, log_in, seen.append),
                settings=make_settings(watch_inactivity_s=SILENCE_S),
                namespaces=["grids"],
            )
        )
        try:

            async def arrived() -> bool:
                return bool(keys)

            await eventually(arrived)
            name = "grid_operator_watch_silence_seconds"
            age = metrics.registry.get_sample_value(name, {"resource": "gridclusters"})
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    assert api.watches >= 2
    assert set(keys) == {ClusterKey("grids", "demo")}
    assert set(seen) == {"gridclusters"}
    assert age is not None
    assert 0 <= age < 30
    assert api.authorizations == {"Bearer secret-token"}


async def test_the_age_is_that_of_the_watch_that_is_silent_longest() -> None:
    clock = [10.0]
    metrics = OperatorMetrics()
    ages = WatchAges(lambda: clock[0], metrics)
    ages.heard("/api/v1/namespaces/a/pods")
    clock[0] = 12.0
    ages.heard("/api/v1/namespaces/b/pods")
    clock[0] = 15.0
    assert ages.age_s("pods") == 5.0
    ages.heard("/api/v1/namespaces/a/pods")
    assert ages.age_s("pods") == 3.0


async def test_whatever_comes_in_on_a_watch_is_a_sign_of_life() -> None:
    """A bookmark makes no event, and still shows that the watch lives."""
    clock = [0.0]
    ages = WatchAges(lambda: clock[0], OperatorMetrics())
    proceed = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await proceed.wait()
        await response.write(b'{"type":"BOOKMARK","object":{}}\n')
        return response

    app = web.Application()
    app.router.add_get("/api/v1/pods", watch)
    async with (
        serving(app) as url,
        connect(credentials(url), ages).aiohttp_session as session,
        session.get(f"{url}/api/v1/pods?watch=true") as response,
    ):
        assert ages.age_s("pods") == 0
        clock[0] = 50.0
        assert ages.age_s("pods") == 50
        proceed.set()
        lines = [chunk async for chunk in response.content.iter_chunked(1 << 20)]
        assert ages.age_s("pods") == 0
    assert b"BOOKMARK" in b"".join(lines)


async def test_other_requests_are_no_watches() -> None:
    ages = WatchAges(lambda: 0.0, OperatorMetrics())
    async with silent_api() as (_, url):
        session = connect(credentials(url), ages).aiohttp_session
        async with session, session.get(f"{url}/api/v1/namespaces/n/pods") as response:
            assert response.status == 200
            await response.read()
    assert isinstance(session, aiohttp.ClientSession)
    assert ages._heard == {}
