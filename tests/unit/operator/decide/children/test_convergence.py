from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide.children.drift import differences
from grid_operator.render import render_children
from tests.unit.operator.api.clusters import CONTEXT, FULL_SPEC, make_cluster
from tests.unit.operator.decide.fake_store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Iterator

Path: TypeAlias = tuple[str | int, ...]

# The API server lets nobody change these.
FIXED = {"apiVersion", "kind", "name", "namespace", "ownerReferences", "volumeClaimTemplates"}


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every place below, with what is there."""
    yield path, value
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        if key not in FIXED:
            yield from places(below, (*path, key))


CHILDREN = render_children(make_cluster(FULL_SPEC), CONTEXT)
PLACES = [(child, path, value) for child in CHILDREN for path, value in places(child)]
LEAVES = [(c, p) for c, p, v in PLACES if p and not isinstance(v, dict | list)]
OPEN = [("metadata",), ("metadata", "labels"), ("metadata", "annotations")]
OPEN_OBJECTS = [(child, path) for child in CHILDREN for path in OPEN]


def at(obj: KubeObject, path: Path) -> Any:
    found: Any = obj
    for part in path:
        found = found[part]
    return found


def edited(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}-edited"


def settled_store() -> FakeStore:
    store = FakeStore(FULL_SPEC)
    store.settle()
    return store


def drift(store: FakeStore) -> list[str]:
    rendered = render_children(store.cluster, CONTEXT)
    live = store.objects
    return [d.place for child in rendered for d in differences(child, live[ObjectRef.of(child)])]


@pytest.mark.parametrize("spec", [{}, FULL_SPEC])
def test_new_cluster_settles_ready_and_then_costs_no_write(spec: dict[str, Any]) -> None:
    store = FakeStore(spec)

    store.settle()

    conditions = store.cluster.status.conditions
    assert [c.status.value for c in conditions[:3]] == ["True", "False", "True"]
    assert [store.step() for _ in range(5)] == [0] * 5
    assert store.replaced == []


@settings(max_examples=100)
@given(st.sampled_from(LEAVES))
def test_any_edit_of_an_owned_field_is_set_back(place: tuple[KubeObject, Path]) -> None:
    child, path = place
    store = settled_store()
    holder = at(store.objects[ObjectRef.of(child)], path[:-1])
    holder[path[-1]] = edited(holder[path[-1]])

    assert store.step() > 0

    assert drift(store) == []
    store.settle()
    assert store.step() == 0


@settings(max_examples=50)
@given(st.sampled_from(OPEN_OBJECTS))
def test_any_unowned_field_is_kept_and_costs_nothing(place: tuple[KubeObject, Path]) -> None:
    child, path = place
    store = settled_store()
    at(store.objects[ObjectRef.of(child)], path)["unowned"] = "kept"

    store.run_controller()
    store.settle()
    assert store.step() == 0

    assert at(store.objects[ObjectRef.of(child)], path)["unowned"] == "kept"


@settings(max_examples=30)
@given(st.lists(st.sampled_from(CHILDREN), unique_by=lambda child: str(ObjectRef.of(child))))
def test_deleted_children_are_made_anew(children: list[KubeObject]) -> None:
    store = settled_store()
    for child in children:
        del store.objects[ObjectRef.of(child)]

    store.settle()

    assert drift(store) == []


def test_changed_configuration_replaces_the_pod_once() -> None:
    store = FakeStore()
    store.settle()

    store.change_spec({"maps": [{"name": "orders"}]})
    store.settle()
    assert store.replaced == []
    assert [call.endpoint.name for call in store.calls] == ["CONFIG_UPLOAD"]
    store.calls.clear()

    store.change_spec({"maps": [{"name": "orders", "maxIdleSeconds": 5}]})
    store.settle()

    assert store.replaced == ["demo-0"]
    assert [call.endpoint.name for call in store.calls] == ["MEMBER_SHUTDOWN"]
    assert store.cluster.status.conditions[0].reason == "AllMembersReady"
    assert store.cluster.status.observed_generation == 3


def test_change_that_members_do_not_read_replaces_no_pod() -> None:
    store = FakeStore()
    store.settle()

    store.change_spec({"deletionPolicy": "Delete"})
    store.settle()

    assert store.replaced == []


def test_leftover_child_is_deleted() -> None:
    store = settled_store()
    stray = {**CHILDREN[1], "metadata": {**CHILDREN[1]["metadata"], "name": "demo-stray"}}
    store.objects[ObjectRef.of(stray)] = stray

    store.settle()

    assert ObjectRef.of(stray) not in store.objects


def test_events_tell_what_turned_and_nothing_else() -> None:
    store = settled_store()
    for _ in range(3):
        store.step()

    assert store.events == ["AllMembersReady"]
