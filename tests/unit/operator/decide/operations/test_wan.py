"""What members are told of WAN replication: publishers and their states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from grid_member.config import ConfigError
from grid_operator.decide.calls import CallDone, CallOutcome, CallRefused, Endpoint, MemberCall
from grid_operator.decide.model import WanPublisherView
from tests.unit.operator.api.clusters import WAN_CONTEXT
from tests.unit.operator.decide.fake_store import MAX_ROUNDS, WELL, FakeStore
from tests.unit.operator.render.test_record_wan import LONDON, PARIS, ROME, SECRETS, spec
from tests.unit.operator.render.uploads import planned

STATES = {
    Endpoint.WAN_PAUSE: "PAUSED",
    Endpoint.WAN_RESUME: "REPLICATING",
    Endpoint.WAN_STOP: "STOPPED",
}
NAMES = ("demo-0", "demo-1", "demo-2")
R_PARIS, R_LONDON = ("r", "paris"), ("r", "london")


NEW_MAP = {"name": "m", "wan": {"replication": "new"}}
NO_REALM = CallRefused("answered 409: nothing is added: member x: no realm", conflict=True)


def added_publisher(call: MemberCall) -> tuple[str, str]:
    """Return replication and id of the publisher that `addWanConfig` is to add."""
    content = json.loads(call.parameter or "")
    return content["name"], content["batchPublishers"][0]["publisherId"]


class Grid(FakeStore):
    """Three members that agree on publishers, and each of which has a state of its own.

    They take an upload as real members do.
    """

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.shown: dict[tuple[str, str], dict[str, str]] = {}
        self.reason = ""
        self.refused: dict[tuple[str, str], CallRefused] = {}
        """What the members have against publishers that are to be added."""
        super().__init__({"size": 3, **wanted})
        self.secrets = SECRETS
        self.management_password = WAN_CONTEXT.management_password
        for publisher in wanted.get("wan", [{}])[0].get("publishers", ()):
            self.agree(publisher["id"])
        self.refresh()
        self.settle()

    def agree(self, publisher: str, state: str = "REPLICATING") -> None:
        self.shown["r", publisher] = dict.fromkeys(NAMES, state)

    def refresh(self) -> None:
        wan = tuple(WanPublisherView(*n, states, self.reason) for n, states in self.shown.items())
        self.views = {name: replace(WELL, uuid=name, cluster_size=3, wan=wan) for name in NAMES}

    def step(self) -> int:
        writes = super().step()
        self.refresh()
        return writes

    def answer_to(self, call: MemberCall) -> CallOutcome:
        answer = self.answer
        if call.endpoint is Endpoint.CONFIG_UPLOAD:
            answer = self.upload_answer(call.parameter or "")
        elif call.endpoint is Endpoint.WAN_ADD:
            answer = self.refused.get(added_publisher(call), answer)
        if isinstance(answer, CallDone):
            self.take(call)
        return answer

    def upload_answer(self, text: str) -> CallOutcome:
        try:
            planned(text, {replication for replication, _ in self.shown})
        except ConfigError as error:
            return CallRefused(f"answered 400: {error.problems[0]}")
        return CallDone()

    def take(self, call: MemberCall) -> None:
        if call.endpoint is Endpoint.WAN_ADD:
            self.shown[added_publisher(call)] = dict.fromkeys(NAMES, "REPLICATING")
            return
        replication, _, publisher = (call.parameter or "").partition("&")
        if call.endpoint is Endpoint.WAN_REMOVE:
            del self.shown[replication, publisher]
        elif call.endpoint in STATES:
            name = call.pod["metadata"]["name"]
            self.shown[replication, publisher][name] = STATES[call.endpoint]

    def change(self, *publishers: dict[str, Any], **more: Any) -> None:
        self.change_spec({"size": 3, **spec(*publishers), **more})

    def told(self) -> list[tuple[str, str]]:
        return [(c.endpoint.name, c.pod["metadata"]["name"]) for c in self.calls]

    def ended(self) -> list[tuple[str, str, str]]:
        return [(f.kind, f.target, f.outcome) for f in self.cluster.status.last_operations]


def test_a_cluster_whose_members_show_the_spec_costs_no_write() -> None:
    grid = Grid(spec(LONDON, PARIS))

    assert grid.settle() == 0
    assert grid.calls == []


def test_a_new_publisher_is_added_once_and_restarts_nobody() -> None:
    grid = Grid(spec(LONDON))

    grid.change(LONDON, PARIS)
    grid.settle()

    assert grid.told() == [("WAN_ADD", "demo-0")]
    assert '"publisherId": "paris"' in (grid.calls[0].parameter or "")
    assert grid.replaced == []
    assert grid.ended() == [("WanPublisher", "r/paris", "Succeeded")]
    assert grid.settle() == 0


def test_one_with_a_secret_that_members_lack_comes_with_their_restart() -> None:
    grid = Grid(spec(LONDON))
    grid.change(LONDON, ROME)
    while len(grid.replaced) < len(NAMES):
        grid.step()
    grid.agree("rome")
    grid.refresh()
    grid.settle()

    assert {name for name, _ in grid.told()} == {"MEMBER_SHUTDOWN"}
    assert sorted(grid.replaced) == sorted(NAMES)


def test_a_publisher_that_left_the_spec_is_removed_and_restarts_nobody() -> None:
    grid = Grid(spec(LONDON, PARIS))

    grid.change(LONDON)
    grid.settle()

    assert grid.told() == [("WAN_REMOVE", "demo-0")]
    assert grid.calls[0].parameter == "r&paris"
    assert set(grid.shown) == {R_LONDON}
    assert grid.replaced == []
    assert grid.settle() == 0


def test_a_publisher_that_was_never_in_the_spec_is_left_alone() -> None:
    grid = Grid(spec(LONDON))
    grid.agree("by-hand")
    grid.settle()

    assert grid.calls == []


def test_one_that_somebody_removed_is_added_again() -> None:
    grid = Grid(spec(LONDON, PARIS))
    del grid.shown[R_PARIS]
    grid.refresh()

    grid.settle()

    assert grid.told() == [("WAN_ADD", "demo-0")]


@pytest.mark.parametrize(
    ("state", "call"),
    [("Paused", "WAN_PAUSE"), ("Stopped", "WAN_STOP")],
)
def test_a_state_is_told_to_every_member_once(state: str, call: str) -> None:
    grid = Grid(spec(LONDON))

    grid.change({**LONDON, "state": state})
    grid.settle()

    assert grid.told() == [(call, name) for name in NAMES]
    assert len({c.key for c in grid.calls}) == 3
    assert set(grid.shown[R_LONDON].values()) == {state.upper()}
    assert grid.ended() == [("WanState", "r/london", "Succeeded")]
    assert grid.replaced == []
    grid.change(LONDON)
    grid.settle()
    assert set(grid.shown[R_LONDON].values()) == {"REPLICATING"}


def test_a_member_that_shows_another_state_is_told_and_no_other() -> None:
    grid = Grid(spec(LONDON))
    grid.shown[R_LONDON]["demo-1"] = "STOPPED"
    grid.refresh()

    grid.settle()

    assert grid.told() == [("WAN_RESUME", "demo-1")]


def test_a_state_that_somebody_changes_while_it_is_confirmed_is_told_again() -> None:
    grid = Grid(spec(LONDON))
    grid.change({**LONDON, "state": "Paused"})
    while not grid.calls:
        grid.step()
    grid.shown[R_LONDON]["demo-0"] = "STOPPED"
    grid.refresh()

    grid.settle()

    told = [c.key for c in grid.calls if c.pod["metadata"]["name"] == "demo-0"]
    assert len(set(told)) == len(told) == 2
    assert set(grid.shown[R_LONDON].values()) == {"PAUSED"}


def test_manual_leaves_the_members_alone() -> None:
    grid = Grid(spec({**LONDON, "state": "Manual"}))
    grid.shown[R_LONDON]["demo-1"] = "STOPPED"
    grid.refresh()

    assert grid.settle() == 0
    assert grid.calls == []


def test_a_restored_cluster_stays_paused_until_a_person_resumes_it() -> None:
    grid = Grid(spec(LONDON))
    grid.reason = "the cluster began as a backup: the publisher is paused until it is resumed"
    grid.agree("london", "PAUSED")
    grid.refresh()

    assert grid.settle() == 0
    assert grid.calls == []


def test_nobody_is_told_anything_while_no_member_tells() -> None:
    grid = Grid(spec(LONDON))
    grid.change(LONDON, PARIS)
    blind = {name: replace(WELL, uuid=name, cluster_size=3) for name in NAMES}

    for _ in range(5):
        grid.views = blind
        FakeStore.step(grid)

    assert grid.calls == []


def test_what_members_refuse_is_told_and_tried_again_later() -> None:
    grid = Grid(spec(LONDON))
    grid.answer = NO_REALM
    grid.change(LONDON, PARIS)

    for _ in range(MAX_ROUNDS):
        grid.step()

    (failed, *_) = grid.cluster.status.last_operations
    assert (failed.kind, failed.outcome) == ("WanPublisher", "Failed")
    assert "no realm" in failed.message
    grid.answer = CallDone()
    grid.settle()
    assert R_PARIS in grid.shown


def with_new_map(*publishers: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with another replication, of these publishers, and a map that refers to it."""
    return {
        "wan": [*spec(LONDON)["wan"], {"name": "new", "publishers": list(publishers)}],
        "maps": [NEW_MAP],
    }


