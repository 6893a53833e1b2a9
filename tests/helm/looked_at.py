"""An API server of a few objects, which `helm template --dry-run=server` can look at."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.helm.running import Helm

Tree = dict[str, Any]

_KINDS: Final = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Service": ("/api/v1", "services"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Pod": ("/api/v1", "pods"),
    "GridCluster": ("/apis/gridcluster.io/v1alpha1", "gridclusters"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}


@contextmanager
def looked_at(release: Helm, objects: Iterable[Tree]) -> Iterator[tuple[str, ...]]:
    """Serve the objects as those of the release; yield what tells helm to look at them."""
    answers = {_path(one): _owned(release, one) for one in objects} | _discovery()
    # Where helm keeps its releases.
    answers[f"/api/v1/namespaces/{release.namespace}/secrets"] = {"kind": "SecretList", "items": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.server_address[:2]
            address = f"http://{host!s}:{port}"
            yield (
                *("--dry-run=server", "--kube-apiserver", address),
                "--disable-openapi-validation",
            )
        finally:
            server.shutdown()
            thread.join()


def _owned(release: Helm, one: Tree) -> Tree:
    meta = one["metadata"]
    owner = {
        "meta.helm.sh/release-name": release.release,
        "meta.helm.sh/release-namespace": release.namespace,
    }
    return {**one, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **owner}}}


def _path(one: Tree) -> str:
    group, plural = _KINDS[one["kind"]]
    meta = one["metadata"]
    return f"{group}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"


def _discovery() -> dict[str, Tree]:
    lists: dict[str, Tree] = {}
    for kind, (path, plural) in _KINDS.items():
        group = path.removeprefix("/apis/").removeprefix("/api/")
        empty = {"kind": "APIResourceList", "groupVersion": group, "resources": []}
        resource = {"name": plural, "namespaced": True, "kind": kind, "verbs": ["get"]}
        lists.setdefault(path, empty)["resources"].append(resource)
    groups = [_group(one["groupVersion"]) for one in lists.values() if "/" in one["groupVersion"]]
    return lists | {
        "/version": {"major": "1", "minor": "30", "gitVersion": "v1.30.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }


def _group(group_version: str) -> Tree:
    name, _, version = group_version.partition("/")
    found = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [found], "preferredVersion": found}
