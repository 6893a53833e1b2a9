"""Volumes of a spec: what is kept, backed up, restored and given up, by a member that runs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.local.program import LocalHost, program_of
from grid_operator.render import render_children
from tests.unit.engine.backed_up import damage_log
from tests.unit.gridctl.running import until
from tests.unit.operator.api.clusters import CONTEXT
from tests.unit.operator.fields.pods import Rendered
from tests.unit.operator.render.restoring import COPYING, restoring_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.operator.fields.pods import RunningPod

DATA: dict[str, Any] = {
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "maps": [{"name": "default"}],
    "queues": [{"name": "default"}],
}
WAITS = "the member waits for forceStart or partialStart"
ENDED_S = 20


def kept(**persistence: Any) -> dict[str, Any]:
    return {**DATA, "persistence": {"enabled": True, **persistence}}


@pytest.mark.parametrize("enabled", [True, False])
def test_data_outlives_the_process_or_not(pod: RunningPod, enabled: bool) -> None:
    spec = {**DATA, "persistence": {"enabled": enabled}}
    pod.start(spec).put("a")

    pod.start(spec)

    assert pod.get("a") == (b"x" if enabled else None)


@pytest.mark.parametrize(
    ("backup", "claim"), [({"volume": {}}, "demo-backup"), ({"claimName": "shared"}, "shared")]
)
def test_backups_are_on_the_claim_that_is_named(
    pod: RunningPod, backup: dict[str, Any], claim: str
) -> None:
    pod.start(kept(backup=backup))

    assert pod.manage("backup", "dev&")["status"] == "success"

    place = pod.directory / "data" / "default" / ".claims" / claim / "demo-0"
    until(lambda: (place / "backup-1").is_dir(), "no backup")


def damaged(pod: RunningPod) -> None:
    """Leave a store that cannot be read in one place."""
    pod.start(kept())
    for number in range(20):
        assert pod.call("rest/queues/default", b"item %d" % number)[0] == 200
    pod.kill()
    damage_log(next((pod.directory / "data").rglob("shard-0")), b"item 12")


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        ("FullRecoveryOnly", False),
        ("PartialRecoveryMostRecent", True),
        ("PartialRecoveryMostComplete", True),
    ],
)
def test_the_policy_says_whether_part_of_the_data_is_enough(
    pod: RunningPod, policy: str, starts: bool
) -> None:
    damaged(pod)
    pod.start(kept(recoveryPolicy=policy), ready=False)
    until(lambda: WAITS in pod.text(), "it does not wait")

    answer = pod.manage("partialStart", "dev&")

    assert answer["status"] == ("success" if starts else "fail")
    if starts:
        until(pod.is_ready, "not ready")
        assert int(pod.call("rest/queues/default/size")[1]) > 0


def test_a_member_waits_no_longer_than_the_timeout(pod: RunningPod) -> None:
    damaged(pod)
    pod.start(kept(validationTimeoutSeconds=1), ready=False)
    assert pod.process is not None

    assert pod.process.wait(ENDED_S) != 0
    assert WAITS in pod.text()


def restore(pod: RunningPod, directory: Path, **source: Any) -> RunningPod:
    """Fill the volume in another directory from the pod's claims; return a pod that uses it."""
    cluster = restoring_cluster(source, COPYING)
    job = next(c for c in render_children(cluster, CONTEXT) if c["kind"] == "Job")
    template = job["spec"]["template"]
    runs = {**template, "metadata": {"name": "demo-restore", "namespace": "default"}}
    host = LocalHost(directory / "data", directory / "run", {}, print)
    claims = pod.directory / "data" / "default" / ".claims"
    (directory / "data" / "default").mkdir(parents=True)
    (directory / "data" / "default" / ".claims").symlink_to(claims)
    program = program_of(runs, Rendered({}, {}), host, {})
    program.write_files()
    done = subprocess.run(
        program.argv, env=dict(program.env), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return type(pod)(directory).start(kept())


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"cluster": "demo"}, b"second"),
        ({"cluster": "demo", "backup": 1}, b"first"),
        ({"claimName": "demo-backup", "member": "demo-0", "backup": 2}, b"second"),
        ({"claimName": "demo-backup", "member": "demo-7"}, b"other"),
    ],
)
def test_data_begins_as_the_backup_that_is_named(
    pod: RunningPod, tmp_path: Path, source: dict[str, Any], value: bytes
) -> None:
    claim = pod.directory / "data" / "default" / ".claims" / "demo-backup"
    pod.start(kept(backup={"volume": {}}))
    for number, text in enumerate((b"first", b"second", b"other"), 1):
        pod.put("a", text)
        assert pod.manage("backup", "dev&")["status"] == "success"
        place = claim / "demo-0" / f"backup-{number}"
        until(place.is_dir, "no backup")
    (claim / "demo-7").mkdir()
    (claim / "demo-0" / "backup-3").rename(claim / "demo-7" / "backup-1")
    pod.kill()

    copy = restore(pod, tmp_path / "copy", **source)

    try:
        assert copy.get("a") == value
    finally:
        copy.kill()
