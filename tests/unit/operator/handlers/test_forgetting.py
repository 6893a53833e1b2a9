"""Promise: clusters of which nothing can be known are not asked for, and come back with a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.listening import started
from tests.unit.operator.handlers.operators import operator
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.operator.handlers.operators import Operator
    from tests.unit.operator.watch_api import WatchApi

A, B = (f"/apis/gridcluster.io/v1alpha1/namespaces/{name}/gridclusters/demo" for name in "ab")


def put(api: WatchApi, path: str, size: int) -> None:
    cluster = cluster_object(size=size)
    cluster["metadata"]["namespace"] = path.split("/")[5]
    del cluster["metadata"]["uid"]
    if path in api.objects:
        cluster["status"] = api.objects[path]["status"]
    api.put(path, cluster)


async def sees(api: WatchApi, path: str) -> None:
    """Wait until the operator has seen the cluster as it is."""

    async def seen() -> bool:
        cluster = api.objects[path]
        status = cluster.get("status", {})
        return bool(status.get("observedGeneration") == cluster["metadata"]["generation"])

    await eventually(seen)


async def knows(process: Operator, clusters: int) -> None:
    async def counted() -> bool:
        return (await process.health()).get("clusters") == clusters

    await eventually(counted)


@pytest.mark.parametrize("is_gone", [False, True], ids=["forbidden", "gone"])
async def test_a_namespace_that_is_forbidden_is_not_asked_for_its_clusters(
    is_gone: bool, tmp_path: Path
) -> None:
    async with started() as api:
        for path in (A, B):
            put(api, path, 1)
        async with operator(api, tmp_path, "a", "b") as process:
            for path in (A, B):
                await sees(api, path)
            await knows(process, 2)

            api.refuse("b", 403)
            if is_gone:
                api.remove(B)
            await knows(process, 1)
            put(api, A, 2)
            await sees(api, A)

            api.permit()
            put(api, B, 2)
            await sees(api, B)
            await knows(process, 2)
