"""`gridctl up` as a user runs it: a process of its own, with the real member."""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESSES = itertools.count(2)
DEADLINE_S = 25.0


def manifest(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {"name": "demo"},
        "spec": {
            "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
            "maps": [{"name": "default"}],
            "queues": [{"name": "default"}],
            "persistence": {"enabled": True},
            **spec,
        },
    }


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
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


class Up:
    """One running `gridctl up`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "gridcluster.yaml"
        self.log = directory / "log"
        # The pid keeps test processes that run at the same time apart.
        pid = os.getpid()
        self.address = f"127.{pid // 250 % 250 + 1}.{pid % 250 + 1}.{next(ADDRESSES) % 250}"
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, **spec: object) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(manifest(**spec)), encoding="utf-8")
        fresh.replace(self.file)

    def start(self) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command("up", "-f", str(self.file), "--address", self.address),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(lambda: "is ready" in self.text() or self.process_ended(), "not ready")
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

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        url = f"http://{self.address}:5701/grid/rest/{path}"
        request = urllib.request.Request(url, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""
        except OSError:
            return 0, b""

    def status(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command("status"), capture_output=True, text=True, check=False)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    running.write()
    try:
        yield running
    finally:
        if running.process is not None:
            with contextlib.suppress(ProcessLookupError):
                running.process.kill()
            running.process.wait()


def test_serves_maps_and_queues_shows_a_status_and_ctrl_c_leaves_nothing(up: Up) -> None:
    up.start()
    member_pids = children(up.pid)
    assert f"http://{up.address}:5701/grid/rest/maps/default/" in up.text()
    assert up.call("POST", "maps/default/a", b"1")[0] == 200
    assert up.call("GET", "maps/default/a") == (200, b"1")
    assert up.call("POST", "queues/default", b"x")[0] == 200
    assert up.call("DELETE", "queues/default/1") == (200, b"x")
    shown = json.loads(up.call("GET", "cluster")[1])
    assert [member["address"] for member in shown["members"]] == [f"{up.address}:5701"]
    status = up.status()
    assert status.stdout.splitlines()[0].split() == [
        "NAMESPACE", "NAME", "SIZE", "READY", "STATE", "VERSION", "AGE",
    ]  # fmt: skip
    assert status.stdout.splitlines()[1].split()[:5] == ["default", "demo", "1", "True", "Active"]
    assert up.stop() == 0
    assert not any(map(is_alive, member_pids))
    assert up.status().returncode == 1


def test_data_survives_a_killed_member_and_a_restart_of_everything(up: Up) -> None:
    up.start()
    assert up.call("POST", "maps/default/kept", b"value")[0] == 200
    (member_pid,) = children(up.pid)
    os.kill(member_pid, signal.SIGKILL)
    until(lambda: up.call("GET", "maps/default/kept") == (200, b"value"), "data after kill -9")
    assert children(up.pid) != [member_pid]
    assert up.stop(signal.SIGTERM) == 0
    up.start()
    assert up.call("GET", "maps/default/kept") == (200, b"value")
    assert up.stop() == 0


def test_sigkill_of_gridctl_leaves_no_member(up: Up) -> None:
    up.start()
    member_pids = children(up.pid)
    assert member_pids
    up.stop(signal.SIGKILL)
    until(lambda: not any(map(is_alive, member_pids)), "members outlive gridctl")
    assert up.status().returncode == 1, "a stale state file is not a running cluster"


def test_an_edit_is_rolled_out_and_a_bad_edit_changes_nothing(up: Up) -> None:
    up.start()
    assert up.call("POST", "maps/default/kept", b"value")[0] == 200
    (before,) = children(up.pid)
    up.file.write_text("kind: Nonsense", encoding="utf-8")
    until(lambda: "the change is not used" in up.text(), "no word about the bad edit")
    assert children(up.pid) == [before]
    up.write(queues=[{"name": "default"}, {"name": "small", "maxSize": 1}])
    until(lambda: up.text().count("is ready") == 2, "not ready after the edit")
    assert children(up.pid) != [before]
    assert up.call("GET", "maps/default/kept") == (200, b"value")
    assert up.call("POST", "queues/small", b"x")[0] == 200
    assert up.call("POST", "queues/small", b"x")[0] == 503
    assert up.stop() == 0


def test_the_same_cluster_runs_only_once(up: Up) -> None:
    up.start()
    command = up.command("up", "-f", str(up.file), "--address", "127.0.200.9")
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "another gridctl" in second.stderr
    assert up.stop() == 0


def test_a_taken_port_is_named(up: Up, tmp_path: Path) -> None:
    up.start()
    command = [
        *(sys.executable, "-m", "gridctl", "up", "-f", str(up.file)),
        *("--address", up.address, "--data-dir", str(tmp_path / "other")),
    ]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"{up.address}:5701 cannot be used: Address already in use" in second.stderr
    assert up.stop() == 0
