"""Real members that run what is rendered of a spec: the pod's arguments, variables and files."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grid_operator.decide.validate import find_problem
from grid_operator.ports.local.controllers import make_pod
from grid_operator.ports.local.program import LocalHost, process_spec
from grid_operator.render import complete_secrets, render_children
from tests.unit.gridctl.running import Up, until
from tests.unit.operator.api.clusters import CONTEXT, make_cluster

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

    from grid_operator.api.objects import KubeObject
    from grid_operator.render import SecretContent

CALL_TIMEOUT_S = 5
ENDED_S = 20


class Rendered:
    """The objects of a cluster, found as a pod refers to them."""

    def __init__(self, spec: dict[str, Any], secrets: Mapping[str, SecretContent]) -> None:
        cluster = make_cluster(spec)
        assert find_problem(cluster.spec) is None
        passwords = iter(f"made-{number}" for number in range(9))
        known = complete_secrets(cluster, secrets, None, False, lambda: next(passwords))
        self.children = render_children(cluster, replace(CONTEXT, secrets=known))
        self.given = {
            name: {
                "metadata": {"name": name},
                "data": {k: base64.b64encode(v.encode()).decode() for k, v in one.data.items()},
            }
            for name, one in known.items()
        }

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """Return the object of this kind, None when there is none."""
        if kind == "Secret" and name in self.given:
            return self.given[name]
        found = (o for o in self.children if (o["kind"], o["metadata"]["name"]) == (kind, name))
        return next(found, None)

    def pod(self, address: str) -> KubeObject:
        """Return the first pod of the StatefulSet."""
        (found,) = (o for o in self.children if o["kind"] == "StatefulSet")
        owned = {**found, "metadata": {**found["metadata"], "uid": "uid-of-the-set"}}
        return make_pod(owned, 0, address)


class RunningPod:
    """One pod whose member runs here; its volumes outlive it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = Up(directory).address
        self.process: subprocess.Popen[bytes] | None = None
        self.context: ssl.SSLContext | None = None
        self._probe = ""

    def start(
        self,
        spec: dict[str, Any],
        secrets: Mapping[str, SecretContent] | None = None,
        *,
        ready: bool = True,
    ) -> RunningPod:
        """Replace the member by one of this spec, ended as by a crash."""
        self.kill()
        rendered = Rendered(spec, secrets or {})
        host = LocalHost(
            self.directory / "data", self.directory / "run", {"PATH": os.environ["PATH"]}, print
        )
        found = process_spec(rendered.pod(self.address), rendered, host)
        found.program.write_files()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                found.program.argv,
                env=dict(found.program.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._probe = found.probe_url
        if ready:
            until(self.is_ready, "not ready")
        return self

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def text(self) -> str:
        """Return what the member has written so far."""
        return self.log.read_text(encoding="utf-8")

    def is_ready(self) -> bool:
        """Tell what kubelet would be told; fail when the process is gone."""
        assert self.process is not None
        assert self.process.poll() is None, self.text()
        return self.fetch(self._probe)[0] == 200

    def call(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "",
        port: int = 5701,
        user: str = "",
        scheme: str = "http",
    ) -> tuple[int, bytes]:
        """Return status and body of an answer; 0 when there is none. The user is NAME:PASSWORD."""
        url = f"{scheme}://{self.address}:{port}/grid/{path}"
        return self.fetch(url, body, method or ("GET" if body is None else "POST"), user)

    def fetch(
        self, url: str, body: bytes | None = None, method: str = "GET", user: str = ""
    ) -> tuple[int, bytes]:
        """Return status and body of an answer; 0 when there is none."""
        headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        request = urllib.request.Request(url, body, headers if user else {}, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=CALL_TIMEOUT_S, context=self.context
            ) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""

    def manage(self, name: str, body: str, port: int = 5702) -> dict[str, Any]:
        """Return the answer of a management endpoint, by default as the operator asks."""
        user = f"{CONTEXT.management_username}:{CONTEXT.management_password}"
        path = f"rest/management/cluster/{name}"
        _, text = self.call(path, body.encode(), port=port, user=user if port == 5702 else "")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def put(self, key: str, value: bytes = b"x", structure: str = "default") -> None:
        """Write an entry of a map."""
        assert self.call(f"rest/maps/{structure}/{key}", value)[0] == 200

    def get(self, key: str, structure: str = "default") -> bytes | None:
        """Return an entry of a map, None when there is none."""
        status, body = self.call(f"rest/maps/{structure}/{key}")
        assert status in (200, 204), status
        return body if status == 200 else None

    def kill(self) -> None:
        """End the member as a crash would."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait(ENDED_S)
