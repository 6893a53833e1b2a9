"""What others do to the objects of a cluster on a real Kubernetes: people, and admission.

The tests of this module share one GridCluster and run in the order in which they stand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, Installation, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300)

NAME: Final = "solo"
TRIO: Final = "trio"
OBSERVATION_PERIOD_S: Final = 10.0
IN_MEMORY: Final = {"persistence": {"enabled": False}}
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"

POD: Final = {
    "hostNetwork": True,
    "dnsPolicy": "Default",
    "automountServiceAccountToken": True,
    "initContainers": [{"name": "other", "image": "other"}],
}
EVERY_POD: Final[dict[str, Any]] = {"podSelector": {}}
ROUNDS: Final[tuple[dict[str, Any], ...]] = (
    {
        f"service/{NAME}": {"spec": {"selector": {"role": "leader"}}},
        f"service/{NAME}-members": {"spec": {"publishNotReadyAddresses": False}},
        f"networkpolicy/{NAME}": {"spec": {"podSelector": {"matchLabels": {"role": "x"}}}},
        f"configmap/{NAME}-config": {"data": {"other": "x"}},
        f"statefulset/{NAME}": {"spec": {"template": {"spec": POD}}},
        f"pdb/{TRIO}": {"spec": {"selector": {"matchLabels": {"role": "x"}}}},
        f"networkpolicy/{TRIO}": {"spec": {"egress": [{}]}},
    },
    {
        f"service/{NAME}": {"spec": {"ports": [{"name": "rest", "port": 9999}]}},
        f"networkpolicy/{NAME}": {"spec": {"egress": [{"to": [EVERY_POD]}]}},
        f"configmap/{NAME}-config": {"immutable": True},
        f"statefulset/{NAME}": {"spec": {"template": {"metadata": {"labels": {"role": "x"}}}}},
        f"pdb/{TRIO}": {"spec": {"maxUnavailable": None, "minAvailable": 1}},
    },
    {
        f"service/{NAME}": {"spec": {"externalIPs": ["192.0.2.1"], "sessionAffinity": "ClientIP"}},
        f"networkpolicy/{NAME}": {"spec": {"policyTypes": ["Ingress"], "ingress": [{}]}},
        f"configmap/{NAME}-config": {"metadata": {"ownerReferences": None}},
        f"pdb/{TRIO}": {"metadata": {"labels": {"gridcluster.io/cluster": None}}},
    },
)
"""Each round is done at once: what is patched into which object."""

# Sets a value that is rendered, and adds what is not, wherever a StatefulSet is written.
POLICY: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: rewrite-statefulsets}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [apps]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [statefulsets]
  matchConditions:
  - name: not-yet
    expression: "object.metadata.name == 'solo'
      && (!('tenant' in object.spec.template.metadata.labels)
      || object.spec.template.spec.terminationGracePeriodSeconds != 77)"
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "replace",
           path: "/spec/template/spec/terminationGracePeriodSeconds", value: 77},
         JSONPatch{op: "add", path: "/spec/template/metadata/labels/tenant", value: "a"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: rewrite-statefulsets}
spec: {policyName: rewrite-statefulsets}
"""


class Drifting(Installation):
    """A cluster whose objects others write as well."""

    def patch(self, ref: str, patch: dict[str, Any]) -> None:
        self.kubectl("patch", ref, "--type=merge", "-p", json.dumps(patch))

    def content(self, ref: str) -> dict[str, Any]:
        """Return what of an object says what it is."""
        found = self.get(ref)
        kept = {key: found.get(key) for key in ("spec", "data", "immutable")}
        meta = found["metadata"]
        return {**kept, "labels": meta["labels"], "owners": meta["ownerReferences"]}

    def is_as_before(self, before: dict[str, dict[str, Any]]) -> bool:
        found = self.kube.try_kubectl("-n", NAMESPACE, "get", *before, "-o", "name")
        return found.returncode == 0 and all(
            "ownerReferences" in self.get(ref)["metadata"] and self.content(ref) == content
            for ref, content in before.items()
        )

    def wait_as_before(self, before: dict[str, dict[str, Any]]) -> None:
        self.kube.wait_for(lambda: self.is_as_before(before), CHANGE_TIMEOUT_S)

    def told(self, reason: str) -> list[str]:
        items = self.get("events", "--field-selector", f"reason={reason}")["items"]
        return [i["message"] for i in items if i["involvedObject"]["name"] in (NAME, TRIO)]

    def scale_operator(self, replicas: int) -> None:
        self.kubectl("scale", "deployment/grid-operator", f"--replicas={replicas}")
        self.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")

    def template(self) -> dict[str, Any]:
        return dict(self.get("statefulset", NAME)["spec"]["template"])

    def pod_uid(self) -> str:
        return str(self.get("pod", f"{NAME}-0")["metadata"]["uid"])


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Iterator[Drifting]:
    installation = Drifting(kube, images.member)
    installation.install_operator()
    installation.apply(manifest(NAME, **IN_MEMORY))
    installation.apply(manifest(TRIO, size=3, runState="Stopped", **IN_MEMORY))
    installation.wait_ready(NAME)
    kube.wait_for(
        lambda: installation.condition("Stopped", TRIO).get("status") == "True", CHANGE_TIMEOUT_S
    )
    yield installation
    installation.kubectl("delete", "gridcluster", NAME, TRIO)


