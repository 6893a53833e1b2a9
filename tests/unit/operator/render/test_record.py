"""Which changes running members take, which restart them, and what is said about it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from grid_member.config.load import config_from, parse_config
from grid_operator.api.names import CONFIG_HASH_ANNOTATION, STRUCTURES_ANNOTATION
from grid_operator.render import SecretContent, desired_state, read_record
from tests.unit.operator.api.clusters import CONTEXT, SECRETS, SECURE_SPEC, make_cluster

if TYPE_CHECKING:
    from grid_operator.api.desired import Desired
    from grid_operator.api.objects import KubeObject
    from grid_operator.render import RenderContext

START: dict[str, Any] = {
    "maps": [{"name": "m1"}, {"name": "m2", "timeToLiveSeconds": 5}],
    "queues": [{"name": "q1"}],
    "license": {"secretName": "license"},
}
M1, M2, Q1 = START["maps"][0], START["maps"][1], START["queues"][0]
NEW = {"name": "new", "maxIdleSeconds": 9}


class Life:
    """One cluster whose StatefulSet carries on the record from change to change."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        self.context: RenderContext = CONTEXT
        self.spec = copy.deepcopy(START if spec is None else spec)
        self.desired: Desired
        self.apply()

    def apply(self, **spec: Any) -> Desired:
        self.spec |= spec
        self.desired = desired_state(make_cluster(self.spec), self.context)
        self.context = replace(self.context, recorded=read_record(self.statefulset))
        return self.desired

    @property
    def statefulset(self) -> KubeObject:
        return next(c for c in self.desired.children if c["kind"] == "StatefulSet")

    @property
    def hash(self) -> str:
        annotations = self.statefulset["spec"]["template"]["metadata"]["annotations"]
        return str(annotations[CONFIG_HASH_ANNOTATION])

    def given(self) -> dict[str, Any]:
        """Return the structures that are given to members, by section."""
        text = self.desired.live.structures
        return dict(yaml.safe_load(text)["grid"]) if text else {}


def test_at_first_all_is_read_at_start_and_only_the_license_given() -> None:
    life = Life()

    assert life.given() == {}
    assert life.desired.live.log_level == ""
    assert life.desired.live.license == "a-license"
    assert life.desired.live.digest
    assert life.desired.changes == ()


def test_nothing_to_give_has_no_digest() -> None:
    assert Life({}).desired.live.digest == ""


def test_an_unchanged_cluster_renders_the_same() -> None:
    life = Life()
    before = life.desired

    assert life.apply() == before


@pytest.mark.parametrize(
    ("change", "section", "name"),
    [
        ({"maps": [M1, M2, NEW]}, "map", "new"),
        ({"queues": [Q1, {"name": "new", "maxSize": 3}]}, "queue", "new"),
    ],
)
def test_a_new_structure_is_given(change: dict[str, Any], section: str, name: str) -> None:
    life = Life()
    before, digest = life.hash, life.desired.live.digest

    life.apply(**change)

    assert life.hash == before
    assert set(life.given()) == {section}
    assert set(life.given()[section]) == {name}
    assert life.desired.live.digest != digest
    assert life.desired.changes == (f"{section}s[new]: new: live",)


def test_what_was_given_stays_given_without_further_ado() -> None:
    life = Life()
    life.apply(maps=[M1, M2, NEW])
    first = life.desired.live

    again = life.apply()

    assert again.live == first
    assert again.changes == ()


def test_members_take_what_they_are_given() -> None:
    life = Life()
    life.apply(maps=[M1, M2, NEW, {"name": "é & \u0085x"}], queues=[Q1, {"name": "[q]"}])

    config = parse_config(life.desired.live.structures, "upload", {})

    assert set(config.maps) == {"new", "é & \u0085x"}
    assert config.maps["new"] == config_from({"map": {"new": {"max-idle-seconds": 9}}}).maps["new"]
    assert set(config.queues) == {"[q]"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"maps": [M1, {**M2, "timeToLiveSeconds": 6}]}, "maps[m2]: changed: restart"),
        ({"queues": [{**Q1, "maxSize": 1}]}, "queues[q1]: changed: restart"),
        ({"clusterName": "other"}, "cluster-name: changed: restart"),
        ({"rest": {"port": 6000}}, "network: changed: restart"),
        ({"logging": {"format": "Text"}}, "logging: changed: restart"),
        ({"security": {"enabled": True}}, "security: changed: restart"),
    ],
)
def test_another_change_restarts(change: dict[str, Any], told: str) -> None:
    life = Life()
    before = life.hash

    life.apply(**change)

    assert life.hash != before
    assert told in life.desired.changes
    assert life.apply().changes == ()


