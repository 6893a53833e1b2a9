"""Promise: of two operator processes one works; the other takes over when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.test_watching import SilentApi
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LEASE = "/apis/coordination.k8s.io/v1/namespaces/grids/leases/grid-operator"
CLUSTER = "/apis/gridcluster.io/v1alpha1/namespaces/grids/gridclusters/demo"


class WatchableApi(FakeApi):
    """Lists what there is, and lets watches stay open without a word."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet = SilentApi(later_event=False)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/")
        if path in self._quiet.discovered or request.query.get("watch") == "true":
            return await self._quiet.handle(request)
        return await super()._handle(request)


class Operator:
    """One `grid-operator` process."""

    def __init__(self, process: asyncio.subprocess.Process, health_port: int) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{health_port}/healthz"

    async def health(self) -> dict[str, Any]:
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(self._url) as response:
                found: dict[str, Any] = await response.json()
                return found
        return {}

    async def leads(self) -> bool:
        return (await self.health()).get("leader") is True


@contextlib.asynccontextmanager
async def operator(api: FakeApi, place: Path) -> AsyncIterator[Operator]:
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grid_operator", "--namespace", "grids"),
        *("--kubeconfig", str(api.kubeconfig(place / "kubeconfig"))),
        *("--health-port", str(port), "--metrics-port", "0"),
        env={**os.environ, "POD_NAMESPACE": "grids"},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Operator(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_second_stands_by_and_takes_over_at_once_when_the_first_ends(
    tmp_path: Path,
) -> None:
    api = WatchableApi()
    await api.start()
    api.objects[CLUSTER] = cluster_object()
    try:
        async with operator(api, tmp_path) as first:
            await eventually(first.leads)

            async def worked() -> bool:
                return "status" in api.objects[CLUSTER]

            await eventually(worked)
            async with operator(api, tmp_path) as second:

                async def stands_by() -> bool:
                    return (await second.health()).get("leader") is False

                await eventually(stands_by)
                assert (await second.health())["apiWrites"] == 0
                holder = api.objects[LEASE]["spec"]["holderIdentity"]
                first.process.send_signal(signal.SIGTERM)
                assert await first.process.wait() == 0
                await eventually(second.leads)
                assert api.objects[LEASE]["spec"]["holderIdentity"] != holder
    finally:
        await api.stop()


async def test_one_that_loses_its_lease_ends(tmp_path: Path) -> None:
    api = WatchableApi()
    await api.start()
    try:
        async with operator(api, tmp_path) as only:
            await eventually(only.leads)
            lease = json.loads(json.dumps(api.objects[LEASE]))
            lease["spec"] |= {"holderIdentity": "another", "renewTime": "later"}
            api.put(LEASE, lease)
            assert await asyncio.wait_for(only.process.wait(), 20) == 1
            assert api.objects[LEASE]["spec"]["holderIdentity"] == "another"
    finally:
        await api.stop()
