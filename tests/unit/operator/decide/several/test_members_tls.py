"""TLS between members: new clusters have it, and clusters that are there keep what they have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_operator.api.conditions import ConditionType
from grid_operator.api.names import STRUCTURES_ANNOTATION
from grid_operator.render import SecretContent
from tests.unit.operator.api.clusters import SECRETS
from tests.unit.operator.decide.several.test_several import NAMES, condition, three

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject, ObjectRef
    from tests.unit.operator.decide.fake_store import FakeStore

TLS: dict[str, Any] = {"secretName": "member-tls"}
UNSAID: dict[str, Any] = {"size": 3, "tls": TLS}
ON: dict[str, Any] = {"size": 3, "tls": {**TLS, "members": True}}
OFF: dict[str, Any] = {"size": 3, "tls": {**TLS, "members": False}}
ENTRY = "members-tls"


def reference(store: FakeStore) -> ObjectRef:
    return next(ref for ref, obj in store.objects.items() if obj["kind"] == "StatefulSet")


def has_set(store: FakeStore) -> bool:
    return any(obj["kind"] == "StatefulSet" for obj in store.objects.values())


def edit_record(store: FakeStore, change: Callable[[dict[str, str]], None]) -> None:
    annotations = store.objects[reference(store)]["metadata"]["annotations"]
    record = json.loads(annotations[STRUCTURES_ANNOTATION])
    change(record)
    annotations[STRUCTURES_ANNOTATION] = json.dumps(record)


def speaks_tls(store: FakeStore) -> bool:
    """Return whether members that start now speak TLS with each other."""
    found = next(o for o in store.objects.values() if o["kind"] == "ConfigMap")
    network: KubeObject = yaml.safe_load(found["data"]["grid.yaml"])["grid"]["network"]
    return "ssl" in network["cluster"]


def told_to_mount(store: FakeStore) -> set[str]:
    volumes = store.objects[reference(store)]["spec"]["template"]["spec"]["volumes"]
    (volume,) = (v["secret"] for v in volumes if v["name"] == "tls")
    return {item["key"] for item in volume["items"]}


def made_before(store: FakeStore) -> None:
    """Make the cluster one of an operator that knew nothing of TLS between members."""
    store.change_spec(OFF)
    store.settle()
    store.change_status(members_tls=None)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(UNSAID, True), (ON, True), (OFF, False), ({"size": 3}, False)],
    ids=["unsaid", "on", "off", "no TLS"],
)
def test_a_new_cluster_has_it_unless_the_spec_says_otherwise(
    spec: dict[str, Any], expected: bool
) -> None:
    store = three(**spec)
    assert (speaks_tls(store), store.cluster.status.members_tls) == (expected, expected)
    if "tls" in spec:
        assert ("ca.crt" in told_to_mount(store)) is expected
    assert condition(store, ConditionType.READY).status == "True"


def test_a_newer_operator_changes_nothing_of_a_cluster_that_is_there() -> None:
    store = three(**OFF)
    made_before(store)
    template = store.objects[reference(store)]["spec"]["template"]

    store.change_spec(UNSAID)
    store.settle()

    assert store.objects[reference(store)]["spec"]["template"] == template
    assert (speaks_tls(store), store.replaced, store.calls) == (False, [], [])
    assert store.cluster.status.members_tls is False
    assert condition(store, ConditionType.CONFIG_VALID).status == "True"


@pytest.mark.parametrize("before", [UNSAID, OFF], ids=["encrypted", "plain"])
def test_members_keep_what_they_have_when_the_spec_stops_saying_it(before: dict[str, Any]) -> None:
    store = three(**before)
    store.change_spec(UNSAID)
    store.settle()
    assert speaks_tls(store) is (before is UNSAID)
    assert (store.replaced, store.calls) == ([], [])


def test_members_that_get_tls_for_clients_go_on_in_plain_text_among_themselves() -> None:
    store = three(size=3)
    store.change_spec(UNSAID)
    store.settle()
    assert (speaks_tls(store), store.cluster.status.members_tls) == (False, False)
    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
    assert condition(store, ConditionType.READY).status == "True"


@pytest.mark.parametrize("before", [UNSAID, OFF], ids=["encrypted", "plain"])
@pytest.mark.parametrize(
    "lose",
    [
        lambda store: edit_record(store, dict.clear),
        lambda store: store.objects.pop(reference(store)),
    ],
    ids=["record", "StatefulSet"],
)
def test_a_lost_record_is_no_new_cluster(
    before: dict[str, Any], lose: Callable[[FakeStore], None]
) -> None:
    store = three(**before)
    store.change_spec(UNSAID)
    store.settle()

    lose(store)
    for _ in range(3):
        store.step()

    assert speaks_tls(store) is (before is UNSAID)
    assert store.cluster.status.members_tls is (before is UNSAID)
    assert store.replaced == []


def test_pods_of_which_nothing_is_known_are_taken_for_those_of_an_earlier_operator() -> None:
    store = three(**OFF)
    made_before(store)
    store.objects.pop(reference(store))
    store.change_spec(UNSAID)
    for _ in range(3):
        store.step()
    assert (speaks_tls(store), store.replaced) == (False, [])


def test_another_choice_is_refused_although_the_record_is_lost() -> None:
    store = three(**OFF)
    edit_record(store, dict.clear)
    store.change_spec(ON)
    for _ in range(3):
        store.step()
    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.reason, store.replaced) == ("ImmutableIdentity", [])
    assert not speaks_tls(store)


def test_the_status_of_a_former_object_tells_nothing() -> None:
    store = three(**OFF)
    store.objects.clear()
    store.pods.clear()
    store.change_status(observed_uid="of-the-former")
    store.change_spec(UNSAID)
    store.settle()
    assert speaks_tls(store)


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "on disk"])
def test_the_refusal_tells_what_the_way_out_costs(kept: bool) -> None:
    disk = {"persistence": {"enabled": True}} if kept else {}
    store = three(**OFF, **disk)
    store.change_spec({**ON, **disk})
    store.settle()
    message = condition(store, ConditionType.CONFIG_VALID).message
    assert message.startswith("spec.tls.members: ")
    assert ("in memory only is lost" in message) is not kept


def test_a_stopped_cluster_keeps_it_through_its_start_and_changes_it_when_asked() -> None:
    store = three(**OFF)
    for spec, expected in ((UNSAID, False), (ON, True), (UNSAID, True), (OFF, False)):
        store.change_spec({**spec, "runState": "Stopped"})
        store.settle()
        assert store.pods == {}
        store.change_spec(spec)
        store.settle()
        assert (speaks_tls(store), store.cluster.status.members_tls) == (expected, expected)
        assert (sorted(store.pods), store.replaced) == (sorted(NAMES), [])


def test_a_pod_that_is_made_again_during_a_stop_speaks_as_the_others() -> None:
    store = three(**OFF)
    store.change_spec({**ON, "runState": "Stopped"})
    rounds = 0
    while store.pods:
        store.pods.pop("demo-1", None)
        store.step()
        rounds += 1
        assert not (speaks_tls(store) and store.pods)
    assert rounds > 1
    store.change_spec(ON)
    store.settle()
    assert (speaks_tls(store), store.cluster.status.members_tls) == (True, True)


def test_a_secret_without_an_authority_is_refused_with_both_ways_out() -> None:
    store = three(**OFF)
    store.objects.clear()
    store.pods.clear()
    store.change_status(members_tls=None)
    lacking = {k: v for k, v in SECRETS["member-tls"].data.items() if k != "ca.crt"}
    store.secrets = {**SECRETS, "member-tls": SecretContent(lacking)}
    store.change_spec(UNSAID)
    store.settle()
    told = condition(store, ConditionType.CONFIG_VALID)
    assert told.reason == "InvalidSecret"
    assert "has no ca.crt: add it" in told.message
    assert "spec.tls.members: false" in told.message
    store.change_spec(OFF)
    store.settle()
    assert condition(store, ConditionType.CONFIG_VALID).status == "True"


def test_of_an_authority_that_is_lost_later_no_way_out_is_told_that_is_refused() -> None:
    store = three(**UNSAID)
    lacking = {k: v for k, v in SECRETS["member-tls"].data.items() if k != "ca.crt"}
    store.secrets = {**SECRETS, "member-tls": SecretContent(lacking)}
    store.settle()
    told = condition(store, ConditionType.CONFIG_VALID)
    assert told.reason == "InvalidSecret"
    assert "add it, as members check each other by it" in told.message
    assert "spec.tls.members" not in told.message
    assert store.replaced == []


def test_a_single_member_has_nobody_to_speak_with() -> None:
    store = three(size=1, tls={**TLS, "members": True})
    assert store.cluster.status.members_tls is None
    assert told_to_mount(store) == {"tls.crt", "tls.key"}


def test_a_single_member_that_may_not_become_three_speaks_neither() -> None:
    store = three(size=1, tls=TLS)
    store.change_spec(UNSAID)
    store.settle()
    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableSize"
    assert store.cluster.status.members_tls is None

    store.objects.clear()
    store.pods.clear()
    store.settle()

    assert speaks_tls(store)


@pytest.mark.parametrize("before", [UNSAID, OFF], ids=["encrypted", "plain"])
def test_three_members_that_may_not_become_one_keep_what_they_have(before: dict[str, Any]) -> None:
    store = three(**before)
    store.change_spec({**UNSAID, "size": 1})
    store.settle()
    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableSize"
    assert store.cluster.status.members_tls is (before is UNSAID)

    edit_record(store, dict.clear)
    store.change_spec(UNSAID)
    store.settle()

    assert speaks_tls(store) is (before is UNSAID)
    assert store.replaced == []


def test_more_and_fewer_members_go_on_as_they_are() -> None:
    store = three(**UNSAID)
    store.change_spec({**UNSAID, "size": 5})
    store.settle()
    assert speaks_tls(store)
    assert condition(store, ConditionType.CONFIG_VALID).status == "True"


SPECS = (UNSAID, ON, OFF, {"size": 3}, {**UNSAID, "logging": {"format": "Text"}})
CHANGES = st.tuples(st.sampled_from(SPECS), st.sampled_from(["Running", "Stopped"]))
ACCIDENTS = st.sampled_from(["none", "record", "StatefulSet", "pod"])


class Watched:
    """A cluster of which is noted what each member speaks, from what is there when it starts."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.store = three(**spec)
        self._spoken = dict.fromkeys(self._alive(), speaks_tls(self.store))
        self._spared = False

    def _alive(self) -> list[str]:
        return [pod["metadata"]["uid"] for pod in self.store.pods.values()]

    def change(self, spec: dict[str, Any], run_state: str) -> None:
        self.store.change_spec({**spec, "runState": run_state})

    def befall(self, accident: str) -> None:
        if not has_set(self.store):
            return
        if accident == "record":
            edit_record(self.store, dict.clear)
        elif accident == "StatefulSet":
            self.store.objects.pop(reference(self.store))
        elif accident == "pod":
            self.store.pods.pop("demo-1", None)

    def step(self) -> None:
        self.store.step()
        alive = self._alive()
        now = speaks_tls(self.store)
        self._spoken = {uid: self._spoken.get(uid, now) for uid in alive}
        spec = self.store.cluster.spec
        # One that is made again in the course of a stop that takes TLS away has no certificate.
        lost = spec.tls is None and spec.run_state == "Stopped"
        self._spared = bool(alive) and (lost or self._spared)
        one = len(set(self._spoken.values())) <= 1
        assert one or self._spared, "some speak TLS, and some plain text"


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([UNSAID, ON, OFF, {"size": 3}]),
    st.lists(st.tuples(CHANGES, ACCIDENTS, st.integers(1, 12)), min_size=1, max_size=5),
)
def test_no_change_divides_members(
    first: dict[str, Any],
    course: list[tuple[tuple[dict[str, Any], str], str, int]],
) -> None:
    """Whatever is edited, and whatever gets lost meanwhile, all that run speak the same."""
    watched = Watched(first)
    for (spec, run_state), accident, steps in course:
        watched.change(spec, run_state)
        for step in range(steps):
            watched.step()
            if step == 0:
                watched.befall(accident)
    watched.change(UNSAID, "Running")
    watched.store.settle()