def test_a_new_map_is_given_after_the_new_replication_that_it_refers_to() -> None:
    grid = Grid(spec(LONDON))

    grid.change(**with_new_map(PARIS))
    grid.settle()

    uploads = [("CONFIG_UPLOAD", name) for name in NAMES]
    assert grid.told() == [("WAN_ADD", "demo-0"), *uploads]
    assert {outcome for _, _, outcome in grid.ended()} == {"Succeeded"}
    assert grid.replaced == []


def test_a_publisher_that_members_refuse_holds_up_no_other_one() -> None:
    grid = Grid(spec(LONDON))
    rome = {**PARIS, "id": "rome"}
    grid.refused = {("new", "paris"): NO_REALM}

    grid.change(**with_new_map(PARIS, rome))
    for _ in range(MAX_ROUNDS):
        grid.step()

    assert ("new", "rome") in grid.shown
    assert {(kind, outcome) for kind, _, outcome in grid.ended()} == {
        ("WanPublisher", "Failed"),
        ("WanPublisher", "Succeeded"),
        ("ApplyLive", "Succeeded"),
    }


def test_a_map_waits_while_its_replication_cannot_be_added() -> None:
    grid = Grid(spec(LONDON))
    grid.refused = {("new", "paris"): NO_REALM}

    grid.change(**with_new_map(PARIS))
    for _ in range(MAX_ROUNDS):
        grid.step()

    assert {kind for kind, _, _ in grid.ended()} == {"WanPublisher"}
    grid.refused = {}
    grid.settle()
    assert {name for call, name in grid.told() if call == "CONFIG_UPLOAD"} == set(NAMES)


