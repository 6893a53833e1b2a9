from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from grid_operator.api import crd
from grid_operator.api.base import SpecModel
from grid_operator.api.gridcluster import GridCluster

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

CONTAINERS = ("initContainers", "sidecars")
OF_KUBERNETES = (
    *("affinity", "topologySpreadConstraints", "env[].valueFrom", "envFrom[]", "volumes[]"),
    *("volumeMounts[]", "initContainers[]", "sidecars[]", "dnsConfig", "hostAliases[]"),
)
"""The fields under `spec.pod` that take Kubernetes' own objects."""


def walk(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)]
    for name, child in schema.get("properties", {}).items():
        found += walk(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            found += walk(schema[word], f"{path}[]")
    return found


NODES = walk(crd.cluster_schema())
SPEC_NODES = [(path, node) for path, node in NODES if path.startswith(".spec")]


def test_committed_file_is_what_the_models_say() -> None:
    committed = (ROOT / "crds" / "gridcluster.yaml").read_text(encoding="utf-8")

    assert committed == crd.to_yaml(crd.custom_resource_definition()), (
        "run python -m grid_operator.api.crd"
    )


def test_main_writes_the_file_it_is_given(tmp_path: Path) -> None:
    crd.main([str(tmp_path / "out.yaml")])

    written = yaml.safe_load((tmp_path / "out.yaml").read_text(encoding="utf-8"))
    assert written == crd.custom_resource_definition()


@pytest.mark.parametrize(("path", "node"), NODES)
def test_schema_is_structural(path: str, node: dict[str, Any]) -> None:
    assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
    assert not {"$ref", "$defs", "title", "const", "oneOf"} & node.keys()
    assert not ("properties" in node and "additionalProperties" in node)


@pytest.mark.parametrize(
    ("path", "node"), [n for n in NODES if n[0].startswith((".spec", ".stat"))]
)
def test_every_value_is_bounded(path: str, node: dict[str, Any]) -> None:
    kind = node.get("type")
    if kind == "array":
        assert "maxItems" in node, path
        assert "x-kubernetes-list-type" in node, path
    if kind == "string":
        assert {"maxLength", "enum"} & node.keys(), path
    if kind == "integer" and path.startswith(".spec"):
        assert {"minimum", "maximum"} <= node.keys(), path
    if "additionalProperties" in node:
        assert "maxProperties" in node, path
    if node.get("x-kubernetes-preserve-unknown-fields"):
        # What Kubernetes' own schema checks when a pod is made of it.
        assert path.startswith(tuple(f".spec.pod.{field}" for field in OF_KUBERNETES)), path
    elif kind == "object":
        assert {"properties", "additionalProperties"} & node.keys(), path


@pytest.mark.parametrize(("path", "node"), SPEC_NODES)
def test_every_field_explains_itself(path: str, node: dict[str, Any]) -> None:
    assert path.endswith("[]") or node.get("description"), path


@pytest.mark.parametrize(("path", "node"), [n for n in SPEC_NODES if "default" in n[1]])
def test_defaults_fit_their_own_schema(path: str, node: dict[str, Any]) -> None:
    problems = jsonschema.Draft202012Validator(node).iter_errors(node["default"])

    assert [problem.message for problem in problems] == [], path


def test_rules_carry_messages_and_are_where_they_are_looked_for() -> None:
    rules = {path: node.get("x-kubernetes-validations", []) for path, node in NODES}

    assert {path for path, found in rules.items() if found} == {
        "",
        ".spec",
        ".spec.rest",
        ".spec.advancedNetwork",
        ".spec.metrics",
        ".spec.exposure",
        ".spec.security",
        ".spec.persistence",
        ".spec.persistence.backup",
        ".spec.persistence.backup.volume",
        ".spec.restoreFrom",
        ".spec.maps[].eviction",
        ".spec.wan[].publishers[]",
        ".spec.wanListener",
        ".spec.wanListener.from[]",
        ".spec.wanListener.service",
        ".spec.pod",
        ".spec.pod.env[]",
        ".spec.pod.envFrom[]",
        ".spec.pod.volumes[]",
        ".spec.pod.volumeMounts[]",
        *(f".spec.pod.{of}[]{part}" for of in CONTAINERS for part in ("", ".ports[]")),
    }
    assert all(rule["message"] for found in rules.values() for rule in found)


def test_every_rule_of_the_api_server_holds_in_python_too_but_those_of_transitions() -> None:
    """`gridctl up` has no API server; `decide` compares with the live objects instead."""
    models = [m for m in crd._all_subclasses(SpecModel) if "rules" in vars(m)]
    rules = [rule for model in models for rule in model.rules]

    assert rules
    assert all((rule.holds is None) == ("oldSelf" in rule.cel) for rule in rules)


def test_a_backup_volume_that_cannot_grow_can_be_set_back() -> None:
    """A rule against that would leave a cluster that no change of its spec gets going again."""
    (volume,) = (node for path, node in NODES if path.endswith(".backup.volume"))
    rules = [rule["rule"] for rule in volume["x-kubernetes-validations"]]

    assert rules
    assert not [rule for rule in rules if "size" in rule]


def test_default_spec_of_the_schema_is_that_of_the_models() -> None:
    minimal = GridCluster.from_kube({"metadata": {"name": "x"}})
    default = crd.cluster_schema()["properties"]["spec"]["default"]

    assert GridCluster.from_kube({"metadata": {"name": "x"}, "spec": default}) == minimal


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.name)
def test_examples_fit_the_schema_and_the_models(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        jsonschema.validate(document, crd.cluster_schema())
        assert GridCluster.from_kube(document).metadata.name == document["metadata"]["name"]


def test_there_is_an_example() -> None:
    assert EXAMPLES
