from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gridctl.__main__ import main
from gridctl.columns import age_text, cluster_row, problem_lines, table
from gridctl.local_state import AlreadyRunningError, LocalState
from gridctl.manifest import ManifestError, read_manifest
from gridctl.up import inherited
from tests.unit.gridctl.fake_api import cluster_object, condition, operation

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = "apiVersion: gridcluster.io/v1alpha1\nkind: GridCluster\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "metadata: {name: demo}\nspec: {size: 10}\n", "spec: size above 9"),
        (HEAD + "metadata: {name: demo}\nspec: {size: one}\n", "spec.size"),
        (HEAD + "metadata: {name: demo}\nspec: {sizes: 1}\n", "spec.sizes"),
        (HEAD + "metadata: {name: Demo}\n", "metadata.name"),
        (HEAD, "metadata: a mapping"),
        ("kind: Pod\n", "expected apiVersion"),
        ("a: [", "grid.yaml"),
        (HEAD + "metadata: {name: a}\n---\n" + HEAD, "exactly one object"),
        ("", "exactly one object"),
    ],
)
def test_an_unusable_file_names_the_field_and_exits_2(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    assert main(["up", "-f", str(path), "--data-dir", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ['a:\n  b: "hunter2\n  c: 1\n', "a:\n  b: *hunter2\n", "a:\n  b: !hunter2 x\n"]
)
def test_a_file_that_is_no_yaml_is_not_quoted(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    commands = (["up", "-f", str(path), "--data-dir", str(tmp_path)], ["explain", "-f", str(path)])
    for command in commands:
        assert main(command) == 2
        shown = capsys.readouterr().err
        assert "is no YAML at line" in shown
        assert "hunter2" not in shown


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        read_manifest(tmp_path / "none.yaml")


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "metadata: {name: demo}\nspec: {size: one, paused: 3}\n")
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert len(str(caught.value).splitlines()) == 2


def test_the_namespace_has_a_default(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, HEAD + "metadata: {name: demo}\n"))
    assert manifest["metadata"] == {"name": "demo", "namespace": "default"}


def test_status_without_a_cluster_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--data-dir", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "no cluster is running" in told
    assert str(tmp_path) in told


def test_status_of_an_unusable_kubeconfig_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "Kubernetes configuration" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    file = write(tmp_path, (HEAD + "metadata: {name: demo}\n---\n") * 400)
    command = [sys.executable, "-m", "gridctl", "explain", "-f", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_only_a_loopback_address_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["up", "-f", "x", "--address", "192.0.2.1", "--data-dir", str(tmp_path)])
    assert caught.value.code == 2


def test_state_is_seen_only_while_the_lock_is_held(tmp_path: Path) -> None:
    state = LocalState.of(tmp_path, "default", "demo")
    lock = state.acquire()
    assert state.read_running() is None
    state.write({"kind": "GridCluster"})
    assert state.read_running() == {"kind": "GridCluster"}
    assert LocalState.all_in(tmp_path) == [state]
    with pytest.raises(AlreadyRunningError):
        state.acquire()
    lock.close()
    assert state.read_running() is None


def test_columns_are_those_of_kubectl() -> None:
    cluster = {
        "metadata": {
            "namespace": "n",
            "name": "demo",
            "creationTimestamp": "2025-12-31T23:00:00Z",
        },
        "spec": {},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "MembersNotReady",
                    "message": "demo-0 starts",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "clusterState": "Active",
            "clusterVersion": "0.1",
        },
    }
    row = cluster_row(cluster, NOW)
    assert row == ("n", "demo", "1", "False", "Active", "0.1", "60m")
    lines = table([row]).splitlines()
    assert [line.index(cell) for line, cell in zip(lines, ("READY", "False"), strict=True)] == [
        lines[0].index("READY")
    ] * 2
    assert problem_lines(cluster) == ["n/demo: Ready is False (MembersNotReady): demo-0 starts"]


def test_problems_are_those_of_a_cluster_that_is_not_ready_and_what_is_done() -> None:
    cluster = cluster_object()
    waits = condition("Progressing", "True", "Start", "AwaitReady: demo-0 starts")
    fine = condition("ConfigValid", "True", "Valid")
    cluster["status"]["conditions"] = [condition("Ready", "False", "Stopped", "x"), fine, waits]
    cluster["status"]["operation"] = operation("Start", "AwaitReady")
    assert problem_lines(cluster) == [
        "grids/demo: Ready is False (Stopped): x",
        "grids/demo: Start: AwaitReady: demo-0 starts",
    ]
    cluster["status"]["conditions"][0] = condition("Ready", "True", "AllMembersReady")
    assert problem_lines(cluster) == []


@pytest.mark.parametrize(
    ("age", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d")]
)
def test_age_is_in_the_largest_unit_of_which_there_are_two(age: int, text: str) -> None:
    created = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert age_text(created, NOW) == text


def test_members_inherit_nothing_that_configures_or_identifies() -> None:
    assert inherited({"PATH": "/bin", "GRID_BIND_ADDRESS": "0.0.0.0", "API_TOKEN": "x"}) == {
        "PATH": "/bin"
    }


def test_members_run_from_their_sources_when_gridctl_is_told_so() -> None:
    assert inherited({"GRID_COMPILED": "off"}) == {"GRID_COMPILED": "off"}
