"""`kubectl apply -k` installs the same objects as the chart, but for a table of differences."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.helm.manifests import MANIFESTS, ROOT, written_manifests
from tests.unit.operator.api.test_install import EVERYWHERE, INSTALL, ONE_MORE, documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

KubeObject = dict[str, Any]
NAME_LABEL: Final = "app.kubernetes.io/name"
RELEASE_LABELS: Final = frozenset(
    {
        "app.kubernetes.io/instance",
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/version",
        "app.kubernetes.io/managed-by",
        "helm.sh/chart",
    }
)


def _without_release_labels(one: KubeObject) -> None:
    pod = one.get("spec", {}).get("template", {}).get("metadata", {})
    for metadata in (one["metadata"], pod):
        labels = metadata.get("labels", {})
        for key in RELEASE_LABELS & labels.keys():
            del labels[key]


def _without_name_of_definition(one: KubeObject) -> None:
    if one["kind"] == "CustomResourceDefinition":
        del one["metadata"]["labels"][NAME_LABEL]
        if not one["metadata"]["labels"]:
            del one["metadata"]["labels"]


def _without_policy_of_helm(one: KubeObject) -> None:
    annotations = one["metadata"].get("annotations", {})
    if annotations.pop("helm.sh/resource-policy", None) and not annotations:
        del one["metadata"]["annotations"]


CHANGED: Final[dict[str, Callable[[KubeObject], None]]] = {
    "the chart's objects carry labels of the release": _without_release_labels,
    "the chart's definition has a label": _without_name_of_definition,
    "helm keeps the definition": _without_policy_of_helm,
}
"""What has to be taken from the chart's objects; each one is met by some object."""
ONLY_KUSTOMIZE: Final = {("Namespace", "", "grid-system"): "helm makes it: --create-namespace"}


def keyed(objects: list[KubeObject]) -> dict[tuple[str, str, str], KubeObject]:
    found = {}
    for one in map(copy.deepcopy, objects):
        # Neither order has a meaning.
        if "rules" in one:
            one["rules"].sort(key=str)
        meta = one["metadata"]
        key = one["kind"], meta.get("namespace", ""), meta["name"]
        assert key not in found
        found[key] = one
    return found


def comparable(objects: list[KubeObject]) -> dict[tuple[str, str, str], KubeObject]:
    found = keyed(objects)
    for change in CHANGED.values():
        for one in found.values():
            change(one)
    return found


def test_committed_manifests_are_written_from_the_chart(operator_chart: Helm) -> None:
    for path, text in written_manifests(operator_chart).items():
        assert (ROOT / "operator" / path).read_text(encoding="utf-8") == text, "run make manifests"


def test_every_manifest_but_the_namespace_is_written() -> None:
    written = {ROOT / "operator" / manifest.path for manifest in MANIFESTS}
    there = {file for place in (INSTALL, ONE_MORE, EVERYWHERE) for file in place.glob("*.yaml")}

    by_hand = {file.name for file in there - written}
    assert by_hand == {"kustomization.yaml", "namespace.yaml"}


def test_operator_install_is_the_chart(operator_chart: Helm) -> None:
    manifests = keyed(list(documents(INSTALL)))
    for key in ONLY_KUSTOMIZE:
        del manifests[key]

    assert comparable(operator_chart.objects()) == manifests


@pytest.mark.parametrize("difference", CHANGED)
def test_every_difference_is_met(operator_chart: Helm, difference: str) -> None:
    changed = keyed(operator_chart.objects())
    for one in changed.values():
        CHANGED[difference](one)
    assert changed != keyed(operator_chart.objects())


def test_one_more_namespace_is_the_chart(operator_chart: Helm) -> None:
    objects = comparable(operator_chart.objects({"watch": {"namespaces": ["team-a"]}}))
    there = [copy.deepcopy(one) for one in documents(ONE_MORE)]
    for one in there:
        one["metadata"]["namespace"] = "team-a"  # kubectl -n says which

    assert {key: one for key, one in objects.items() if key[1] == "team-a"} == keyed(there)


def test_all_namespaces_are_the_chart(operator_chart: Helm) -> None:
    """But for the Role in grid-system, which keeps the rights there with kustomize."""
    objects = comparable(operator_chart.objects({"watch": {"all": True}}))
    manifests = keyed(list(documents(EVERYWHERE)))
    role, deployment = ((kind, "grid-system", "grid-operator") for kind in ("Role", "Deployment"))
    (container,) = manifests[deployment]["spec"]["template"]["spec"]["containers"]
    container["args"] = ["--all-namespaces"]  # what the kustomization patches

    kept = manifests.pop(role)["rules"]
    lease = objects.pop(role)["rules"]
    assert [rule for rule in kept if rule in lease] == lease
    assert objects == {k: v for k, v in manifests.items() if k not in ONLY_KUSTOMIZE}
