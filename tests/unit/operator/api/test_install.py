from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[4]
INSTALL = ROOT / "operator" / "install"


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

    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds
    for rule in rules:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        assert not any("*" in word for words in rule.values() for word in words)


def test_operator_cannot_write_what_users_own() -> None:
    verbs = {
        resource: set(rule["verbs"])
        for rule in OBJECTS["Role"]["rules"]
        for resource in rule["resources"]
    }

    assert verbs["gridclusters"] == {"get", "list", "watch"}
    assert verbs["persistentvolumeclaims"] == {"get", "list", "watch"}
    assert verbs["gridclusters/status"] == {"patch", "update"}


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
