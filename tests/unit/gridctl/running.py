"""One `gridctl up` as a user runs it: a process of its own, with the real member."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESSES = itertools.count(2, 5)
"""Five apart: a cluster's members follow one another."""
ANSWER_S = 15.0
"""A member that nobody leads answers a request within ten seconds, if only with 503."""
DEADLINE_S = 25.0
READY = "health/ready"


def manifest(name: str, annotations: dict[str, str], **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
            "maps": [{"name": "default"}],
            "queues": [{"name": "default"}],
            "persistence": {"enabled": True},
            **spec,
        },
    }


def until(condition: Callable[[], object], what: str, patience_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def pod_of(pid: int) -> str:
    """Return the name of the pod that a member process is; empty when it is gone."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    found = (entry.removeprefix(b"POD_NAME=") for entry in environment if b"POD_NAME=" in entry)
    return next(found, b"").decode()


class Up:
    """One running `gridctl up`."""

    def __init__(self, directory: Path, name: str = "demo") -> None:
        self.directory = directory
        self.name = name
        self.spec: dict[str, object] = {}
        self.annotations: dict[str, str] = {}
        self.file = directory / "gridcluster.yaml"
        self.log = directory / "log"
        self.patience_s = DEADLINE_S
        """For its start."""
        # The pid keeps test processes that run at the same time apart.
        pid = os.getpid()
        self.address = f"127.{pid // 250 % 250 + 1}.{pid % 250 + 1}.{next(ADDRESSES) % 250}"
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, **spec: object) -> None:
        """Change the spec to this; the annotations stay."""
        self.spec = spec
        self._write()

    def annotate(self, **annotations: str) -> None:
        """Put requests into the file; the spec stays."""
        for name, value in annotations.items():
            self.annotations[f"gridcluster.io/{name.replace('_', '-')}"] = value
        self._write()

    def _write(self) -> None:
        fresh = self.file.with_suffix(".new")
        content = manifest(self.name, self.annotations, **self.spec)
        fresh.write_text(yaml.safe_dump(content), encoding="utf-8")
        fresh.replace(self.file)

    def start(self) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command("up", "-f", str(self.file), "--address", self.address),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(
            lambda: "is ready" in self.text() or self.process_ended(), "not ready", self.patience_s
        )
        assert "is ready" in self.text(), self.text()

    def command(self, *arguments: str) -> list[str]:
        data_dir = str(self.directory / "data")
        return [sys.executable, "-m", "gridctl", *arguments, "--data-dir", data_dir]

    def process_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self, number: int = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def call(
        self, method: str, path: str, body: bytes | None = None, *, member: int = 0
    ) -> tuple[int, bytes]:
        address = ipaddress.IPv4Address(self.address) + member
        url = f"http://{address}:5701/grid/{path if path == READY else f'rest/{path}'}"
        request = urllib.request.Request(url, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""
        except OSError:
            return 0, b""

    def metrics(self, member: int = 0) -> str:
        """Return what a member shows to Prometheus."""
        address = ipaddress.IPv4Address(self.address) + member
        url = f"http://{address}:5703/metrics"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as response:
            text: str = response.read().decode()
        return text

    def status(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command("status"), capture_output=True, text=True, check=False)

    def state(self) -> dict[str, Any]:
        """Return the status that the running gridctl shows."""
        path = self.directory / "data" / "default" / self.name / ".state.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8")).get("status", {})
        except FileNotFoundError:
            return {}
        return found

    def ended(self, kind: str) -> dict[str, Any] | None:
        """Return the newest operation of this kind that has ended."""
        over = self.state().get("lastOperations", ())
        return next((one for one in over if one["kind"] == kind), None)

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
