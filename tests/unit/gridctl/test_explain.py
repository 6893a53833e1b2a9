"""`gridctl explain`: from the object alone, whatever is in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import yaml

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.bootstrap.wait_reasons import majority_wait
from grid_member.engine.integrity.damage import Copy, describe_damage, places_of
from grid_member.engine.storage.exchange import STORE
from grid_member.engine.storage.store import CLUSTER, check_directory
from grid_operator.api import conditions
from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind
from gridctl.__main__ import main
from gridctl.documents import read_clusters
from gridctl.explain import Explanation, explain, since_text
from gridctl.explain_words import ADVICE, STEPS
from gridctl.local_state import LocalState
from gridctl.manifest import ManifestError
from tests.unit.gridctl.fake_api import cluster_object, condition, finished, operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.gridctl.conftest import Console

NOW = datetime(2026, 1, 1, 0, 2, 30, tzinfo=UTC)
READY = condition("Ready", "True", "AllMembersReady", "1 of 1 members are ready")
FINE = frozenset(
    {"AllMembersReady", "UpToDate", "Valid", "Running", "Safe", "AsDesired", "NoMembers",
     "Adopted", "Matched", "Restored"}
)  # fmt: skip
"""Reasons of conditions that are as they should be."""


def told(*found: dict[str, Any], spec: dict[str, Any] | None = None, **status: Any) -> Explanation:
    cluster = cluster_object(**(spec or {}))
    cluster["status"] = {"observedGeneration": 1, "conditions": list(found), **status}
    return explain(cluster, NOW)


def test_a_ready_cluster_needs_no_words() -> None:
    idle = condition("Progressing", "False", "UpToDate")
    found = told(READY, idle, condition("ConfigValid", "True", "Valid"))
    assert found.text() == ("demo in namespace grids is Ready since 2m: 1 of 1 members are ready")


def test_why_what_next_and_what_to_do() -> None:
    found = told(
        condition("Ready", "False", "MembersNotReady", "demo-0 does not answer: cannot be reached"),
        condition("Progressing", "True", "WaitingForMembers", "demo-0 does not answer"),
    )
    assert found.headline == "demo in namespace grids is not Ready since 2m"
    told_first = "Ready is False since 2m (MembersNotReady): demo-0 does not answer: cannot be"
    assert found.why[0].startswith(told_first)
    assert any("kubectl logs -n grids" in line for line in found.do)
    assert any("goes on as soon as the members are ready" in line for line in found.next)


def test_an_operation_with_its_attempts_and_last_error() -> None:
    entry = operation(
        "Backup", "Begin", request="nightly", attempts=3, lastAttempt="2026-01-01T00:02:26Z",
        lastError="demo-0: a backup is running already",
    )  # fmt: skip
    found = told(READY, operation=entry)
    text = found.text()
    for words in (
        "Backup since 2m, request nightly (id backup-1)",
        "step Begin since 2m",
        "attempts of this step: 3, the last one 4s ago",
        "last error: demo-0: a backup is running already",
        "a member begins the backup of this moment",
    ):
        assert words in text


def test_what_ended_badly_before() -> None:
    over = finished("Stop", "Failed", message="demo-0: no answer")
    (line,) = told(READY, lastOperations=[over]).under_way
    assert line == "before that Stop failed 2m ago: demo-0: no answer"
    assert told(READY, lastOperations=[finished("Stop", "Succeeded")]).under_way == ()


def test_a_refused_request_is_told_while_its_annotation_is_there() -> None:
    cluster = cluster_object()
    handled = {"annotation": "backup", "request": "b1", "outcome": "Refused", "message": "it came"}
    cluster["status"] = {
        "observedGeneration": 1, "conditions": [READY], "handledRequests": [handled],
    }  # fmt: skip
    cluster["metadata"]["annotations"] = {"gridcluster.io/backup": "b1"}
    line = "request b1 of gridcluster.io/backup was refused: it came"
    assert explain(cluster, NOW).under_way == (line,)

    cluster["metadata"]["annotations"] = {"gridcluster.io/backup": "b2"}
    assert explain(cluster, NOW).under_way == ()


def test_a_stale_status_and_none_at_all() -> None:
    cluster = cluster_object()
    cluster["metadata"]["generation"] = 2
    assert "newest change of the spec was not seen" in explain(cluster, NOW).why[0]
    del cluster["status"]
    found = explain(cluster, NOW)
    assert found.headline == "demo in namespace grids: nothing is known of it yet"
    assert found.why == ("no operator has written a status",)
    assert "namespace grids" in found.do[0]
    cluster["spec"] = {"size": 7, "paused": "yes"}
    assert any("spec.paused" in line for line in explain(cluster, NOW).why)


@pytest.mark.parametrize("spec", [{"paused": True}, {"pausedUntil": "2026-01-01T00:03:00Z"}])
def test_a_pause_is_the_first_reason(spec: dict[str, Any]) -> None:
    found = told(condition("Ready", "False", "MembersNotReady", "x"), spec=spec)
    assert found.why[0].startswith(f"spec.{next(iter(spec))}")
    assert not told(READY, spec={"pausedUntil": "2026-01-01T00:02:00Z"}).why


def test_damaged_data_names_the_annotation_and_the_uid() -> None:
    member = {"pod": "demo-0", "nodeState": "Unknown", "ready": False}
    message = "demo-0 is not ready: it waits: the log in /data is foreign or damaged: x"
    found = told(condition("Ready", "False", "MembersNotReady", message), members=[member])
    (line,) = [line for line in found.do if "partial-start" in line]
    assert "acknowledge-data-loss=uid-demo" in line


def test_the_next_step_is_told_of_several_members_too() -> None:
    waits = condition("Progressing", "True", "WaitingForSafety", "demo-2 is to leave")
    assert any("or the member leaves" in line for line in told(READY, waits).next)
    importing = condition("Restored", "False", "Restoring", "imported by demo-0")
    assert any("all of it is imported" in line for line in told(READY, importing).next)
    for kind, words in (("PartialStart", "several go on"), ("ForceStart", "members delete")):
        found = told(READY, operation=operation(kind, "Call")).next
        assert any(words in line for line in found)
        found = told(READY, operation=operation(kind, "AwaitReady")).next
        assert "all members have to become ready" in found


WAITING = "demo-0 is not ready yet: it waits: "
NO_MAJORITY = f"{WAITING}{majority_wait(Mock(directory='/data'))}"
COPIES = [Copy("m0-0123abcd-0123ab", missing=2, is_waiting=False, copies=1, last=4)]
DAMAGED_LOG = f"{WAITING}{describe_damage(places_of({'shard-1': COPIES}, {}, {}), 'm0', None)}"


def told_of(message: str, **more: Any) -> tuple[str, ...]:
    """Return what can be done about three members of which one says that."""
    members = [{"pod": "demo-0", "nodeState": "Unknown", "ready": False}]
    spec = {"size": 3, "persistence": {"enabled": more.pop("stored", True)}}
    unready = condition("Ready", "False", "MembersNotReady", message)
    return told(unready, members=members, spec=spec, **more).do


def test_damaged_copies_of_several_are_no_reason_for_a_partial_start() -> None:
    """Members refuse it while all are there."""
    (line,) = [line for line in told_of(DAMAGED_LOG) if "damaged" in line]
    assert "acknowledge-data-loss" not in "".join(told_of(DAMAGED_LOG))
    assert "no partial or forced start helps" in line
    assert "kubectl delete pvc -n grids data-demo-N" in line
    assert "gridctl restore NEW --from demo" in line


def test_a_majority_of_disks_that_is_lost_names_the_annotations_last() -> None:
    (line,) = [line for line in told_of(NO_MAJORITY) if "partial-start" in line]
    assert line.startswith("let the other members run")
    assert "gridcluster.io/partial-start=ID,acknowledge-data-loss=uid-demo" in line
    assert "gridcluster.io/force-start=ID,acknowledge-data-loss=uid-demo" in line
    assert line in told_of(f"{NO_MAJORITY}; {DAMAGED_LOG}")
    assert not any("let the other members run" in line for line in told_of(DAMAGED_LOG))


def test_what_was_lost_in_memory_is_asked_for_by_no_annotation() -> None:
    lines = told_of(f"{WAITING}{majority_wait(Mock(directory=None))}", stored=False)
    assert any("do not delete the pods of those that are left" in line for line in lines)
    assert "acknowledge-data-loss" not in "".join(lines)


@pytest.mark.parametrize(
    ("kind", "step", "advised"),
    [("Start", "AwaitReady", True), ("PartialStart", "Call", False), ("ForceStart", "Call", False)],
)
def test_who_waits_during_a_start_is_told_what_to_do(kind: str, step: str, advised: bool) -> None:
    """A Start has no limit, and gives way to the request."""
    lines = told_of(NO_MAJORITY, operation=operation(kind, step))
    assert any("acknowledge-data-loss" in line for line in lines) is advised


def test_the_member_that_is_not_ready_is_the_one_to_look_at() -> None:
    members = [
        {"pod": "demo-0", "nodeState": "Active", "ready": True},
        {"pod": "demo-1", "nodeState": "Unknown", "ready": False},
    ]
    unready = condition("Ready", "False", "MembersNotReady", "demo-1 is not ready yet")
    assert any("kubectl logs -n grids demo-1" in line for line in told(unready, members=members).do)
    assert any("kubectl logs -n grids demo-0" in line for line in told(unready).do)
    members[0]["ready"] = False
    replaced = operation("Restart", "AwaitReady", target="demo-1")
    found = told(unready, members=members, operation=replaced)
    assert any("kubectl logs -n grids demo-1" in line for line in found.do), "it was taken away"


def test_a_pod_that_is_not_made_is_looked_for_at_its_statefulset() -> None:
    absent = condition("Ready", "False", "MembersNotReady", "demo-0 does not exist yet")
    waits = condition("Progressing", "True", "WaitingForMembers", "demo-0 does not exist yet")
    blocked = condition("Progressing", "False", "NameTaken", "ConfigMap demo-config exists")
    words = "kubectl describe statefulset -n grids demo"
    assert any(words in line for line in told(absent, waits).do)
    assert not any(words in line for line in told(absent, blocked).do), "there is none yet"


@pytest.mark.parametrize("reason", ["ApiRefused", "NameTaken"])
def test_what_is_refused_is_told_of_a_ready_cluster_too(reason: str) -> None:
    message = "persistentvolumeclaims demo-backup cannot grow"
    found = told(READY, condition("Progressing", "False", reason, message))
    assert message in found.why[0]
    assert len(found.do) == 1, "no pod waits for it"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("pod has unbound immediate PersistentVolumeClaims", "kubectl describe pvc -n grids"),
        ('persistentvolumeclaim "gone-backup" not found', "kubectl describe pvc -n grids"),
        ("container member: ImagePullBackOff", "correct spec.image"),
        ("container member: ErrImagePull", "correct spec.image"),
        ('pods "demo-0" is forbidden: every pod must carry the label team', "spec.pod"),
        ('admission webhook "w" denied the request: no', "change the webhook"),
        ("Events say why, and the operator may not list them", "get events -n grids"),
        ("is being deleted since T, and its finalizer a/b holds it", "metadata.finalizers"),
        ("should have been gone at T: look whether node n1 works", "/out-of-service="),
        ("has failed: Evicted: the node was low on memory", "spec.pod.resources"),
        ("cannot be scheduled: 1 Insufficient memory", "spec.pod.resources.requests"),
        ("container member: CrashLoopBackOff", "kubectl logs -n grids demo-0 --previous"),
        ("container member: CreateContainerConfigError", "kubectl describe pod -n grids demo-0"),
    ],
)
def test_what_kubernetes_says_of_a_pod_tells_what_to_do(message: str, words: str) -> None:
    unready = condition("Ready", "False", "MembersNotReady", f"demo-0 {message}")
    assert any(words in line for line in told(unready).do)
    copying = condition("Progressing", "True", "Restore", f"Copy: pod demo-restore-x {message}")
    assert any(words in line for line in told(copying, operation=operation("Restore", "Copy")).do)


def start_failure(directory: Path, made: str, check: Callable[[Path], object]) -> str:
    """Return what a pod shows of a member that finds data of another kind on its volume."""
    (directory / made).mkdir()
    with pytest.raises(EngineError) as caught:
        check(directory)
    return f"container member: CrashLoopBackOff; it ended with code 3 before: {caught.value}"


def test_several_on_the_volume_of_a_single_member_and_the_other_way_round(tmp_path: Path) -> None:
    """Whose claim it is the operator cannot know: only that there is one."""
    alone, several = tmp_path / "alone", tmp_path / "several"
    for directory in (alone, several):
        directory.mkdir()
    opened = partial(open_identity, cluster_name="dev", member_name="demo-0")
    ended = start_failure(alone, STORE, opened)
    (line,) = [line for line in told_of(f"demo-0 {ended}") if "claim data-demo-0 is of" in line]
    assert "create it again with size 1" in line
    assert "gridctl backup demo, and gridctl restore NEW --from demo" in line
    assert "kubectl delete pvc -n grids data-demo-0" in line
    ended = start_failure(several, CLUSTER, check_directory)
    (line,) = [line for line in told_of(f"demo-0 {ended}") if "claim data-demo-0 is of" in line]
    assert "create it again with the size that it had" in line
    assert "deletionPolicy Retain" in line


def test_conditions_that_are_told_of_a_ready_cluster_too() -> None:
    retained = condition("StructuresMatch", "False", "Retained", "map old")
    safe = condition("SafeToDisrupt", "False", "Unsafe", "demo-0 says so")
    assert len(told(READY, retained, safe).why) == 1
    assert "map old" in told(READY, retained).why[0]
    assert len(told(READY, safe, operation=operation("Restart", "DeletePod")).why) == 1
    admitted = condition("ChildrenMatch", "False", "Admitted", "StatefulSet demo: spec.replicas")
    assert "StatefulSet demo: spec.replicas" in told(READY, admitted).why[0]
    outdated = condition("DefinitionMatches", "False", "Outdated", "drops status.observedUid")
    assert "drops status.observedUid" in told(READY, outdated).why[0]
    assert "kubectl apply -f crds/gridcluster.yaml" in told(READY, outdated).do[0]


def test_every_reason_has_advice() -> None:
    enums = [
        found
        for name, found in vars(conditions).items()
        if name.endswith("Reason") and isinstance(found, type) and issubclass(found, StrEnum)
    ]
    assert enums
    reasons = {reason.value for found in enums for reason in found}
    assert reasons - FINE - set(ADVICE) == set(), "without advice"


def test_every_step_of_every_kind_is_one_that_exists() -> None:
    assert {kind for kind, _ in STEPS} == set(OperationKind)
    used = {step for _, step in STEPS} | {Step.FINISH, Step.GIVE_UP}
    assert used == set(Step)


@pytest.mark.parametrize("step", [*Step, "FromLater"])
@pytest.mark.parametrize("kind", list(OperationKind))
def test_any_operation_can_be_told(kind: OperationKind, step: str) -> None:
    assert kind.value in told(READY, operation=operation(kind.value, str(step))).text()


def test_how_long_ago() -> None:
    assert since_text("2026-01-01T00:02:29Z", NOW) == "1s"
    assert since_text("2025-12-30T00:00:00Z", NOW) == "2d"
    assert since_text("2027-01-01T00:00:00Z", NOW) == "0s"
    assert since_text(None, NOW) == since_text("x", NOW) == "an unknown time"


def documents(path: Path) -> list[Any]:
    with path.open("rb") as stream:
        return read_clusters(stream, "f")


def test_yaml_json_lists_and_unquoted_times(tmp_path: Path) -> None:
    cluster = cluster_object()
    path = tmp_path / "f"
    path.write_text(json.dumps({"kind": "List", "items": [cluster, {"kind": "Pod"}]}))
    assert documents(path) == [cluster]
    path.write_text(yaml.safe_dump_all([cluster, None, cluster]))
    assert documents(path) == [cluster] * 2
    path.write_text(yaml.safe_dump(cluster).replace("'", ""))
    (found,) = documents(path)
    assert found["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00+00:00"
    for text in ("", "a: [", "7", "kind: Pod", "\x00", "kind: GridCluster", "- 1"):
        path.write_text(text)
        with pytest.raises(ManifestError):
            documents(path)


def test_a_file_offline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = cluster_object()
    cluster["status"]["conditions"] = [READY]
    path = tmp_path / "gc.yaml"
    path.write_text(yaml.safe_dump(cluster))
    assert main(["explain", "-f", str(path)]) == 0
    assert "demo in namespace grids is Ready" in capsys.readouterr().out
    assert main(["explain", "-f", str(path), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert set(found) == {"headline", "why", "underWay", "next", "do"}
    assert main(["explain", "-f", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


async def test_a_live_cluster_by_name(console: Console) -> None:
    live = console.api.add(cluster_object())
    live["status"]["conditions"] = [READY]
    shown = await console.run("explain", "demo")
    assert (shown.code, "is Ready" in shown.out) == (0, True)


def test_a_local_cluster_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = LocalState.of(tmp_path, "default", "demo")
    lock = state.acquire()
    cluster = cluster_object()
    cluster["metadata"]["namespace"] = "default"
    state.write(cluster)
    assert main(["explain", "demo", "--data-dir", str(tmp_path)]) == 0
    lock.close()
    assert "demo in namespace default" in capsys.readouterr().out


def test_a_secret_in_the_spec_is_not_told() -> None:
    env = [{"name": "TOKEN", "value": "topsecret"}]
    found = told(condition("Ready", "False", "MembersNotReady", "x"), spec={"pod": {"env": env}})
    assert "topsecret" not in found.text()


def test_what_an_operation_waits_for_is_told_once() -> None:
    message = "AwaitFinish x: demo-0 says IN_PROGRESS, 40 %"
    entry = operation("Backup", "AwaitFinish")
    found = told(READY, condition("Progressing", "True", "Backup", message), operation=entry)
    assert found.text().count("40 %") == 1
    assert f"step AwaitFinish since 2m: {message}" in found.under_way
    held = condition("Progressing", "True", "Paused", "spec.paused is true; Backup stays")
    assert "Backup stays" in told(READY, held, operation=entry).text()


def test_a_backup_that_failed_is_told_of_a_ready_cluster() -> None:
    failed = condition("BackupSucceeded", "False", "Failed", "demo-0: the disk is full")
    found = told(READY, failed)
    assert "the disk is full" in found.why[0]
    assert any("gridctl backup demo -n grids" in line for line in found.do)
