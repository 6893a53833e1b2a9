"""How one child is written where a server-side apply alone does not do."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.objects import ObjectRef
from grid_operator.ports.errors import Conflict, Rejected
from grid_operator.reconcile.admissions import applied_form
from grid_operator.reconcile.writing import write_child
from tests.unit.operator.api.clusters import FULL_SPEC, render
from tests.unit.operator.api_server import stored
from tests.unit.operator.fake_kube import FakeKube

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_operator.api.objects import KubeObject

SEVERAL = {"size": 3}
FULL = FULL_SPEC


def rendered(kind: str, spec: dict[str, Any]) -> KubeObject:
    return next(child for child in render(spec) if child["kind"] == kind)


async def edited(kube: FakeKube, child: KubeObject, **spec: Any) -> KubeObject:
    """Write a child, change it as a person does, and return it as it is then."""
    await write_child(kube, child, child, None)
    kube.objects[ObjectRef.of(child)]["spec"] |= spec
    kube.writes.clear()
    return copy.deepcopy(kube.objects[ObjectRef.of(child)])


def twice(obj: KubeObject) -> None:
    """Refuse what the API server refuses: two ports of one name, a budget of two kinds."""
    spec = obj["spec"]
    names = [port["name"] for port in spec.get("ports", ())]
    if len(set(names)) < len(names):
        raise Rejected("spec.ports[1].name: Duplicate value", "Invalid")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        raise Rejected("minAvailable and maxUnavailable cannot be both set", "Invalid")


@pytest.mark.parametrize(
    ("kind", "spec", "edit"),
    [
        ("Service", {}, {"ports": [{"name": "rest", "port": 9999, "protocol": "TCP"}]}),
        ("PodDisruptionBudget", SEVERAL, {"minAvailable": 1}),
    ],
)
async def test_what_an_apply_would_join_with_an_edit_is_put_right_in_one_write(
    kind: str, spec: dict[str, Any], edit: dict[str, Any]
) -> None:
    kube, child = FakeKube(), rendered(kind, spec)
    kube.admission = twice
    live = await edited(kube, child, **edit)
    if kind == "PodDisruptionBudget":
        del kube.objects[ObjectRef.of(child)]["spec"]["maxUnavailable"]
        del live["spec"]["maxUnavailable"]

    assert await write_child(kube, child, child, live) == ()

    assert kube.objects[ObjectRef.of(child)]["spec"] == stored(child)["spec"]
    assert kube.writes == [f"apply {kind}", f"patch {kind}", f"apply {kind}"]


async def test_what_is_refused_either_way_is_refused_for_the_first_reason() -> None:
    kube, child = FakeKube(), rendered("Service", {})
    live = await edited(kube, child, externalName="x")

    def refusing(_: KubeObject) -> None:
        raise Rejected(f"refusal {len(kube.writes)}", "Invalid")

    kube.admission = refusing
    with pytest.raises(Rejected, match="refusal 1"):
        await write_child(kube, child, child, live)


async def test_a_refusal_of_something_new_is_not_tried_otherwise() -> None:
    kube, child = FakeKube(), rendered("Service", {})

    def refusing(_: KubeObject) -> None:
        raise Rejected("no", "Invalid")

    kube.admission = refusing
    with pytest.raises(Rejected):
        await write_child(kube, child, child, None)
    assert len(kube.writes) == 1


async def test_a_status_that_is_written_meanwhile_keeps_no_addition() -> None:
    kube, child = FakeKube(), rendered("StatefulSet", FULL)
    await write_child(kube, child, child, None)
    ref = ObjectRef.of(child)
    pod = kube.objects[ref]["spec"]["template"]["spec"]
    pod["initContainers"].append({"name": "other", "image": "other"})
    live = copy.deepcopy(kube.objects[ref])
    patch, conflicts = kube.patch, iter(range(2))

    async def busy(
        obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        if next(conflicts, None) is not None:
            raise Conflict("the object has been modified")
        return await patch(obj, operations, dry_run=dry_run)

    kube.patch = busy  # type: ignore[method-assign]
    assert await write_child(kube, child, applied_form(child, live), live) == ()
    kept = kube.objects[ref]["spec"]["template"]["spec"]["initContainers"]
    assert [container["name"] for container in kept] == ["first", "goes-on"]
