"""`gridctl up` as a user runs it: starts, edits, crashes, ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.gridctl.running import READY, children, is_alive, until
from tests.unit.pipes import full_pipe

if TYPE_CHECKING:
    from tests.unit.gridctl.running import Up


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


def test_what_is_not_read_stops_neither_gridctl_nor_its_members(up: Up) -> None:
    with full_pipe() as (_, writer):
        command = up.command("up", "-f", str(up.file), "--address", up.address)
        up.process = subprocess.Popen(command, stdout=writer, stderr=writer)
        until(lambda: up.call("GET", READY)[0] == 200, "not ready")
        member = next(pid for pid in children(up.pid))
        os.kill(member, signal.SIGKILL)
        until(lambda: not is_alive(member), "alive")
        until(lambda: up.call("GET", READY)[0] == 200, "not started again")
        assert up.stop(signal.SIGTERM) == 0


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
    until(lambda: up.call("POST", "queues/small", b"x")[0] == 503, "the new queue has no limit")
    assert children(up.pid) == [before], "what is new needs no restart"
    up.write(queues=[{"name": "default"}, {"name": "small", "maxSize": 1000}])
    until(lambda: children(up.pid) not in ([], [before]), "no restart")
    until(lambda: up.call("POST", "queues/small", b"x")[0] == 200, "the changed queue")
    assert up.call("GET", "maps/default/kept") == (200, b"value")
    assert up.stop() == 0


def test_of_what_a_spec_adds_to_pods_is_used_or_named(up: Up) -> None:
    secret = up.directory / "data" / "default" / ".secrets" / "extra"
    secret.mkdir(parents=True)
    (secret / "WORD").write_text("from a Secret", encoding="utf-8")
    additions = {
        "initContainers": [{"name": "first", "image": "none"}],
        "sidecars": [{"name": "beside", "image": "none"}],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "envFrom": [{"secretRef": {"name": "extra"}}],
    }
    up.write(pod=additions)
    up.start()
    left_out = "spec.pod.initContainers, spec.pod.sidecars: only pods have these"
    assert left_out in up.text()
    (member,) = children(up.pid)
    environment = Path(f"/proc/{member}/environ").read_bytes().split(b"\0")
    assert {b"NODE=demo-0", b"WORD=from a Secret"} <= set(environment)
    up.write(pod={"envFrom": [{"configMapRef": {"name": "none"}}]})
    until(lambda: "[demo-0] cannot start: ConfigMap none is not there" in up.text(), "no word")
    assert up.text().count(left_out) == 1
    assert up.stop() == 0


def test_the_same_cluster_runs_only_once(up: Up) -> None:
    up.start()
    command = up.command("up", "-f", str(up.file), "--address", "127.0.200.9")
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "another gridctl" in second.stderr
    assert up.stop() == 0


@pytest.mark.parametrize("port", [5702, 5703])
def test_a_port_of_a_listener_that_is_taken_is_named(up: Up, port: int) -> None:
    with socket.create_server((up.address, port)):
        command = up.command("up", "-f", str(up.file), "--address", up.address)
        refused = subprocess.run(command, capture_output=True, text=True, check=False)

    assert refused.returncode == 1
    assert f"{up.address}:{port} cannot be used: Address already in use" in refused.stderr


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