def test_a_structure_that_was_given_and_changes_restarts() -> None:
    life = Life()
    life.apply(maps=[M1, M2, NEW])
    before = life.hash

    life.apply(maps=[M1, M2, {**NEW, "maxIdleSeconds": 10}])

    assert life.hash != before
    assert life.given() == {}
    assert life.desired.changes == ("maps[new]: changed: restart",)


def test_a_restart_for_another_reason_reads_what_was_given() -> None:
    life = Life()
    life.apply(maps=[M1, M2, NEW])
    life.apply(clusterName="other")

    assert life.given() == {}


def test_a_change_that_is_taken_back_brings_the_template_back() -> None:
    life = Life()
    before = life.statefulset

    life.apply(clusterName="other")
    life.apply(clusterName="dev")

    assert life.statefulset == before


def test_a_removed_structure_changes_nothing_but_is_told_once() -> None:
    life = Life()
    before, live = life.hash, life.desired.live

    life.apply(maps=[M1])

    assert (life.hash, life.desired.live) == (before, live)
    assert life.desired.changes == ("maps[m2]: removed: members keep its data",)
    assert life.apply().changes == ()


def test_a_removed_structure_that_comes_back_as_it_was_is_given_again() -> None:
    """Members that were restarted meanwhile have lost it; the others ignore it."""
    life = Life()
    before = life.hash

    life.apply(maps=[M1])
    life.apply(maps=[M1, M2])
    assert set(life.given()["map"]) == {"m2"}
    assert life.hash == before

    life.apply(maps=[M1])
    assert life.given() == {}
    assert life.hash == before


def test_a_removed_structure_that_comes_back_otherwise_restarts() -> None:
    life = Life()
    before = life.hash

    life.apply(maps=[M1])
    life.apply(maps=[M1, {**M2, "timeToLiveSeconds": 7}])

    assert life.hash != before


def test_a_removed_structure_that_was_given_is_no_longer_given_but_known() -> None:
    life = Life()
    life.apply(maps=[M1, M2, NEW])
    before = life.hash
    life.apply(maps=[M1, M2])
    assert life.given() == {}

    life.apply(maps=[M1, M2, NEW])
    assert set(life.given()["map"]) == {"new"}
    assert life.hash == before
    life.apply(maps=[M1, M2])
    life.apply(maps=[M1, M2, {**NEW, "maxIdleSeconds": 1}])
    assert life.hash != before


def test_a_log_level_is_given_and_given_back() -> None:
    life = Life()
    before = life.hash

    assert life.apply(logging={"level": "Debug"}).live.log_level == "FINE"
    assert life.desired.changes == ("log-level: changed: live",)
    assert life.apply(logging={"level": "Info"}).live.log_level == "INFO"
    assert life.hash == before


@pytest.mark.parametrize(
    ("level", "given"), [("Debug", "FINE"), ("Warning", "WARNING"), ("Error", "SEVERE")]
)
def test_log_levels_are_those_that_members_know(level: str, given: str) -> None:
    from grid_member.telemetry.levels import LEVELS

    assert Life().apply(logging={"level": level}).live.log_level == given
    assert given in LEVELS


def test_a_new_license_is_given() -> None:
    life = Life()
    before, live = life.hash, life.desired.live
    other = SecretContent({"license": "another"})
    life.context = replace(life.context, secrets={**SECRETS, "license": other})

    life.apply()

    assert life.hash == before
    assert life.desired.live.license == "another"
    assert life.desired.live.digest != live.digest
    assert life.desired.changes == ("license: changed: live",)


@pytest.mark.parametrize("name", ["ada", "demo-identity"])
def test_another_password_restarts(name: str) -> None:
    life = Life(SECURE_SPEC)
    before = life.hash
    other = SecretContent({**SECRETS[name].data, "password": "another"})
    life.context = replace(life.context, secrets={**SECRETS, name: other})

    life.apply()

    assert life.hash != before
    assert life.desired.changes == ("credentials: changed: restart",)


