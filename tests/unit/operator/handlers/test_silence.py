"""Promise: the operator's process survives what befalls a part of its watches, and says so.

When nothing at all is heard it ends; and a stop signal ends it in any of these situations.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.listening import started
from tests.unit.operator.handlers.operators import Operator, operator
from tests.unit.operator.watch_api import (
    HANG_S,
    Asked,
    aborting,
    answering,
    hanging,
    telling,
    watches_only,
)
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.operator.watch_api import Fault, WatchApi

LEASE = "/apis/coordination.k8s.io/v1/namespaces/grids/leases/grid-operator"
QUICK = ("-m", "tests.unit.operator.handlers.program")
STOP_LIMIT_S = 15.0
"""Half of the grace period of the operator's pod. A process that ends properly takes about one."""


def cluster_path(namespace: str, name: str) -> str:
    return f"/apis/gridcluster.io/v1alpha1/namespaces/{namespace}/gridclusters/{name}"


def put(api: WatchApi, namespace: str, name: str) -> Callable[[], Any]:
    """Make a GridCluster; return whether the operator has looked at it."""
    obj = cluster_object()
    obj["metadata"] = {"name": name, "namespace": namespace}
    path = cluster_path(namespace, name)
    api.put(path, obj)

    async def reconciled() -> bool:
        return "status" in api.objects[path]

    return reconciled


def failing_in(process: Operator, namespace: str) -> Callable[[], Any]:
    """Return whether watches of just this namespace fail, as the operator says itself."""

    async def shown() -> bool:
        health = await process.health()
        failing = health["hearing"]["failingWatches"] if health else []
        return {watch["namespace"] for watch in failing} == {namespace}

    return shown


@pytest.mark.parametrize("status", [403, 404])
async def test_a_namespace_that_is_refused_hurts_no_other(status: int, tmp_path: Path) -> None:
    async with started() as api:
        async with operator(api, tmp_path, "grids", "tenant") as process:
            await eventually(put(api, "grids", "one"))
            await eventually(put(api, "tenant", "one"))
            api.refuse("tenant", status)
            await eventually(put(api, "grids", "two"))
            await eventually(failing_in(process, "tenant"))
            in_tenant = put(api, "tenant", "two")
            await eventually(put(api, "grids", "three"))
            api.permit()
            await eventually(in_tenant)
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended(STOP_LIMIT_S) == 0
        assert '"kopf' not in process.told, "what it logs is the operator's own"


SITUATIONS: dict[str, Fault] = {
    "nothing is answered": hanging,
    "everything is refused": answering(403),
    "connections are reset": aborting,
    "watches are silent": watches_only(telling(then_s=HANG_S)),
    "much patience is asked for": answering(429, **{"Retry-After": "3600"}),
}


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_stop_signal_ends_it_whatever_befalls_its_watches(
    situation: str, tmp_path: Path
) -> None:
    async with started() as api, operator(api, tmp_path, "grids") as process:
        await eventually(put(api, "grids", "one"))
        seen: set[str] = set()

        async def befall(asked: Asked) -> Any:
            seen.add(asked.path)
            return await SITUATIONS[situation](asked)

        api.befall_all(befall)

        async def met() -> bool:
            return cluster_path("grids", "").rstrip("/") in seen

        await eventually(met)
        process.process.send_signal(signal.SIGTERM)
        assert await process.ended(STOP_LIMIT_S) == 0


@pytest.mark.parametrize("situation", ["nothing is answered", "everything is refused"])
async def test_one_that_hears_nothing_says_so_gives_its_lease_back_and_ends(
    situation: str, tmp_path: Path
) -> None:
    """The API server goes on to answer whatever is not a list or a watch."""
    async with started() as api:
        async with operator(api, tmp_path, "grids", command=QUICK) as process:
            await eventually(put(api, "grids", "one"))
            api.befall_all(SITUATIONS[situation])
            told: list[dict[str, Any]] = []

            async def ends() -> bool:
                told.append(await process.health())
                return bool(api.objects[LEASE]["spec"]["holderIdentity"] == "")

            await eventually(ends)
            assert await process.ended(STOP_LIMIT_S) == 1
        assert "Unheard: no watch has heard anything" in process.told
        failing = [health["hearing"]["failing"] for health in told if health]
        assert max(failing) == told[0]["hearing"]["watches"]


async def test_the_resource_may_come_later_than_the_operator(tmp_path: Path) -> None:
    async with started() as api:
        clusters = cluster_path("grids", "").rstrip("/")
        api.befall[clusters] = answering(404)
        async with operator(api, tmp_path, "grids") as process:
            await eventually(failing_in(process, "grids"))
            reconciled = put(api, "grids", "one")
            del api.befall[clusters]
            await eventually(reconciled)
            assert (await process.health())["hearing"]["hears"] is True


def test_a_process_in_which_something_hangs_ends_all_the_same() -> None:
    code = (
        "import threading; from grid_operator.handlers.ending import end_in_time;"
        "threading.Thread(target=threading.Event().wait).start(); end_in_time(7, 0.1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


async def test_a_stop_signal_ends_one_that_stands_by_while_nothing_is_answered(
    tmp_path: Path,
) -> None:
    async with started() as api:
        asked = asyncio.Event()

        async def hang(_request: web.Request) -> web.StreamResponse:
            asked.set()
            await asyncio.sleep(HANG_S)
            return web.Response()

        api.answer = hang
        async with operator(api, tmp_path, "grids") as process:
            await asked.wait()
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended(STOP_LIMIT_S) == 128 + signal.SIGTERM
