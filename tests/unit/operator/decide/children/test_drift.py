"""Every edit of every child: it is seen, and writing the child undoes it, or it is tolerated."""

from __future__ import annotations

import asyncio
import copy
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from grid_operator.decide.children.drift import differences
from grid_operator.reconcile.writing import write_child
from tests.unit.operator.api.clusters import render
from tests.unit.operator.api.pods import container, pod
from tests.unit.operator.api_server import applied, patched, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from grid_operator.api.objects import KubeObject

Place: TypeAlias = tuple[str | int, ...]

GOLDEN = (Path(__file__).parents[2] / "render" / "golden").glob("*.yaml")
OF_SEVERAL = ("PodDisruptionBudget", "NetworkPolicy")
CHILDREN: dict[str, KubeObject] = {
    **{path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN)},
    **{f"several-{c['kind']}": c for c in render({"size": 3}) if c["kind"] in OF_SEVERAL},
}
FOREIGN: tuple[Any, ...] = ("x", {})
FOREIGN_ITEM = {
    "name": "foreign",
    "uid": "foreign",
    "mountPath": "/x",
    "port": 1,
    "protocol": "TCP",
}

IDENTITY = {"apiVersion", "kind", "name", "namespace", "uid"}
"""Another one makes another object; the API server lets nobody change them."""
IMMUTABLE = {
    "StatefulSet": r"spec\.(volumeClaimTemplates|selector|serviceName|podManagementPolicy)\b.*",
    "Job": r"spec\.(template|selector|completions|completionMode)\b.*",
    "PersistentVolumeClaim": r"spec\b.*",
    "Secret": r"type",
}
"""Nobody can change these either."""

TOLERATED_EVERYWHERE = (
    r"metadata\.[^.]+|metadata\.(labels|annotations)\.\S+|metadata\.ownerReferences\[\]|status"
)
TOLERATED = {
    "StatefulSet": r"spec\.template\.metadata\.annotations\.\S+",
    "Secret": r"data\.\S+",
    "Service": r"spec\.(clusterIPs?|ipFamilies|ipFamilyPolicy|healthCheckNodePort)\b.*"
    r"|spec\.ports\[\]\.nodePort",
}
"""What may be added, or be another value when it is not rendered: docs/operator.md names it."""


@dataclass(frozen=True)
class Edit:
    """What somebody did, and where."""

    deed: str
    place: Place
    obj: KubeObject = field(repr=False)

    @property
    def pattern(self) -> str:
        text = "".join("[]" if isinstance(p, int) else f".{p}" for p in self.place)
        return text.removeprefix(".")

    def may_stay(self, kind: str) -> bool:
        texts = (TOLERATED_EVERYWHERE, TOLERATED.get(kind), IMMUTABLE.get(kind))
        return any(re.fullmatch(text, self.pattern) for text in texts if text)


class Server:
    """Implements as much of `ports.api.Kube` as a write of one child needs."""

    def __init__(self, live: KubeObject, before: KubeObject) -> None:
        self.live = live
        self.before = before

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        assert not dry_run
        self.live = stored(applied(self.live, obj, self.before))
        return copy.deepcopy(self.live)

    async def patch(self, obj: KubeObject, operations: Sequence[KubeObject]) -> KubeObject:
        assert obj == self.live
        self.live = stored(patched(self.live, operations))
        return copy.deepcopy(self.live)


def places(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, (*path, index))


def edits(live: KubeObject) -> Iterator[Edit]:
    """Yield the object after each single edit that makes a difference in what is stored."""
    for path, value in places(live):
        for deed, where, change in changes(path, value):
            edited = copy.deepcopy(live)
            change(edited)
            yield Edit(deed, where, stored(edited))


def changes(path: Place, value: Any) -> Iterator[tuple[str, Place, Callable[[KubeObject], None]]]:
    if isinstance(value, dict):
        for foreign in FOREIGN:
            here = (*path, "foreign")
            yield f"add {foreign}", here, partial(put, path=here, value=foreign)
    if isinstance(value, list):
        item = FOREIGN_ITEM if isinstance(value[0], dict) else "foreign"
        yield "append", (*path, 0), partial(insert, path=path, index=len(value), value=item)
        yield "prepend", (*path, 0), partial(insert, path=path, index=0, value=item)
    if path and path[-1] not in IDENTITY:
        yield "remove", path, partial(drop, path=path)
        if not isinstance(value, dict | list):
            yield "change", path, partial(put, path=path, value=other(value))


def at(obj: Any, path: Place) -> Any:
    for part in path:
        obj = obj[part]
    return obj


def put(obj: Any, path: Place, value: Any) -> None:
    at(obj, path[:-1])[path[-1]] = copy.deepcopy(value)


def insert(obj: Any, path: Place, index: int, value: Any) -> None:
    at(obj, path).insert(index, copy.deepcopy(value))


def drop(obj: Any, path: Place) -> None:
    del at(obj, path[:-1])[path[-1]]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}-edited"


def storable(edit: Edit) -> bool:
    """Return whether an object of this kind can be so at all."""
    obj = edit.obj
    if "metadata" not in obj or not {"name", "namespace"} <= set(obj["metadata"]):
        return False
    return obj["kind"] != "Job" or "template" in obj.get("spec", {})


