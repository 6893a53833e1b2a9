"""A Kubernetes API server over HTTP, as far as the operator's port speaks to one.

Objects are kept by their URL path. It checks what the operator relies on: resourceVersions and
uids as preconditions, merge patches, the status subresource, label selectors.
"""

from __future__ import annotations

import copy
import itertools
import json
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

from tests.unit.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

PLURALS = frozenset(
    {
        *("statefulsets", "services", "configmaps", "secrets", "networkpolicies", "jobs"),
        *("pods", "persistentvolumeclaims", "gridclusters", "events", "leases"),
        "poddisruptionbudgets",
    }
)
APPLY = "application/apply-patch+yaml"


class FakeApi:
    """The objects of one API server, and what it answers."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject] = {}
        self.written: Callable[[], None] = lambda: None
        """Called after every change."""
        self.fault: Callable[[str, str], web.Response | None] = lambda _method, _path: None
        """Asked with method and path before each request; what it returns is the answer."""
        self.storm: Callable[[], tuple[bool, web.Response] | None] = lambda: None
        """Asked for each request: whether it is carried out, and what is answered instead."""
        self.requests = 0
        self.url = ""
        self._versions = itertools.count(1)
        self._serving = AsyncExitStack()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self.url = await self._serving.enter_async_context(serving(app))

    async def stop(self) -> None:
        await self._serving.aclose()

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this server and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def put(self, path: str, obj: KubeObject) -> KubeObject:
        """Store an object, new or changed, as the API server does."""
        old = self.objects.get(path)
        meta = obj["metadata"]
        if old is None:
            meta.setdefault("uid", str(uuid.uuid4()))
            meta["generation"] = 1
            meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
        elif old == obj:
            return old
        else:
            meta |= {k: old["metadata"][k] for k in ("uid", "creationTimestamp")}
            changed = old.get("spec") != obj.get("spec")
            meta["generation"] = old["metadata"]["generation"] + changed
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[path] = obj
        self.written()
        return obj

    def remove(self, path: str) -> None:
        """Forget an object."""
        if self.objects.pop(path, None) is not None:
            self.written()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        failed = self.fault(request.method, request.path)
        if failed is not None:
            return failed
        self.requests += 1
        lost = self.storm()
        if lost is not None and not lost[0]:
            return lost[1]
        body = json.loads(text) if text else {}
        path, _, sub = request.path.partition("/status")
        answer = getattr(self, f"_{request.method.lower()}")
        result: web.Response = answer(path, sub == "" and path != request.path, body, request)
        return result if lost is None else lost[1]

    def _get(self, path: str, _status: bool, _body: Any, request: web.Request) -> web.Response:
        if path.rpartition("/")[2] not in PLURALS:
            found = self.objects.get(path)
            return _json(found) if found is not None else _error(404, "NotFound")
        key, _, value = request.query.get("labelSelector", "").partition("=")
        items = [
            obj
            for name, obj in self.objects.items()
            if name.rpartition("/")[0] == path
            and (not key or obj["metadata"].get("labels", {}).get(key) == value)
        ]
        return _json({"metadata": {"resourceVersion": "1"}, "items": items})

    def _post(self, path: str, _status: bool, body: Any, _request: web.Request) -> web.Response:
        name = f"{path}/{body['metadata']['name']}"
        if name in self.objects:
            return _error(409, "AlreadyExists")
        return _json(self.put(name, body))

    def _put(self, path: str, _status: bool, body: Any, _request: web.Request) -> web.Response:
        live = self.objects.get(path)
        version = body["metadata"].get("resourceVersion")
        if live is None or live["metadata"]["resourceVersion"] != version:
            return _error(409, "Conflict")
        return _json(self.put(path, body))

    def _patch(self, path: str, status: bool, body: Any, request: web.Request) -> web.Response:
        live = self.objects.get(path)
        if request.content_type == APPLY:
            wanted = body["metadata"].get("resourceVersion")
            if wanted is not None and (live or body)["metadata"]["resourceVersion"] != wanted:
                return _error(409, "Conflict")
            return _json(self.put(path, _applied(live or {}, body)))
        if live is None:
            return _error(404, "NotFound")
        wanted = body.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if wanted.get(field, live["metadata"][field]) != live["metadata"][field]:
                return _error(409, "Conflict")
        merged = copy.deepcopy(live)
        if status:
            merged["status"] = _merged(live.get("status", {}), body["status"])
        else:
            merged = _merged(merged, body)
        stored = self.put(path, merged)
        if "deletionTimestamp" in stored["metadata"] and not stored["metadata"].get("finalizers"):
            self.remove(path)
        return _json(stored)

    def _delete(self, path: str, _status: bool, body: Any, _request: web.Request) -> web.Response:
        live = self.objects.get(path)
        if live is None:
            return _error(404, "NotFound")
        if body["preconditions"]["uid"] != live["metadata"]["uid"]:
            return _error(409, "Conflict")
        if live["kind"] == "Pod":  # it goes when its containers have ended
            gone = {**live["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}
            self.put(path, {**live, "metadata": gone})
        else:
            self.remove(path)
        return _json({})


def _applied(live: KubeObject, body: KubeObject) -> KubeObject:
    meta = {**live.get("metadata", {}), **body["metadata"]}
    return copy.deepcopy({**live, **body, "metadata": meta})


def _merged(live: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    kept = dict(live) if isinstance(live, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = _merged(kept.get(key), value)
    return kept


def _json(content: object) -> web.Response:
    return web.json_response(content)


def _error(status: int, reason: str) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": reason}
    return web.json_response(body, status=status)
