from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from grid_operator.api.objects import ObjectRef
from grid_operator.decide.model import ClusterEvent
from grid_operator.ports.errors import Conflict, Deposed, OperatorError, Rejected, Unavailable
from grid_operator.ports.kubernetes.client import KubeClient
from grid_operator.ports.kubernetes.rest import KubeRest
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

Answer = Callable[[web.Request, Any], web.Response]
TOKEN = "token-that-nobody-may-see"


class Server:
    """Records requests and answers as told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], str, Any]] = []
        self.answer: Answer = lambda _request, body: web.json_response(body or {"metadata": {}})

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        body = json.loads(text) if text else None
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        self.seen.append(
            (request.method, request.path, dict(request.query), request.content_type, body)
        )
        return self.answer(request, body)


@asynccontextmanager
async def api(tmp_path: Path) -> AsyncIterator[tuple[Server, KubeClient]]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with serving(app) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [
                {"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "grids"}}
            ],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        rest = await KubeRest.connect(str(path))
        try:
            yield server, KubeClient(rest, "operator-0")
        finally:
            await rest.close()


async def test_apply_is_a_forced_server_side_apply_and_drops_managed_fields(tmp_path: Path) -> None:
    obj = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "demo", "namespace": "grids", "managedFields": [{}]},
        "spec": {"replicas": 0, "none": {}},
    }
    async with api(tmp_path) as (server, kube):
        applied = await kube.apply(obj)
    method, path, query, content_type, body = server.seen[0]
    assert (method, path) == ("PATCH", "/apis/apps/v1/namespaces/grids/statefulsets/demo")
    assert query == {"fieldManager": "grid-operator", "force": "true"}
    assert content_type == "application/apply-patch+yaml"
    assert body["spec"] == {"replicas": 0, "none": {}}
    assert "managedFields" not in applied["metadata"]
    assert kube.rest.writes == 1


async def test_reads_are_no_writes_and_a_missing_object_is_none(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({"kind": "Status"}, status=404)
        assert await kube.fetch_cluster("grids", "demo") is None
    assert server.seen[0][1] == "/apis/gridcluster.io/v1alpha1/namespaces/grids/gridclusters/demo"
    assert kube.rest.writes == 0
    assert kube.rest.default_namespace == "grids"


async def test_children_are_listed_by_label_in_pages_and_only_owned_ones_count(
    tmp_path: Path,
) -> None:
    def answer(request: web.Request, _body: object) -> web.Response:
        if not request.path.endswith("/services"):
            return web.json_response({"metadata": {}, "items": []})
        first = "continue" not in request.query
        owner = [{"uid": "uid-demo"}] if first else [{"uid": "another"}]
        item = {"metadata": {"name": str(first), "namespace": "grids", "ownerReferences": owner}}
        more = {"continue": "token"} if first else {}
        return web.json_response({"metadata": more, "items": [item]})

    async with api(tmp_path) as (server, kube):
        server.answer = answer
        children = await kube.fetch_children(cluster_object())
    assert [(c["apiVersion"], c["kind"], c["metadata"]["name"]) for c in children] == [
        ("v1", "Service", "True")
    ]
    assert {query["labelSelector"] for _, _, query, _, _ in server.seen} == {
        "gridcluster.io/cluster=demo"
    }


async def test_status_is_written_with_preconditions_and_absent_fields_are_removed(
    tmp_path: Path,
) -> None:
    cluster = cluster_object() | {"status": {"size": 1, "clusterState": "Active"}}
    async with api(tmp_path) as (server, kube):
        await kube.apply_status(cluster, {"size": 1})
    method, path, _, content_type, body = server.seen[0]
    assert (method, content_type) == ("PATCH", "application/merge-patch+json")
    assert path.endswith("/gridclusters/demo/status")
    assert body == {
        "metadata": {"uid": "uid-demo", "resourceVersion": "1"},
        "status": {"size": 1, "clusterState": None},
    }


async def test_a_field_that_left_an_object_of_the_status_is_removed_there_too(
    tmp_path: Path,
) -> None:
    operation = {"id": "a", "step": "Call", "lastAttempt": "now", "more": {"x": 1}}
    cluster = cluster_object() | {"status": {"operation": operation, "conditions": [{"a": 1}]}}
    async with api(tmp_path) as (server, kube):
        status = {"operation": {"id": "a", "step": "Confirm", "more": {}}, "conditions": []}
        await kube.apply_status(cluster, status)
    assert server.seen[0][4]["status"] == {
        "operation": {"id": "a", "step": "Confirm", "lastAttempt": None, "more": {"x": None}},
        "conditions": [],
    }


async def test_the_cluster_as_written_is_what_the_next_write_names(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):

        def answer(_request: web.Request, _body: Any) -> web.Response:
            written = cluster_object()
            written["metadata"] |= {"resourceVersion": "2", "managedFields": [{}]}
            return web.json_response(written)

        server.answer = answer
        written = await kube.apply_status(cluster_object(), {"size": 1})
        assert "managedFields" not in written["metadata"]
        await kube.set_finalizers(written, ("gridcluster.io/shutdown",))
    _, path, _, content_type, body = server.seen[1]
    assert path.endswith("/gridclusters/demo")
    assert content_type == "application/merge-patch+json"
    assert body == {
        "metadata": {
            "finalizers": ["gridcluster.io/shutdown"],
            "uid": "uid-demo",
            "resourceVersion": "2",
        }
    }


async def test_a_cluster_that_is_gone_is_a_conflict_not_a_refusal(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        gone = {"kind": "Status", "reason": "NotFound", "message": "no such object"}
        server.answer = lambda *_: web.json_response(gone, status=404)
        with pytest.raises(Conflict):
            await kube.apply_status(cluster_object(), {"size": 1})
        with pytest.raises(Conflict):
            await kube.set_finalizers(cluster_object(), ())


async def test_events_are_those_about_one_object(tmp_path: Path) -> None:
    item = {"metadata": {"name": "e"}, "reason": "FailedCreate"}
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({"metadata": {}, "items": [item]})
        assert await kube.fetch_events(cluster_object()) == [item]
        server.answer = lambda *_: web.json_response({"message": "forbidden"}, status=403)
        assert await kube.fetch_events(cluster_object()) is None
    assert server.seen[0][1] == "/api/v1/namespaces/grids/events"
    assert server.seen[0][2]["fieldSelector"] == "involvedObject.uid=uid-demo"


@pytest.mark.parametrize(
    ("status", "metadata", "expected"),
    [
        (200, {"name": "grids"}, False),
        (200, {"name": "grids", "deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        (404, {}, True),
        (403, {}, False),
    ],
)
async def test_whether_a_namespace_is_being_deleted(
    tmp_path: Path, status: int, metadata: dict[str, str], expected: bool
) -> None:
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({"metadata": metadata}, status=status)
        assert await kube.is_terminating("grids") is expected
    assert server.seen[0][1] == "/api/v1/namespaces/grids"


async def test_claims_are_no_children_and_jobs_are(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({"metadata": {}, "items": []})
        await kube.fetch_children(cluster_object())
        plurals = {path.rpartition("/")[2] for _, path, _, _, _ in server.seen}
        assert "jobs" in plurals
        assert not plurals & {"pods", "persistentvolumeclaims"}
        await kube.fetch_claims(cluster_object())
        assert server.seen[-1][1] == "/api/v1/namespaces/grids/persistentvolumeclaims"


async def test_a_deposed_operator_writes_nothing_and_may_look(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        kube.rest.may_write = lambda: False
        for write in (
            kube.apply(cluster_object()),
            kube.delete(ObjectRef("v1", "Pod", "grids", "demo-0"), "uid-7"),
            kube.apply_status(cluster_object(), {"size": 1}),
            kube.set_finalizers(cluster_object(), ()),
            kube.record_event(cluster_object(), ClusterEvent("Normal", "Because", "")),
        ):
            with pytest.raises(Deposed):
                await write
        assert server.seen == []
        assert await kube.fetch_cluster("grids", "demo") is not None


async def test_requests_are_counted_by_verb_and_status(tmp_path: Path) -> None:
    def hang_up(request: web.Request, _body: Any) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with api(tmp_path) as (server, kube):
        await kube.apply(cluster_object())
        server.answer = lambda *_: web.json_response({}, status=503)
        with pytest.raises(Unavailable):
            await kube.fetch_cluster("grids", "demo")
        server.answer = hang_up
        with pytest.raises(Unavailable):
            await kube.fetch_cluster("grids", "demo")
    registry = kube.rest.metrics.registry
    counts = [
        registry.get_sample_value(
            "grid_operator_api_requests_total", {"verb": verb, "status": status}
        )
        for verb, status in (("patch", "200"), ("get", "503"), ("get", "0"))
    ]
    assert counts == [1, 1, 1]


async def test_delete_has_a_uid_precondition_and_gone_is_no_error(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({}, status=404)
        await kube.delete(ObjectRef("v1", "Pod", "grids", "demo-0"), "uid-7")
    assert server.seen[0][4]["preconditions"] == {"uid": "uid-7"}


async def test_event_names_the_cluster_and_keeps_its_message_in_bounds(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        await kube.record_event(cluster_object(), ClusterEvent("Warning", "Because", "é" * 4000))
    body = server.seen[0][4]
    assert body["involvedObject"]["uid"] == "uid-demo"
    assert (body["type"], body["reason"]) == ("Warning", "Because")
    assert len(body["message"].encode()) <= 1024


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (409, "Conflict", Conflict),
        (410, "Expired", Conflict),
        (422, "Invalid", Rejected),
        (403, "Forbidden", Rejected),
        (404, "NotFound", Rejected),
        (413, "RequestEntityTooLarge", Rejected),
        (401, "Unauthorized", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
async def test_errors_are_classified(
    tmp_path: Path, status: int, reason: str, expected: type[OperatorError]
) -> None:
    body = {"kind": "Status", "message": "why it is so", "reason": reason}
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response(
            body, status=status, headers={"Retry-After": "7"}
        )
        with pytest.raises(expected, match="why it is so") as caught:
            await kube.apply(cluster_object())
    if isinstance(caught.value, Unavailable):
        assert caught.value.retry_after_s == 7.0
    if isinstance(caught.value, Rejected):
        assert caught.value.reason == reason


async def test_a_field_that_a_kind_does_not_have_is_a_refusal_although_the_status_is_500(
    tmp_path: Path,
) -> None:
    message = "failed to create typed patch object (a/b): .spec.x: field not declared in schema"
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response(
            {"kind": "Status", "message": message, "reason": ""}, status=500
        )
        with pytest.raises(Rejected, match="not declared in schema") as caught:
            await kube.apply(cluster_object())
    assert caught.value.reason == "BadRequest"


async def test_a_terminating_namespace_is_no_refusal(tmp_path: Path) -> None:
    message = "forbidden: unable to create new content because namespace is being terminated"
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.json_response({"message": message}, status=403)
        with pytest.raises(Conflict):
            await kube.apply(cluster_object())


async def test_something_else_on_the_port_is_unavailable(tmp_path: Path) -> None:
    async with api(tmp_path) as (server, kube):
        server.answer = lambda *_: web.Response(text="<html>")
        with pytest.raises(Unavailable):
            await kube.fetch_cluster("grids", "demo")


async def test_nobody_there_is_unavailable(tmp_path: Path) -> None:
    async with api(tmp_path) as (_, kube):
        pass
    with pytest.raises(Unavailable):
        await kube.fetch_cluster("grids", "demo")
    await kube.rest.close()


async def test_a_missing_kubeconfig_says_so(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no usable Kubernetes configuration"):
        await KubeRest.connect(str(tmp_path / "none"))
    await asyncio.sleep(0)


async def test_credentials_for_other_clients_hide_the_token(tmp_path: Path) -> None:
    async with api(tmp_path) as (_, kube):
        credentials = await kube.rest.credentials()
    assert credentials.authorization == f"Bearer {TOKEN}"
    assert TOKEN not in repr(credentials)


def service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo", "namespace": "grids"},
        "spec": {"ports": [{"name": "rest", "port": 5701}]},
    }


async def test_a_patch_names_the_version_that_was_read(tmp_path: Path) -> None:
    live = service() | {"metadata": {**service()["metadata"], "resourceVersion": "7"}}
    removal = {"op": "remove", "path": "/spec/ports/1"}
    async with api(tmp_path) as (server, kube):
        server.answer = lambda _request, _body: web.json_response(live)
        await kube.patch(live, [removal])
    method, path, query, content_type, body = server.seen[0]
    assert (method, path) == ("PATCH", "/api/v1/namespaces/grids/services/demo")
    assert query == {"fieldManager": "grid-operator"}
    assert content_type == "application/json-patch+json"
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert body == [version, removal]


async def test_a_dry_run_is_no_write(tmp_path: Path) -> None:
    live = service() | {"metadata": {**service()["metadata"], "resourceVersion": "7"}}
    async with api(tmp_path) as (server, kube):
        server.answer = lambda _request, _body: web.json_response(live)
        await kube.apply(service(), dry_run=True)
        await kube.patch(live, [], dry_run=True)
        assert kube.rest.writes == 0
    assert [seen[2]["dryRun"] for seen in server.seen] == ["All", "All"]


async def test_a_port_of_the_nodes_that_is_there_twice_is_invalid(tmp_path: Path) -> None:
    status = {"kind": "Status", "message": "duplicate nodePort: {TCP 30801}"}
    async with api(tmp_path) as (server, kube):
        server.answer = lambda _request, _body: web.json_response(status, status=500)
        with pytest.raises(Rejected) as refused:
            await kube.apply(service())
    assert refused.value.reason == "Invalid"