def test_what_the_api_server_makes_of_the_objects_is_no_drift(grid: Drifting) -> None:
    grid.wait_quiet()
    assert grid.condition("ChildrenMatch", NAME)["status"] == "True"
    assert grid.condition("ChildrenMatch", TRIO)["status"] == "True"
    assert grid.told("DriftReverted") == []


@pytest.mark.parametrize("edits", ROUNDS)
def test_edits_of_any_kind_are_set_back(grid: Drifting, edits: dict[str, Any]) -> None:
    before = {ref: grid.content(ref) for ref in edits}
    uid = grid.pod_uid()
    for ref, edit in edits.items():
        grid.patch(ref, edit)
    grid.wait_as_before(before)
    grid.wait_ready(NAME)
    assert grid.pod_uid() == uid
    assert grid.told("DriftReverted")


def test_edits_made_while_no_operator_runs_are_set_back_when_one_starts(grid: Drifting) -> None:
    refs = (f"service/{NAME}", f"networkpolicy/{NAME}", f"statefulset/{NAME}")
    before = {ref: grid.content(ref) for ref in refs}
    uid = grid.pod_uid()
    grid.scale_operator(0)
    try:
        grid.patch(refs[0], {"spec": {"selector": {"role": "leader"}}})
        grid.patch(refs[1], {"spec": {"egress": [{}]}})
        grid.patch(refs[2], {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    finally:
        grid.scale_operator(1)
    grid.wait_as_before(before)
    grid.wait_quiet()
    assert grid.is_as_before(before)
    assert grid.pod_uid() == uid
    assert grid.condition("ChildrenMatch", NAME)["status"] == "True"
    assert grid.condition("ChildrenMatch", TRIO)["status"] == "True"


def test_a_restart_by_kubectl_is_kept(grid: Drifting) -> None:
    uid = grid.pod_uid()
    grid.kubectl("rollout", "restart", f"statefulset/{NAME}")
    grid.kube.wait_for(lambda: grid.pod_uid() != uid, CHANGE_TIMEOUT_S)
    grid.wait_ready(NAME)
    assert RESTARTED_AT in grid.template()["metadata"]["annotations"]


def test_what_a_policy_rewrites_is_admitted_and_later_changes_roll(grid: Drifting) -> None:
    grid.kube.kubectl("apply", "-f", "-", stdin=POLICY)
    try:
        grid.kube.wait_for(lambda: rewritten(grid), CHANGE_TIMEOUT_S, "the policy to be in force")
        uid = grid.pod_uid()
        grid.apply(manifest(NAME, **IN_MEMORY, pod={"annotations": {"example.org/n": "1"}}))
        grid.kube.wait_for(lambda: grid.pod_uid() != uid, CHANGE_TIMEOUT_S)
        grid.wait_ready(NAME)
        grid.wait_quiet()
        match = grid.condition("ChildrenMatch", NAME)
        assert (match["status"], match["reason"]) == ("False", "Admitted")
        for field in ("metadata.labels.tenant", "spec.terminationGracePeriodSeconds"):
            assert f"spec.template.{field}" in match["message"]
        assert grid.told("Admitted") == [match["message"]]
        assert grid.template()["spec"]["terminationGracePeriodSeconds"] == 77
        uid = grid.pod_uid()
        grid.kubectl("delete", "pod", grid.operator_pod())
        grid.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")
        grid.wait_quiet()
        assert grid.writes_during(OBSERVATION_PERIOD_S) == 0
        assert grid.pod_uid() == uid
        assert grid.told("Admitted") == [match["message"]]
    finally:
        grid.kube.kubectl("delete", "-f", "-", stdin=POLICY)
    grid.kube.wait_for(lambda: not rewritten(grid), CHANGE_TIMEOUT_S, "the policy to be gone")
    grid.apply(manifest(NAME, **IN_MEMORY, pod={"annotations": {"example.org/n": "2"}}))
    grid.kube.wait_for(lambda: grid.pod_uid() != uid, CHANGE_TIMEOUT_S)
    grid.wait_ready(NAME)
    grid.kube.wait_for(
        lambda: grid.condition("ChildrenMatch", NAME).get("status") == "True", CHANGE_TIMEOUT_S
    )
    assert "tenant" not in grid.template()["metadata"]["labels"]


def rewritten(grid: Drifting) -> bool:
    """Return whether the policy would rewrite the StatefulSet if anybody wrote it now."""
    edit = '{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":50}}}}'
    ref = f"statefulset/{NAME}"
    options = ("--type=merge", "--dry-run=server", "-o", "json")
    answer = json.loads(grid.kubectl("patch", ref, *options, "-p", edit))
    return bool(answer["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 77)
