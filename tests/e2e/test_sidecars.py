"""Policies that add a container to every pod of a cluster, and that forbid pods without a label.

The tests of this module share one cluster and run in the order in which they stand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, POD, READY_TIMEOUT_S, manifest
from tests.e2e.test_operations import Operated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300)

POLICY_LABEL: Final = "policies"
"""Of the namespace: with the value `on` both policies hold in it."""
HOLD: Final = "example.com/hold"
DENIAL: Final = "every pod must carry the label team"
LABELLED: Final[dict[str, Any]] = {"pod": {"labels": {"team": "x"}}}

POLICIES: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: grid-sidecar}}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
    namespaceSelector: {{matchLabels: {{{label}: "on"}}}}
  matchConditions:
  - name: of-a-cluster
    expression: "has(object.metadata.labels) && 'gridcluster.io/cluster' in object.metadata.labels"
  - name: not-yet
    expression: "!object.spec.containers.exists(c, c.name == 'proxy')"
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{{op: "add", path: "/spec/containers/-",
          value: Object.spec.containers{{name: "proxy", image: "{image}",
            imagePullPolicy: "IfNotPresent",
            command: ["python3", "-c", "import time; time.sleep(1000000)"],
            securityContext: Object.spec.containers.securityContext{{
              allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 10001,
              capabilities: Object.spec.containers.securityContext.capabilities{{
                drop: ["ALL"]}}}}}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: grid-sidecar}}
spec: {{policyName: grid-sidecar}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: grid-team}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
    namespaceSelector: {{matchLabels: {{{label}: "on"}}}}
  matchConditions:
  - name: of-a-cluster
    expression: "has(object.metadata.labels) && 'gridcluster.io/cluster' in object.metadata.labels"
  validations:
  - expression: "'team' in object.metadata.labels"
    message: {denial}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: grid-team}}
spec: {{policyName: grid-team, validationActions: [Deny]}}
"""