@pytest.mark.parametrize("rendered", CHILDREN.values(), ids=CHILDREN)
def test_what_the_api_server_stores_is_no_drift(rendered: KubeObject) -> None:
    assert differences(rendered, stored(rendered)) == ()


def test_the_address_that_a_load_balancer_assigns_is_no_drift() -> None:
    rendered = CHILDREN["full-service-demo"]
    live = stored(rendered)
    live["spec"] |= {"loadBalancerIP": "192.0.2.7", "healthCheckNodePort": 30999}

    assert differences(rendered, live) == ()


def test_init_containers_in_another_order_are_put_in_theirs() -> None:
    rendered = CHILDREN["full-statefulset-demo"]
    live = stored(rendered)
    live["spec"]["template"]["spec"]["initContainers"].reverse()
    server = Server(live, rendered)

    found = [difference.place for difference in differences(rendered, live)]
    left = asyncio.run(write_child(server, rendered, rendered, live))  # type: ignore[arg-type]

    assert found == ["spec.template.spec.initContainers"]
    assert left == ()


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("host:5000/a", "Always"),
        ("host:5000/a:latest", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        (f"a@sha256:{'0' * 64}", "IfNotPresent"),
        (f"a:latest@sha256:{'0' * 64}", "Always"),
    ],
)
def test_only_the_pull_policy_that_the_api_server_fills_in_is_no_drift(
    image: str, policy: str
) -> None:
    rendered = copy.deepcopy(CHILDREN["full-statefulset-demo"])
    rendered["spec"]["template"]["spec"]["containers"][1]["image"] = image

    def drifted(value: str) -> list[str]:
        live = stored(rendered)
        live["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = value
        return [difference.place for difference in differences(rendered, live)]

    (other,) = {"Always", "IfNotPresent"} - {policy}
    assert drifted(policy) == []
    assert drifted(other) == ["spec.template.spec.containers[beside].imagePullPolicy"]


UNSAID: tuple[dict[str, Any], ...] = (
    container(imagePullPolicy="", terminationMessagePath="", terminationMessagePolicy=""),
    container(livenessProbe={"httpGet": {"port": 80, "path": "", "scheme": None}}),
    container(
        readinessProbe={
            "tcpSocket": {"port": 80},
            "timeoutSeconds": 0,
            "periodSeconds": None,
            "successThreshold": 0,
            "failureThreshold": 0,
            "initialDelaySeconds": 0,
        }
    ),
    container(ports=[{"containerPort": 80, "protocol": ""}, {"containerPort": 81}]),
    container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "m", "apiVersion": ""}}}]),
)
UNSAID_VOLUMES: tuple[dict[str, Any], ...] = (
    {"name": "v", "emptyDir": None},
    {"name": "v", "configMap": {"name": "c", "defaultMode": None, "items": None}},
    {"name": "v", "iscsi": {"iqn": "i", "chapAuthDiscovery": False, "chapAuthSession": False}},
    {"name": "v", "scaleIO": {"gateway": "g", "sslEnabled": False, "fsType": "xfs"}},
    {"name": "v", "gcePersistentDisk": {"pdName": "p", "partition": 0}},
)


@pytest.mark.parametrize(
    "spec",
    [
        *(pod(sidecars=[one]) for one in UNSAID),
        *(pod(initContainers=[one]) for one in UNSAID),
        *(pod(volumes=[one]) for one in UNSAID_VOLUMES),
    ],
)
def test_null_and_zero_that_stand_for_the_default_are_no_drift(spec: dict[str, Any]) -> None:
    """Templates that people write their specs with leave such values behind."""
    (rendered,) = (child for child in render(spec) if child["kind"] == "StatefulSet")
    live = stored(rendered)
    server = Server(live, rendered)

    left = asyncio.run(write_child(server, rendered, rendered, live))  # type: ignore[arg-type]

    assert (differences(rendered, live), left) == ((), ())
    assert server.live == live


def test_another_value_in_the_place_of_an_unsaid_one_is_drift() -> None:
    spec = pod(sidecars=[container(imagePullPolicy="", readinessProbe={"periodSeconds": 0})])
    (rendered,) = (child for child in render(spec) if child["kind"] == "StatefulSet")
    live = stored(rendered)
    (beside,) = live["spec"]["template"]["spec"]["containers"][1:]
    beside["imagePullPolicy"] = "Never"
    beside["readinessProbe"]["periodSeconds"] = 11

    found = {difference.place.rpartition(".")[2] for difference in differences(rendered, live)}

    assert found == {"imagePullPolicy", "periodSeconds"}


@pytest.mark.parametrize("rendered", CHILDREN.values(), ids=CHILDREN)
def test_every_edit_is_set_back_or_tolerated(rendered: KubeObject) -> None:
    live = stored(rendered)
    overlooked, kept, seen = [], [], 0
    for edit in edits(live):
        if edit.obj == live or not storable(edit):
            continue
        if not differences(rendered, edit.obj):
            if not edit.may_stay(rendered["kind"]):
                overlooked.append(edit)
            continue
        seen += 1
        server = Server(edit.obj, rendered)
        left = asyncio.run(write_child(server, rendered, rendered, edit.obj))  # type: ignore[arg-type]
        if left or differences(rendered, server.live):
            kept.append((edit, left))

    assert overlooked == []
    assert kept == []
    assert seen > 0
