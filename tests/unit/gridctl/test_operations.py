"""Commands that ask the operator for something, against an API server over HTTP."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest

from gridctl import waiting
from gridctl.__main__ import main
from gridctl.waiting import NoProgress, TerminalProgress, progress_on
from tests.unit.gridctl.fake_api import cluster_object, condition, finished, operation

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from tests.unit.gridctl.conftest import Console

PERSISTENT = {"persistence": {"enabled": True, "backup": {"volume": {}}}}
BACKUP = "gridcluster.io/backup"


def requested(cluster: KubeObject, name: str = BACKUP) -> str:
    return str(cluster["metadata"]["annotations"][name])


def step(**status: Any) -> Any:
    """Return a step of the operator that sets fields of the status."""

    def take(cluster: KubeObject) -> None:
        found = cluster.setdefault("status", {})
        found["observedGeneration"] = cluster["metadata"]["generation"]
        for key, value in status.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value

    return take


def backup_step(annotation: str = BACKUP, **more: Any) -> Any:
    def take(cluster: KubeObject) -> None:
        entry = operation("Backup", "AwaitFinish", request=requested(cluster, annotation), **more)
        step(operation=entry)(cluster)

    return take


def backup_end(outcome: str, message: str = "") -> Any:
    def take(cluster: KubeObject) -> None:
        over = finished("Backup", outcome, request=requested(cluster), message=message)
        step(operation=None, lastOperations=[over])(cluster)

    return take


@pytest.mark.parametrize(("outcome", "code"), [("Succeeded", 0), ("Failed", 1), ("Interrupted", 1)])
async def test_a_backup_ends_as_its_operation(console: Console, outcome: str, code: int) -> None:
    console.api.add(cluster_object(**PERSISTENT))
    message = "" if code == 0 else "the disk is full"
    console.api.script = [step(), backup_step(), step(), backup_end(outcome, message)]
    shown = await console.run("backup", "demo", "--wait")
    assert shown.code == code
    text = shown.out if code == 0 else shown.err
    assert f"Backup {outcome.lower()}" in text
    assert message in text
    assert (shown.err if code == 0 else shown.out) == "", "no progress when no terminal reads it"
    assert console.api.writes == ["patch demo"]


async def test_each_backup_has_a_request_of_its_own(console: Console) -> None:
    live = console.api.add(cluster_object(**PERSISTENT))
    ids = []
    for _ in range(3):
        shown = await console.run("backup", "demo")
        assert shown.code == 0
        live = console.api.clusters["demo"]
        ids.append(requested(live))
        assert ids[-1] in shown.out
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,63}", ids[-1])
        live["status"]["handledRequests"] = [
            {"annotation": "backup", "request": ids[-1], "outcome": "Succeeded"}
        ]
    assert len(set(ids)) == 3


async def test_an_interrupt_is_another_annotation(console: Console) -> None:
    console.api.add(cluster_object(**PERSISTENT))
    assert (await console.run("backup", "demo", "--interrupt")).code == 0
    annotations = console.api.clusters["demo"]["metadata"]["annotations"]
    assert list(annotations) == ["gridcluster.io/backup-interrupt"]


async def test_a_request_that_is_handled_without_an_operation(console: Console) -> None:
    console.api.add(cluster_object(**PERSISTENT))

    def refuse(cluster: KubeObject) -> None:
        handled = {"annotation": "backup", "request": requested(cluster), "message": "not now"}
        step(handledRequests=[{**handled, "outcome": "Refused"}])(cluster)

    console.api.script = [step(), refuse]
    shown = await console.run("backup", "demo", "--wait")
    assert (shown.code, "not now" in shown.err) == (1, True)


async def test_a_request_that_another_one_replaces(console: Console) -> None:
    console.api.add(cluster_object(**PERSISTENT))

    def replace(cluster: KubeObject) -> None:
        cluster["metadata"]["annotations"][BACKUP] = "other"

    console.api.script = [step(), replace]
    shown = await console.run("backup", "demo", "--wait")
    assert (shown.code, "another backup request took its place" in shown.err) == (1, True)


async def test_a_request_that_waits_is_not_replaced(console: Console) -> None:
    live = console.api.add(cluster_object(**PERSISTENT))
    live["metadata"]["annotations"] = {BACKUP: "nightly"}
    shown = await console.run("backup", "demo")
    assert (shown.code, "the request nightly" in shown.err) == (1, True)
    assert console.api.writes == []
    live["status"]["operation"] = operation("Backup", "AwaitFinish", request="nightly")
    assert (await console.run("backup", "demo")).code == 0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.persistence.backup is not set"),
        ({**PERSISTENT, "paused": True}, "spec.paused is true"),
        ({**PERSISTENT, "pausedUntil": "2999-01-01T00:00:00Z"}, "2999-01-01"),
        ({**PERSISTENT, "runState": "Stopped"}, "gridctl start"),
    ],
)
async def test_a_backup_that_would_come_to_nothing(
    console: Console, spec: dict[str, Any], words: str
) -> None:
    console.api.add(cluster_object(**spec))
    shown = await console.run("backup", "demo", "--wait")
    assert (shown.code, shown.out, words in shown.err) == (1, "", True)
    assert console.api.writes == []


async def test_a_restart_is_followed_to_its_end(console: Console) -> None:
    console.api.add(cluster_object())

    def end(cluster: KubeObject) -> None:
        request = requested(cluster, "gridcluster.io/restart")
        step(lastOperations=[finished("Restart", "Succeeded", request=request)])(cluster)

    console.api.script = [step(), end]
    shown = await console.run("restart", "demo")
    assert (shown.code, shown.out) == (0, "Restart succeeded\n")


async def test_stop_waits_until_nothing_runs(console: Console) -> None:
    console.api.add(cluster_object())
    console.api.script = [
        lambda _: None,
        step(operation=operation("Stop", "ScaleDown")),
        step(operation=None, stopped=True),
    ]
    shown = await console.run("stop", "demo")
    assert (shown.code, shown.out) == (0, "demo is stopped; what it has on disk is kept\n")
    assert console.api.clusters["demo"]["spec"] == {"runState": "Stopped"}
    assert console.api.script == []


async def test_a_stop_that_was_done_before_is_a_success(console: Console) -> None:
    live = console.api.add(cluster_object(runState="Stopped"))
    live["status"]["stopped"] = True
    assert (await console.run("stop", "demo")).code == 0


async def test_start_waits_until_it_is_ready(console: Console) -> None:
    live = console.api.add(cluster_object(runState="Stopped"))
    live["status"] |= {"stopped": True, "conditions": [condition("Ready", "False", "Stopped")]}
    ready = [condition("Ready", "True", "AllMembersReady")]
    console.api.script = [
        step(operation=operation("Start", "AwaitReady"), stopped=False),
        step(conditions=ready),
        step(operation=None),
    ]
    shown = await console.run("start", "demo")
    assert (shown.code, shown.out) == (0, "demo is Ready\n")
    assert console.api.script == []


async def test_set_state_waits_until_the_members_show_it(console: Console) -> None:
    live = console.api.add(cluster_object(clusterState="Active"))
    live["status"] |= {"clusterState": "Active", "appliedClusterState": "Active"}
    console.api.script = [
        step(operation=operation("ChangeState", "Call", attempts=2, lastError="busy")),
        step(operation=None, clusterState="NoMigration", appliedClusterState="NoMigration"),
    ]
    shown = await console.run("set-state", "demo", "no_migration")
    assert (shown.code, shown.out) == (0, "demo is NoMigration\n")
    assert console.api.clusters["demo"]["spec"] == {"clusterState": "NoMigration"}


async def test_an_operation_that_fails_after_the_change_is_the_end(console: Console) -> None:
    live = console.api.add(cluster_object())
    before = finished("ChangeState", "Failed", message="an old failure")
    live["status"]["lastOperations"] = [before]
    new = {**finished("ChangeState", "Failed", message="demo-0: refused"), "id": "changestate-2"}
    console.api.script = [step(), step(lastOperations=[new, before])]
    shown = await console.run("set-state", "demo", "Frozen")
    assert (shown.code, "ChangeState failed: demo-0: refused" in shown.err) == (1, True)
    assert "an old failure" not in shown.err


async def test_drift_is_not_waited_for(console: Console) -> None:
    live = console.api.add(cluster_object(clusterState="Active"))
    live["status"] |= {"clusterState": "Frozen", "appliedClusterState": "Active"}
    shown = await console.run("set-state", "demo", "Active")
    assert (shown.code, "clusterStateDriftPolicy" in shown.err) == (1, True)
    assert console.api.writes == []


async def test_a_stopped_cluster_has_no_state_to_wait_for(console: Console) -> None:
    console.api.add(cluster_object(runState="Stopped"))
    shown = await console.run("set-state", "demo", "Frozen")
    assert (shown.code, "gridctl start" in shown.err) == (1, True)
    assert console.api.writes == []


async def test_a_spec_that_cannot_work_and_a_pause_are_not_waited_for(console: Console) -> None:
    console.api.add(cluster_object())
    invalid = [condition("ConfigValid", "False", "InvalidLabel", "spec.pod.labels: bad")]
    console.api.script = [step(), step(conditions=invalid)]
    shown = await console.run("stop", "demo")
    assert (shown.code, "InvalidLabel: spec.pod.labels: bad" in shown.err) == (1, True)
    console.api.add(cluster_object(paused=True))
    shown = await console.run("stop", "demo")
    assert (shown.code, "the spec is changed, but spec.paused is true" in shown.err) == (1, True)


async def test_no_wait_only_tells(console: Console) -> None:
    console.api.add(cluster_object())
    shown = await console.run("stop", "demo", "--no-wait")
    assert (shown.code, "gridctl explain demo" in shown.out) == (0, True)


async def test_the_time_is_over(console: Console) -> None:
    console.api.add(cluster_object())
    shown = await console.run("stop", "demo", "--timeout", "0.05")
    assert shown.code == 1
    assert "not ended within 0.05 s, and the operator goes on" in shown.err
    assert "has not seen the change" in shown.err


async def test_a_cluster_that_is_deleted_meanwhile(console: Console) -> None:
    console.api.add(cluster_object())
    console.api.script = [step(), lambda _: console.api.clusters.clear()]
    shown = await console.run("stop", "demo")
    assert (shown.code, "deleted meanwhile" in shown.err) == (1, True)


async def test_somebody_else_writes_in_between(console: Console) -> None:
    console.api.add(cluster_object())
    times = [console.api.touch] * 3

    def touch_first() -> None:
        if times:
            times.pop()()

    console.api.before_patch = touch_first
    assert (await console.run("stop", "demo", "--no-wait")).code == 0
    times += [console.api.touch] * 50
    shown = await console.run("stop", "demo", "--no-wait")
    assert (shown.code, "has been modified" in shown.err) == (1, True)


async def test_an_api_server_that_fails_for_a_while_is_asked_again(console: Console) -> None:
    console.api.add(cluster_object())

    def fails_from_now_on(_: KubeObject) -> None:
        console.api.failures = [503, 500, 429]

    console.api.script = [step(), fails_from_now_on, step(stopped=True)]
    assert (await console.run("stop", "demo")).code == 0
    assert console.api.failures == []


@pytest.mark.parametrize(
    "arguments",
    [("backup", "none"), ("stop", "none"), ("explain", "none"), ("restore", "a", "--from", "none")],
)
async def test_a_cluster_that_is_not_there(console: Console, arguments: tuple[str, ...]) -> None:
    shown = await console.run(*arguments)
    assert (shown.code, shown.out) == (1, "")
    assert "there is no GridCluster none in namespace grids" in shown.err


async def test_the_namespace_is_that_of_the_command_line_first(console: Console) -> None:
    console.api.add(cluster_object())
    shown = await console.run("stop", "demo", "-n", "elsewhere")
    assert (shown.code, "in namespace elsewhere" in shown.err) == (1, True)


async def test_a_status_of_a_newer_operator_is_named(console: Console) -> None:
    live = console.api.add(cluster_object(**PERSISTENT))
    live["status"]["operation"] = operation("Teleport", "Begin")
    shown = await console.run("backup", "demo", "--wait")
    assert (shown.code, "status.operation.kind: not understood" in shown.err) == (1, True)


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    assert isinstance(progress_on(terminal), TerminalProgress)
    assert isinstance(progress_on(io.StringIO()), NoProgress)
    progress = TerminalProgress(terminal)
    for text in ("one", "one", "two\nlines " + "x" * 500):
        progress.show(text)
    progress.clear()
    progress.clear()
    shown = terminal.getvalue()
    assert shown.count(waiting.ERASE_LINE) == 3
    assert "\n" not in shown
    assert "x" * 121 not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        *(["stop"], ["set-state", "demo"], ["set-state", "demo", "asleep"], ["explain"], ["plan"]),
        *(["restore", "new"], ["restore", "new", "--from", "a", "--backup", "0"], ["back"]),
        *(["stop", "demo", "--timeout", "0"], ["restore", "n", "--from", "a", "-f", "b"]),
    ],
)
def test_a_wrong_command_line_exits_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: gridctl")


async def test_a_request_before_the_first_look_of_an_operator_is_not_put(console: Console) -> None:
    live = console.api.add(cluster_object(**PERSISTENT))
    live["status"] = {}
    shown = await console.run("backup", "demo")
    assert (shown.code, "no operator has seen this GridCluster yet" in shown.err) == (1, True)
    assert console.api.writes == []