class Policed(Operated):
    """A cluster whose name a test chooses, in a namespace in which policies hold."""

    def hold_policies(self) -> None:
        """Make the policies, and wait until the API server goes by them."""
        policies = POLICIES.format(label=POLICY_LABEL, image=self.member_image, denial=DENIAL)
        self.kube.apply(policies)
        self.kube.kubectl("label", "namespace", NAMESPACE, f"{POLICY_LABEL}=on", "--overwrite")
        own = "gridcluster.io/cluster: probe"

        def tried(labels: str) -> str:
            pod = POD.format(name="probe", labels=labels, image=self.member_image)
            arguments = ("create", "--dry-run=server", "-o", "json", "-f", "-")
            done = self.kube.try_kubectl("-n", NAMESPACE, *arguments, stdin=pod)
            return done.stdout + done.stderr

        self.kube.wait_for(
            lambda: DENIAL in tried(f"{{{own}}}") and "proxy" in tried(f"{{{own}, team: x}}"),
            CHANGE_TIMEOUT_S,
            "the policies to hold",
        )

    def drop_policies(self) -> None:
        self.kube.kubectl("label", "namespace", NAMESPACE, f"{POLICY_LABEL}-")
        for kind in ("mutatingadmissionpolicy", "validatingadmissionpolicy"):
            name = "grid-sidecar" if kind.startswith("mutating") else "grid-team"
            self.kube.kubectl("delete", f"{kind}binding", name)
            self.kube.kubectl("delete", kind, name)

    def told(self, kind: str, words: str) -> None:
        """Wait until a condition of the cluster has these words."""
        self.kube.wait_for(
            lambda: words in self.condition(kind, self.name).get("message", ""),
            READY_TIMEOUT_S,
            f"{kind} of {self.name} to say {words}",
        )

    def ready(self) -> None:
        self.wait("condition=Ready", self.name)

    def containers(self, pod: str) -> list[str]:
        return [c["name"] for c in self.get("pod", pod)["spec"]["containers"]]

    def uid(self, pod: str) -> str:
        return str(self.get("pod", pod)["metadata"]["uid"])


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Iterator[Policed]:
    installation = Policed(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    installation.name = "src"
    installation.apply(manifest("src", **LABELLED))
    installation.wait_serving("src")
    assert installation.put("kept", "precious") == 200
    installation.request("backup", "b1")
    installation.wait_handled("backup", "b1")
    installation.hold_policies()
    yield installation
    installation.drop_policies()
    installation.kubectl("delete", "gridclusters", "--all", "--timeout=60s")
    installation.kube.wait_for(
        lambda: installation.get("pods", "-l", "gridcluster.io/cluster")["items"] == [],
        CHANGE_TIMEOUT_S,
    )
    installation.kubectl("delete", "pvc", "--all", "--timeout=60s")


def test_a_restore_whose_pod_is_forbidden_says_so_and_ends_beside_a_sidecar(grid: Policed) -> None:
    grid.name = "copy"
    grid.apply(manifest("copy", restoreFrom={"cluster": "src"}))
    grid.told("Progressing", DENIAL)
    grid.patch(**LABELLED)
    grid.ready()
    assert grid.read("kept", "copy") == "precious"
    assert grid.containers("copy-0") == ["member", "proxy"]
    assert grid.get("jobs")["items"] == []


def test_a_member_that_a_policy_forbids_is_told_in_its_words(grid: Policed) -> None:
    grid.name = "denied"
    grid.apply(manifest("denied"))
    grid.told("Ready", DENIAL)
    grid.kube.wait_for(lambda: DENIAL in " ".join(grid.events("PodRefused")), CHANGE_TIMEOUT_S)
    grid.patch(**LABELLED)
    grid.ready()
    grid.kubectl("delete", "gc", "denied")


def test_a_finalizer_that_holds_a_pod_is_named(grid: Policed) -> None:
    grid.name = "src"
    grid.kubectl("patch", "pod", "src-0", "--type=merge", "-p", finalizers(HOLD))
    grid.request("restart", "r1")
    try:
        grid.told("Ready", f"its finalizer {HOLD} holds it")
    finally:
        grid.kubectl("patch", "pod", "src-0", "--type=merge", "-p", finalizers())
    grid.wait_handled("restart", "r1")
    grid.ready()


def finalizers(*names: str) -> str:
    return json.dumps({"metadata": {"finalizers": list(names) or None}})


def test_a_request_of_a_former_object_is_not_carried_out_again(grid: Policed) -> None:
    grid.name = "src"
    saved = grid.cluster("src")
    asked = {f"gridcluster.io/{name}": id_ for name, id_ in (("backup", "b1"), ("restart", "r1"))}
    assert asked.items() <= saved["metadata"]["annotations"].items()
    grid.kubectl("delete", "gc", "src")
    metadata = {"name": "src", "annotations": asked}
    grid.apply(yaml.safe_dump({**saved, "metadata": metadata, "status": {}}))
    grid.ready()
    uid = grid.uid("src-0")

    grid.wait_handled("restart", "r1", "Refused")
    assert grid.handled("backup") == ("b1", "Refused")
    grid.wait_quiet()

    assert grid.uid("src-0") == uid
    assert grid.status().get("lastOperations", []) == []
    grid.request("restart", "r2")
    grid.wait_handled("restart", "r2")
    assert grid.uid("src-0") != uid
    grid.kubectl("delete", "gc", "src", "copy")


def test_a_mended_spec_reaches_a_member_that_crashes_beside_its_sidecar(grid: Policed) -> None:
    grid.name = "meshed"
    broken = [{"name": "PYTHONHOME", "value": "/nonexistent"}]
    grid.apply(manifest("meshed", size=3, persistence={"enabled": False}, **LABELLED))
    grid.ready()
    grid.patch(pod={"env": broken})
    grid.told("Ready", "meshed-2 container member")
    assert "proxy" in grid.containers("meshed-2")
    crashed = grid.uid("meshed-2")

    grid.patch(pod={"env": []})

    grid.kube.wait_for(lambda: grid.uid("meshed-2") != crashed, READY_TIMEOUT_S)
    grid.ready()
