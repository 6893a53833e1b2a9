"""Watches of two namespaces against the fake API server, and what they pass on."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any

from grid_operator.handlers.hearing import Hearing
from grid_operator.handlers.watching import WatchPace, run_watches, watch_targets
from grid_operator.ports.kubernetes.rest import Credentials
from grid_operator.ports.kubernetes.watch import KubeWatch
from grid_operator.ports.metrics import OperatorMetrics
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.watch_api import WatchApi
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_operator.ports.kubernetes.watch import ObjectMeta, WatchTarget

A, B = (f"/apis/gridcluster.io/v1alpha1/namespaces/{name}/gridclusters" for name in "ab")
PACE = WatchPace(
    life_s=(1, 1),
    request_s=20.0,
    grace_s=0.5,
    least_life_s=0.05,
    retry_first_s=0.02,
    retry_max_s=0.1,
    relist_s=600.0,
)


class Heard:
    """What watches passed on."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str, str]] = []
        self.room = True
        self.forgotten: set[str] = set()
        self.raises: Exception | None = None
        self.token = "t"
        self.no_token: Exception | None = None

    def changed(self, target: WatchTarget, seen: ObjectMeta) -> bool:
        if self.raises is not None:
            raise self.raises
        self.names.append((target.plural, seen.namespace, seen.name))
        return self.room

    def has(self, _target: WatchTarget, seen: ObjectMeta) -> bool:
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
    api: WatchApi,
    heard: Heard,
    pace: WatchPace = PACE,
    namespaces: tuple[str | None, ...] = ("a", "b"),
    limit_s: float = 60.0,
) -> AsyncIterator[tuple[Hearing, OperatorMetrics]]:
    """Watch while the block runs."""

    async def credentials() -> Credentials:
        if heard.no_token is not None:
            raise heard.no_token
        return Credentials(api.url, None, False, None, None, f"bearer {heard.token}")

    metrics = OperatorMetrics()
    hearing = Hearing(asyncio.get_running_loop().time, metrics, limit_s)
    targets = list(watch_targets(namespaces))
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