def test_another_certificate_changes_nothing() -> None:
    life = Life(SECURE_SPEC)
    before = life.desired
    other = SecretContent({"tls.crt": "c2", "tls.key": "k2", "ca.crt": "ca2"})
    life.context = replace(life.context, secrets={**SECRETS, "member-tls": other})

    assert life.apply() == before


def test_without_pods_everything_is_read_at_the_next_start() -> None:
    life = Life()
    spec = {**START, "maps": [M1, M2, NEW]}

    stopped = desired_state(make_cluster(spec, status={"stopped": True}), life.context)

    assert stopped.live.structures == ""
    assert stopped.changes == ("maps[new]: new: at the next start",)


@pytest.mark.parametrize("annotation", ["", "{", "[]", '{"config/network": 7}'])
def test_a_record_that_cannot_be_read_is_renewed(annotation: str) -> None:
    life = Life()
    before = life.hash
    damaged = copy.deepcopy(life.statefulset)
    damaged["metadata"]["annotations"][STRUCTURES_ANNOTATION] = annotation
    life.context = replace(life.context, recorded=read_record(damaged))

    life.apply()

    assert life.hash == before
    assert life.given() == {}


def test_the_record_holds_no_secret_and_no_digest_of_one_alone() -> None:
    life = Life(SECURE_SPEC)
    text = life.statefulset["metadata"]["annotations"][STRUCTURES_ANNOTATION]
    record = json.loads(text)
    other = replace(CONTEXT, management_password="another")

    again = desired_state(make_cluster(SECURE_SPEC), other).children
    other_record = read_record(next(c for c in again if c["kind"] == "StatefulSet"))

    assert "password" not in text
    for key in ("config/credentials", "live/license"):
        assert record[key] != other_record[key]


def test_the_record_of_the_largest_spec_fits_into_an_annotation() -> None:
    names = [f"{index:03}" + '"' * 252 for index in range(256)]
    life = Life({kind: [{"name": n} for n in names] for kind in ("maps", "queues")})

    assert len(life.statefulset["metadata"]["annotations"][STRUCTURES_ANNOTATION]) < 100_000


class Member:
    """What members do with their file at start and with what they are given."""

    def __init__(self) -> None:
        self.hash = ""
        self.has: dict[str, dict[str, Any]] = {"map": {}, "queue": {}}

    def follow(self, life: Life) -> None:
        if life.hash != self.hash:
            self.hash = life.hash
            self.start(life)
        for section, found in life.given().items():
            for name, element in found.items():
                self.has[section].setdefault(name, element)  # what is there is not changed

    def start(self, life: Life) -> None:
        config = next(c for c in life.desired.children if c["kind"] == "ConfigMap")
        tree = yaml.safe_load(config["data"]["grid.yaml"])["grid"]
        self.has = {section: dict(tree.get(section, {})) for section in self.has}


SETTINGS = st.fixed_dictionaries(
    {
        "maps": st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
        "queues": st.dictionaries(st.just("a"), st.integers(0, 1)),
        "clusterName": st.sampled_from(["dev"] * 5 + ["other"]),
    }
)


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SETTINGS, st.booleans()), min_size=1, max_size=6))
def test_whatever_changes_members_end_up_with_what_the_spec_says(
    changes: list[tuple[dict[str, Any], bool]],
) -> None:
    life, member = Life({}), Member()
    for wanted, restarted in changes:
        life.apply(
            maps=[{"name": n, "timeToLiveSeconds": v} for n, v in wanted["maps"].items()],
            queues=[{"name": n, "maxSize": v} for n, v in wanted["queues"].items()],
            clusterName=wanted["clusterName"],
        )
        if restarted:
            member.start(life)  # its container was restarted by itself
        member.follow(life)

        maps = {n: e["time-to-live-seconds"] for n, e in member.has["map"].items()}
        queues = {n: e["max-size"] for n, e in member.has["queue"].items()}
        assert wanted["maps"].items() <= maps.items()
        assert wanted["queues"].items() <= queues.items()
