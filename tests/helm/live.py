"""An API server as far as Helm's `lookup` needs it: some objects, and nothing else."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOST: Final = "127.0.0.1"
_KINDS: Final = {
    "v1": ("ConfigMap", "PersistentVolumeClaim", "Pod", "Service"),
    "apps/v1": ("StatefulSet",),
    "batch/v1": ("CronJob", "Job"),
    "gridcluster.io/v1alpha1": ("GridCluster",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
}
"""By API version."""
_NOT_FOUND: Final = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}


def _group(version: str) -> dict[str, Any]:
    named = {"groupVersion": version, "version": version.partition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [named], "preferredVersion": named}


def _documents() -> dict[str, Any]:
    groups = [_group(version) for version in _KINDS if "/" in version]
    found: dict[str, Any] = {
        "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for version, kinds in _KINDS.items():
        resources = [
            {"name": _plural(kind), "kind": kind, "namespaced": True, "verbs": ["get"]}
            for kind in kinds
        ]
        listed = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        found[f"/{'apis' if '/' in version else 'api'}/{version}"] = listed
    return found


def _plural(kind: str) -> str:
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


@contextmanager
def live_objects(directory: Path, objects: Mapping[str, Mapping[str, Any]]) -> Iterator[Path]:
    """Serve objects by their paths; give the kubeconfig."""
    documents = {**_documents(), **objects}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            body = json.dumps(documents.get(path, _NOT_FOUND)).encode()
            self.send_response(200 if path in documents else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base
            """Say nothing."""

    with ThreadingHTTPServer((HOST, 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            file = directory / "kubeconfig"
            file.write_text(_kubeconfig(server.server_port))
            yield file
        finally:
            server.shutdown()


def _kubeconfig(port: int) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://{HOST}:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(config)
