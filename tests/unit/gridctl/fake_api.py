"""A Kubernetes API over HTTP that holds GridClusters, and an operator that follows a script."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

from tests.unit.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

ROOT = "/apis/gridcluster.io/v1alpha1"
NAMESPACE = "grids"
NOW = "2026-01-01T00:00:00Z"


def cluster_object(name: str = "demo", /, **spec: Any) -> KubeObject:
    return {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": NOW,
        },
        "spec": spec,
        "status": {"observedGeneration": 1},
    }


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW,
    }


def operation(kind: str, step: str, **more: Any) -> dict[str, Any]:
    found = {"id": f"{kind.lower()}-1", "kind": kind, "step": step}
    return found | {"started": NOW, "stepStarted": NOW} | more


def finished(kind: str, outcome: str, **more: Any) -> dict[str, Any]:
    found = {"id": f"{kind.lower()}-1", "kind": kind, "outcome": outcome}
    return found | {"started": NOW, "finished": NOW} | more


def merged(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch (RFC 7386) applied."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class FakeApi:
    """The server; once something was written, each GET lets the operator take one step first."""

    def __init__(self) -> None:
        self.clusters: dict[str, KubeObject] = {}
        self.sets: dict[str, KubeObject] = {}
        self.writes: list[str] = []
        self.dry_runs: list[Any] = []
        self.refusal: str | None = None
        """What a dry run is answered."""
        self.refusal_code = 422
        self.script: list[Callable[[KubeObject], None]] = []
        self.failures: list[int] = []
        """Status codes that the next requests are answered with."""
        self.before_patch: Callable[[], None] = lambda: None
        self._versions = itertools.count(100)
        self._serving = AsyncExitStack()
        self.url = ""

    def add(self, cluster: KubeObject) -> KubeObject:
        self.clusters[cluster["metadata"]["name"]] = cluster
        return cluster

    def touch(self, name: str = "demo") -> None:
        if name in self.clusters:
            self.clusters[name]["metadata"]["resourceVersion"] = str(next(self._versions))

    async def start(self) -> FakeApi:
        app = web.Application()
        place = f"{ROOT}/namespaces/{{namespace}}/gridclusters"
        app.router.add_get(place + "/{name}", self._get)
        app.router.add_patch(place + "/{name}", self._patch)
        app.router.add_post(place, self._create)
        app.router.add_get(place, self._list)
        app.router.add_get(f"{ROOT}/gridclusters", self._list)
        app.router.add_get(
            "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}", self._get_set
        )
        self.url = await self._serving.enter_async_context(serving(app))
        return self

    async def stop(self) -> None:
        await self._serving.aclose()

    def kubeconfig(self, directory: Path, namespace: str | None = NAMESPACE) -> str:
        context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "sesame"}}],
            "contexts": [{"name": "here", "context": context}],
        }
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return str(path)

    def _failure(self) -> web.Response | None:
        if not self.failures:
            return None
        return _status(self.failures.pop(0), "out of order")

    async def _get(self, request: web.Request) -> web.Response:
        failure = self._failure()
        if failure is not None:
            return failure
        name = request.match_info["name"]
        cluster = self.clusters.get(name)
        if cluster is None or request.match_info["namespace"] != NAMESPACE:
            return _status(404, f"gridclusters {name} not found")
        if self.script and self.writes:
            self.script.pop(0)(cluster)
            self.touch(name)
        return web.json_response(cluster)

    async def _get_set(self, request: web.Request) -> web.Response:
        found = self.sets.get(request.match_info["name"])
        return web.json_response(found) if found else _status(404, "not found")

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"metadata": {}, "items": list(self.clusters.values())})

    async def _patch(self, request: web.Request) -> web.Response:
        self.before_patch()
        name, body = request.match_info["name"], await request.json()
        live = self.clusters[name]
        if request.query.get("dryRun") == "All":
            self.dry_runs.append(body)
            return (
                _status(self.refusal_code, self.refusal)
                if self.refusal
                else web.json_response(live)
            )
        if body["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified")
        changed = merged(live, body)
        if changed["spec"] != live["spec"]:
            changed["metadata"]["generation"] += 1
        self.clusters[name] = changed
        self.touch(name)
        self.writes.append(f"patch {name}")
        return web.json_response(self.clusters[name])

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.query.get("dryRun") == "All":
            self.dry_runs.append(body)
            return (
                _status(self.refusal_code, self.refusal)
                if self.refusal
                else web.json_response(body)
            )
        name = body["metadata"]["name"]
        if name in self.clusters:
            return _status(409, f"gridclusters {name} already exists")
        created = merged(cluster_object(name), body)
        created["status"] = {}
        self.add(created)
        self.writes.append(f"create {name}")
        return web.json_response(created, status=201)


def _status(code: int, message: str) -> web.Response:
    content = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return web.json_response(content, status=code)