def test_a_member_that_does_not_show_the_replication_yet_is_waited_for() -> None:
    grid = Grid(spec(LONDON))
    grid.change(**with_new_map(PARIS))
    grid.shown["new", "paris"] = dict.fromkeys(NAMES, "REPLICATING")
    grid.refresh()
    blind = replace(WELL, uuid="demo-0", cluster_size=3)

    for _ in range(5):
        grid.views = {**grid.views, "demo-0": blind}
        FakeStore.step(grid)

    assert grid.calls == []
    (progressing,) = (c for c in grid.cluster.status.conditions if c.type == "Progressing")
    assert progressing.message == (
        "demo-0 is given its new maps when it shows a publisher of replication new, which they "
        "refer to"
    )
    grid.refresh()
    grid.settle()
    assert {outcome for _, _, outcome in grid.ended()} == {"Succeeded"}


def test_a_wish_that_is_taken_back_ends_the_operation() -> None:
    grid = Grid(spec(LONDON))
    grid.answer = CallRefused("answered 503")
    grid.change({**LONDON, "state": "Paused"})
    for _ in range(3):
        grid.step()

    grid.change(LONDON)
    grid.settle()

    assert grid.ended() == [("WanState", "r/london", "Interrupted")]


def test_an_operator_that_dies_before_the_call_makes_the_same_call_again() -> None:
    grid = Grid(spec(LONDON))
    grid.change({**LONDON, "state": "Paused"})
    grid.step()
    grid.answer = CallRefused("answered 503")
    grid.step()
    first = grid.calls[-1]

    grid.step()

    assert (grid.calls[-1].key, grid.calls[-1].pod["metadata"]["name"]) == (first.key, "demo-0")
