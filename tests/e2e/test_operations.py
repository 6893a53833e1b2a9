"""What the operator does to a running cluster, each operation on a real Kubernetes.

The tests of this module share one cluster and run in the order in which they stand; each leaves it
ready and active.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.installation import (
    CHANGE_TIMEOUT_S,
    NAMESPACE,
    ROOT,
    Answer,
    Installation,
    manifest,
)

if TYPE_CHECKING:
    from typing import Any

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300)

MANUAL: Final = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
NAME: Final = "ops"
MAP: Final = "/grid/rest/maps/default/"
WAIT: Final = "--timeout=90s"

# Calls the management listener from inside the member's own pod, with the pod's credentials.
MANAGEMENT_CODE: Final = """
import base64, http.client, os, sys
method, path, body = sys.argv[1:4]
user, password = os.environ["GRID_MANAGEMENT_USERNAME"], os.environ["GRID_MANAGEMENT_PASSWORD"]
token = base64.b64encode(f"{user}:{password}".encode()).decode()
connection = http.client.HTTPConnection("127.0.0.1", 5702, timeout=10)
connection.request(method, path, body.encode() or None, {"Authorization": "Basic " + token})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


class Operated(Installation):
    """One cluster that is operated on."""

    name = NAME

    def patch(self, **spec: Any) -> None:
        self.kubectl("patch", "gc", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def request(self, annotation: str, value: str) -> None:
        key = f"gridcluster.io/{annotation}={value}"
        self.kubectl("annotate", "gc", self.name, "--overwrite", key)

    def wait(self, what: str, name: str = NAME) -> None:
        """Wait as a user does: with kubectl."""
        self.kube.kubectl(
            *("-n", NAMESPACE, "wait", f"--for={what}", f"gc/{name}", WAIT), timeout_s=100
        )

    def status(self) -> dict[str, Any]:
        return dict(self.cluster(self.name)["status"])

    def handled(self, annotation: str) -> tuple[str, str]:
        """Return request id and outcome of the last request of an annotation."""
        for request in self.status().get("handledRequests", ()):
            if request["annotation"] == annotation:
                return request["request"], request["outcome"]
        return "", ""

    def wait_handled(self, annotation: str, request: str, outcome: str = "Succeeded") -> None:
        self.kube.wait_for(
            lambda: self.handled(annotation) == (request, outcome),
            CHANGE_TIMEOUT_S,
            f"request {request} of {annotation} to be {outcome}",
        )

    def ended(self, kind: str) -> list[dict[str, Any]]:
        return [o for o in self.status().get("lastOperations", ()) if o["kind"] == kind]

    def process(self) -> tuple[str, int]:
        """Return what changes when the member's process does: pod uid and restarts."""
        pod = self.get("pod", f"{self.name}-0")
        return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]

    def management(self, method: str, path: str, body: str = "") -> str:
        return self.kubectl(
            *("exec", f"{self.name}-0", "--", "python3", "-c", MANAGEMENT_CODE),
            *(method, path, body),
        ).strip()

    def put(self, key: str, value: str) -> int:
        """Write through a Service, as soon as its rules have followed the pods."""
        found: list[Answer] = []

        def answered() -> bool:
            found.append(self.http("client", "POST", MAP + key, value, host=self.name))
            return found[-1].body != ConnectionRefusedError.__name__

        self.kube.wait_for(answered, CHANGE_TIMEOUT_S)
        return found[-1].status

    def read(self, key: str, host: str = NAME) -> str:
        """Read through a Service: its rules follow the pods a moment later than conditions do."""
        found: list[str] = []

        def answered() -> bool:
            found.append(self.http("client", "GET", MAP + key, host=host).body)
            return found[-1] != ConnectionRefusedError.__name__

        self.kube.wait_for(answered, CHANGE_TIMEOUT_S)
        return found[-1]

    def events(self, reason: str) -> list[str]:
        fields = f"involvedObject.name={self.name},reason={reason}"
        return [e["message"] for e in self.get("events", "--field-selector", fields)["items"]]


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Operated:
    installation = Operated(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    installation.apply(manifest(NAME))
    installation.wait("condition=Ready")
    return installation


def test_a_state_is_brought_about_and_drift_is_reported(grid: Operated) -> None:
    grid.patch(clusterState="Frozen")
    grid.wait("condition=ClusterStateAsDesired")
    assert grid.status()["clusterState"] == "Frozen"
    assert grid.management("GET", "/grid/health/cluster-state") == '200 "FROZEN"'
    answer = grid.management("POST", "/grid/rest/management/cluster/changeState", "&&active")
    assert answer.startswith("200")
    grid.wait("condition=ClusterStateAsDesired=false")
    condition = grid.condition("ClusterStateAsDesired", NAME)
    assert condition["reason"] == "Drifted"
    assert "Active" in condition["message"]
    grid.patch(clusterStateDriftPolicy="Correct")
    grid.wait("condition=ClusterStateAsDesired")
    assert grid.management("GET", "/grid/health/cluster-state") == '200 "FROZEN"'
    grid.patch(clusterState="Active")
    grid.wait("jsonpath={.status.clusterState}=Active")
    grid.patch(clusterState=None, clusterStateDriftPolicy=None)


def test_additions_need_no_restart(grid: Operated) -> None:
    process = grid.process()
    assert grid.http("client", "POST", "/grid/rest/queues/jobs", "1", host=NAME).status == 200
    queues = [{"name": "default"}, {"name": "narrow", "maxSize": 1}]
    grid.patch(queues=queues, logging={"level": "Debug"})
    path = "/grid/rest/queues/narrow"
    grid.kube.wait_for(
        lambda: grid.http("client", "GET", path + "/size", host=NAME).body == "0",
        CHANGE_TIMEOUT_S,
    )
    grid.kube.wait_for(
        lambda: grid.management("GET", "/grid/rest/log-level") != '200 {"logLevel":null}',
        CHANGE_TIMEOUT_S,
    )
    grid.wait("condition=Progressing=false")
    assert grid.http("client", "POST", path, "1", host=NAME).status == 200
    grid.kube.wait_for(
        lambda: grid.http("client", "POST", path, "2", host=NAME).status == 503, CHANGE_TIMEOUT_S
    )
    assert grid.process() == process


def test_a_changed_setting_restarts_the_member(grid: Operated) -> None:
    process = grid.process()
    assert grid.put("kept", "precious") == 200
    grid.patch(maps=[{"name": "default", "maxIdleSeconds": 3600}])
    grid.kube.wait_for(lambda: bool(grid.ended("Restart")), CHANGE_TIMEOUT_S)
    grid.wait("condition=Ready")
    assert grid.ended("Restart")[0]["outcome"] == "Succeeded"
    assert grid.process()[0] != process[0]
    assert grid.read("kept") == "precious"


def test_a_removed_structure_keeps_its_data_and_shows(grid: Operated) -> None:
    process = grid.process()
    grid.patch(queues=[{"name": "narrow", "maxSize": 1}])
    grid.wait("condition=StructuresMatch=false")
    assert "jobs" in grid.condition("StructuresMatch", NAME)["message"]
    assert grid.process() == process
    grid.patch(queues=[{"name": "default"}, {"name": "narrow", "maxSize": 1}])
    grid.wait("condition=StructuresMatch")


def test_a_restart_is_done_once_for_each_request(grid: Operated) -> None:
    uid = grid.process()[0]
    grid.request("restart", "r1")
    grid.wait_handled("restart", "r1")
    grid.wait("condition=Ready")
    second = grid.process()[0]
    assert second != uid
    assert grid.read("kept") == "precious"
    grid.request("restart", "r1")
    grid.kubectl("label", "gc", NAME, "--overwrite", "touched=yes")
    grid.wait_quiet()
    assert grid.process()[0] == second


def test_kubectl_rollout_restart_replaces_the_member_once(grid: Operated) -> None:
    uid, drift = grid.process()[0], grid.events("DriftReverted")
    grid.kubectl("rollout", "restart", f"statefulset/{NAME}")
    grid.kube.wait_for(lambda: grid.process()[0] != uid, CHANGE_TIMEOUT_S)
    grid.wait("condition=Ready")
    grid.wait("condition=Progressing=False")
    uid = grid.process()[0]
    template = grid.get("statefulset", NAME)["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
    assert grid.ended("Restart")[0]["outcome"] == "Succeeded"
    assert grid.events("DriftReverted") == drift
    assert grid.process()[0] == uid


def test_files_leave_a_pod_as_the_manual_says(grid: Operated) -> None:
    (program,) = re.findall(r"-- python3 -c '([^']*)' /backup >", MANUAL)
    command = ("exec", f"{NAME}-0", "--", "python3", "-c", program, "/etc/grid")
    copied = subprocess.run(
        [*grid.kube.provider.kubectl, "-n", NAMESPACE, *command], check=True, capture_output=True
    )
    shown = grid.kubectl("exec", f"{NAME}-0", "--", "cat", "/etc/grid/grid.yaml")
    with tarfile.open(fileobj=io.BytesIO(copied.stdout)) as files:
        assert any(name.endswith("/grid.yaml") for name in files.getnames())
    assert shown.startswith("grid:")


def test_a_stopped_cluster_keeps_its_data_and_its_state(grid: Operated) -> None:
    grid.patch(clusterState="NoMigration")
    grid.wait("condition=ClusterStateAsDesired")
    grid.patch(runState="Stopped")
    grid.wait("condition=Stopped")
    assert grid.get("pods", "-l", f"gridcluster.io/cluster={NAME}")["items"] == []
    condition = grid.condition("Ready", NAME)
    assert (condition["status"], condition["reason"]) == ("False", "Stopped")
    grid.patch(runState="Running")
    grid.wait("condition=Ready")
    grid.kube.wait_for(lambda: grid.status()["clusterState"] == "NoMigration", CHANGE_TIMEOUT_S)
    assert grid.read("kept") == "precious"
    grid.patch(clusterState="Active")
    grid.wait("jsonpath={.status.clusterState}=Active")
    assert [o["outcome"] for o in (*grid.ended("Stop"), *grid.ended("Start"))] == ["Succeeded"] * 2


@pytest.mark.capability("signal")
def test_an_operator_killed_in_between_goes_on(grid: Operated) -> None:
    """Once is enough here: the kill between any two steps is in the unit tests."""
    grid.patch(runState="Stopped")
    grid.kube.wait_for(lambda: bool(grid.status().get("operation")), CHANGE_TIMEOUT_S)
    grid.kube.signal_pod(NAMESPACE, grid.operator_pod(), "KILL")
    grid.wait("condition=Stopped")
    grid.patch(runState="Running")
    grid.wait("condition=Ready")
    assert grid.read("kept") == "precious"
    assert grid.put("after", "all") == 200
    assert len(grid.ended("Stop")) == 2


def test_a_backup_is_made_once_for_each_request(grid: Operated) -> None:
    grid.request("backup", "b1")
    grid.wait_handled("backup", "b1")
    grid.wait("condition=BackupSucceeded")
    operations = json.loads(
        grid.management("GET", "/grid/rest/management/cluster/operations").partition(" ")[2]
    )
    made = [o for o in operations if o["stage"] == "FINISHED" and "ackup" in o["kind"].lower()]
    assert len(made) == 1
    assert grid.put("kept", "changed after the backup") == 200


def test_a_schedule_makes_backups(grid: Operated) -> None:
    backup = {"schedule": {"cron": "* * * * *", "timeZone": "Europe/Zurich"}}
    grid.patch(persistence={"backup": backup})
    grid.kube.wait_for(
        lambda: (grid.status().get("backup") or {}).get("nextScheduledTime"), CHANGE_TIMEOUT_S
    )
    grid.kube.wait_for(
        lambda: grid.status()["backup"].get("lastScheduledTime"), 2 * CHANGE_TIMEOUT_S
    )
    # On the minute, as the schedule says.
    assert grid.status()["backup"]["lastScheduledTime"].endswith(":00Z")
    grid.patch(persistence={"backup": {"schedule": None}})


def test_a_malformed_request_is_told_and_not_done(grid: Operated) -> None:
    process = grid.process()
    grid.request("force-start", "f1")
    grid.wait("condition=RequestsValid=false")
    assert "acknowledge-data-loss" in grid.condition("RequestsValid", NAME)["message"]
    grid.kube.wait_for(lambda: grid.events("InvalidRequest"), CHANGE_TIMEOUT_S)
    grid.kubectl("annotate", "gc", NAME, "gridcluster.io/force-start-")
    grid.wait("condition=RequestsValid")
    assert grid.process() == process


def test_a_backup_becomes_another_cluster(grid: Operated) -> None:
    grid.apply(manifest("copy", restoreFrom={"cluster": NAME, "backup": 1}))
    grid.wait("condition=Ready", "copy")
    assert grid.read("kept", "copy") == "precious"
    assert grid.read("after", "copy") == "all"
    assert grid.read("kept") == "changed after the backup"


def test_a_protected_cluster_is_not_deleted(grid: Operated) -> None:
    grid.patch(deletionProtection=True)

    def refusal() -> str:
        dry = ("delete", "gc", NAME, "--dry-run=server")
        return grid.kube.try_kubectl("-n", NAMESPACE, *dry).stderr

    grid.kube.wait_for(lambda: "deletionProtection" in refusal(), CHANGE_TIMEOUT_S)
    done = grid.kube.try_kubectl("-n", NAMESPACE, "delete", "gc", NAME, "--wait=false")
    assert done.returncode != 0
    assert "deletionProtection" in done.stderr
    assert "deletionTimestamp" not in grid.cluster(NAME)["metadata"]
    grid.patch(deletionProtection=False)


def test_the_source_can_go_and_the_copy_stays(grid: Operated) -> None:
    grid.kubectl("delete", "gc", NAME)
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", f"gridcluster.io/cluster={NAME}")["items"] == [],
        CHANGE_TIMEOUT_S,
    )
    claims = [c["metadata"]["name"] for c in grid.get("pvc")["items"]]
    assert {f"data-{NAME}-0", f"{NAME}-backup"} <= set(claims)
    grid.kubectl("delete", "pvc", f"data-{NAME}-0", f"{NAME}-backup", "--timeout=60s")
    assert grid.read("kept", "copy") == "precious"
    grid.kubectl("delete", "pod", "copy-0")
    grid.wait("condition=Ready", "copy")
    grid.kube.wait_for(lambda: grid.read("kept", "copy") == "precious", CHANGE_TIMEOUT_S)


def test_everything_goes_at_the_end(grid: Operated) -> None:
    grid.kubectl("delete", "gc", "copy")
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster=copy")["items"] == [],
        CHANGE_TIMEOUT_S,
    )
    grid.kubectl("delete", "pvc", "--all", "--timeout=60s")
    assert grid.get("pvc")["items"] == []
