from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.crd import cluster_schema
from grid_operator.api.names import PLURAL
from grid_operator.handlers.ending import STOP_LIMIT_S
from grid_operator.ports.kubernetes.client import CHILD_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[4]
INSTALL = ROOT / "operator" / "install"
EVERYWHERE = ROOT / "operator" / "install-all-namespaces"
ONE_MORE = ROOT / "operator" / "install-namespace"
EXAMPLE = ROOT / "examples" / "team-namespace"


def documents(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield what `kubectl apply -k` would apply."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    for name in kustomization["resources"]:
        path = (directory / name).resolve()
        if path.is_dir():
            yield from documents(path)
        else:
            # kustomize refuses files outside of its root; only directories may be.
            assert path.parent == directory.resolve()
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


OBJECTS = {d["kind"]: d for d in documents(INSTALL)}


def test_every_manifest_is_listed() -> None:
    listed = yaml.safe_load((INSTALL / "kustomization.yaml").read_text(encoding="utf-8"))
    files = {path.name for path in INSTALL.glob("*.yaml")} - {"kustomization.yaml"}

    assert {name for name in listed["resources"] if name.endswith(".yaml")} == files
    assert "CustomResourceDefinition" in OBJECTS


def test_rights_are_namespaced_and_name_everything() -> None:
    kinds = {d["kind"] for d in documents(INSTALL)}
    rules = OBJECTS["Role"]["rules"]

    # The ClusterRoles of users are bound to nobody here.
    assert "ClusterRoleBinding" not in kinds
    for rule in rules:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        assert not any("*" in word for words in rule.values() for word in words)


def test_who_may_view_or_edit_a_namespace_may_do_so_with_its_gridclusters() -> None:
    roles = {d["metadata"]["name"]: d for d in documents(INSTALL) if d["kind"] == "ClusterRole"}
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    into = {
        name: {key.removeprefix(prefix) for key in role["metadata"]["labels"] if prefix in key}
        for name, role in roles.items()
    }
    granted: dict[str, dict[str, set[str]]] = {}
    for name, role in roles.items():
        of_role = granted.setdefault(name, {})
        for rule in role["rules"]:
            assert rule["apiGroups"] == ["gridcluster.io"]
            for resource in rule["resources"]:
                of_role.setdefault(resource, set()).update(rule["verbs"])

    assert into == {"grid-view": {"view", "edit", "admin"}, "grid-edit": {"edit", "admin"}}
    assert granted["grid-view"] == {
        "gridclusters": {"get", "list", "watch"},
        "gridclusters/status": {"get"},
        "gridclusters/scale": {"get"},
    }
    # The status is the operator's alone.
    assert granted["grid-edit"] == {
        "gridclusters": {"create", "update", "patch", "delete", "deletecollection"},
        "gridclusters/scale": {"update", "patch"},
    }


def verbs(role: dict[str, Any]) -> dict[str, set[str]]:
    return {
        resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]
    }


def test_operator_cannot_write_what_users_own_nor_delete_a_volume() -> None:
    granted = verbs(OBJECTS["Role"])

    assert granted["gridclusters"] == {"get", "list", "watch"}
    assert granted["gridclusters/status"] == {"patch"}
    assert granted["persistentvolumeclaims"] == {"get", "list", "watch", "create", "patch"}
    assert granted["pods"] == {"list", "watch", "delete"}
    assert granted["namespaces"] == {"get"}
    assert granted["events"] == {"create", "list"}


@pytest.mark.parametrize("kind", CHILD_KINDS, ids=lambda kind: kind[1])
def test_operator_may_make_and_watch_every_kind_of_child(kind: tuple[str, str, str]) -> None:
    wanted = {"get", "list", "watch", "create", "patch", "delete"}

    assert verbs(OBJECTS["Role"])[kind[2]] == wanted


def test_everywhere_the_rights_are_the_same_but_for_finalizers_and_the_lease() -> None:
    objects = {d["kind"]: d for d in documents(EVERYWHERE)}
    here, everywhere = verbs(OBJECTS["Role"]), verbs(objects["ClusterRole"])

    assert everywhere.pop("gridclusters") == here.pop("gridclusters") | {"patch"}
    assert here.pop("leases") == {"get", "create", "update"}
    assert everywhere == here
    assert not [r for r in objects["ClusterRole"]["rules"] if "*" in str(r)]


def test_in_one_more_namespace_the_rights_are_the_same_but_for_the_lease() -> None:
    here = {d["kind"]: d for d in documents(INSTALL)}
    there = {d["kind"]: d for d in documents(ONE_MORE)}
    expected = verbs(here["Role"])

    assert expected.pop("leases") == {"get", "create", "update"}
    assert verbs(there["Role"]) == expected
    assert there.keys() == {"Role", "RoleBinding"}
    assert not any("namespace" in d["metadata"] for d in there.values())  # kubectl -n says which
    for part in ("roleRef", "subjects"):
        assert there["RoleBinding"][part] == here["RoleBinding"][part]


def test_the_example_names_its_namespace_wherever_it_has_to() -> None:
    overlay, team = (
        yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
        for directory in (EXAMPLE, EXAMPLE / "team-a")
    )
    (patch,) = overlay["patches"]
    (change,) = yaml.safe_load(patch["patch"])
    kinds = [d["kind"] for d in documents(EXAMPLE / "team-a")]

    assert overlay["resources"] == ["../../operator/install", team["namespace"]]
    assert change["path"] == "/spec/template/spec/containers/0/args"
    assert (
        change["value"][:2]
        == OBJECTS["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    )
    assert change["value"][2:] == ["--namespace", team["namespace"]]
    assert kinds == ["Namespace", "Role", "RoleBinding"]
    (namespace,) = (d for d in documents(EXAMPLE / "team-a") if d["kind"] == "Namespace")
    assert namespace["metadata"]["name"] == team["namespace"]


def test_protection_speaks_of_the_field_that_the_schema_has() -> None:
    policy = OBJECTS["ValidatingAdmissionPolicy"]
    binding = OBJECTS["ValidatingAdmissionPolicyBinding"]["spec"]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    text = str(policy["spec"])

    assert "deletionProtection" in cluster_schema()["properties"]["spec"]["properties"]
    assert text.count("spec.deletionProtection") >= 3
    assert (rule["resources"], rule["operations"]) == ([PLURAL], ["DELETE"])
    assert binding == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_operator_pod_meets_the_restricted_standard_that_its_namespace_enforces() -> None:
    labels = OBJECTS["Namespace"]["metadata"]["labels"]
    pod = OBJECTS["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_has_the_time_that_its_process_takes_to_end() -> None:
    pod = OBJECTS["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > STOP_LIMIT_S


def test_the_operator_ends_by_itself_before_the_kubelet_ends_it_for_its_silence() -> None:
    """It gives its Lease back then, which a killed one does not."""
    (container,) = OBJECTS["Deployment"]["spec"]["template"]["spec"]["containers"]
    probe = container["livenessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) > STOP_LIMIT_S
