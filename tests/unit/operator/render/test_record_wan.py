"""What of a changed `spec.wan` running members can take, and what needs their restart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_member.config import ConfigError
from grid_member.config.model.member import MapConfig
from grid_operator.api.names import CONFIG_HASH_ANNOTATION
from grid_operator.render import SecretContent, desired_state, read_record
from grid_operator.render.configuration.wan import publisher_variables
from tests.unit.operator.api.clusters import WAN_CONTEXT, make_cluster
from tests.unit.operator.render.uploads import planned

if TYPE_CHECKING:
    from grid_operator.api.desired import Desired
    from grid_operator.api.objects import KubeObject

LONDON = {
    "id": "london",
    "targetCluster": "london",
    "target": {"name": "london"},
    "secretName": "london-wan",
}
PARIS = {**LONDON, "id": "paris", "target": {"name": "paris"}}
ROME = {**PARIS, "id": "rome", "secretName": "rome-wan"}
SECRETS = {
    **WAN_CONTEXT.secrets,
    "rome-wan": SecretContent({"username": "wan", "password": "rome-password"}),
}


def spec(*publishers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"wan": [{"name": "r", "publishers": list(publishers)}], **more}


class Life:
    """A StatefulSet that is applied again and again, with members that run."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.secrets = dict(SECRETS)
        self.recorded: dict[str, str] | None = None
        self.desired = self.apply(first)

    def apply(self, wanted: dict[str, Any]) -> Desired:
        context = replace(
            WAN_CONTEXT, secrets=self.secrets, recorded=self.recorded, replicas=1, has_pods=True
        )
        self.desired = desired_state(make_cluster(wanted), context)
        self.recorded = read_record(self.statefulset)
        return self.desired

    @property
    def statefulset(self) -> KubeObject:
        (found,) = (o for o in self.desired.children if o["kind"] == "StatefulSet")
        return found

    @property
    def template(self) -> str:
        return json.dumps(self.statefulset["spec"]["template"], sort_keys=True)

    @property
    def hash(self) -> str:
        template = self.statefulset["spec"]["template"]
        return str(template["metadata"]["annotations"][CONFIG_HASH_ANNOTATION])

    def knows(self, secret: str) -> bool:
        """Return whether the pods' variables hold what is shown by the Secret."""
        return all(name in self.template for name in publisher_variables(secret))


def gone(life: Life) -> tuple[tuple[str, str], ...]:
    return life.desired.wan.gone


def test_a_new_publisher_with_a_secret_that_members_know_restarts_nobody() -> None:
    life = Life(spec(LONDON))
    before = life.template

    life.apply(spec(LONDON, PARIS))

    assert life.template == before
    assert life.desired.changes == ("wan[r].publishers[paris]: new: live",)
    assert life.apply(spec(LONDON, PARIS)).changes == ()
    assert life.template == before


def test_a_new_publisher_with_another_secret_restarts() -> None:
    life = Life(spec(LONDON))
    before = life.hash

    life.apply(spec(LONDON, ROME))

    assert life.hash != before
    assert life.knows("rome-wan")
    assert life.desired.changes == (
        "Secret rome-wan of wan: changed: restart",
        "wan[r].publishers[rome]: new: at the next start",
    )


@pytest.mark.parametrize(
    "change", [{"batchSize": 7}, {"target": {"name": "other"}}, {"targetCluster": "other"}]
)
def test_a_changed_publisher_restarts(change: dict[str, Any]) -> None:
    life = Life(spec(LONDON, PARIS))
    before = life.hash

    life.apply(spec({**LONDON, **change}, PARIS))

    assert life.hash != before
    assert life.desired.changes == ("wan[r].publishers[london]: changed: restart",)


@pytest.mark.parametrize("state", ["Paused", "Stopped", "Manual"])
def test_another_state_restarts_nobody(state: str) -> None:
    life = Life(spec(LONDON))
    before = life.template

    life.apply(spec({**LONDON, "state": state}))

    assert life.template == before
    assert life.desired.changes == ()


def test_a_changed_password_restarts() -> None:
    life = Life(spec(LONDON))
    before = life.hash

    life.secrets["london-wan"] = SecretContent({"username": "wan", "password": "new"})
    life.apply(spec(LONDON))

    assert life.hash != before


def test_a_publisher_that_left_the_spec_restarts_nobody_and_keeps_its_variables() -> None:
    life = Life(spec(LONDON, ROME))
    before = life.template

    life.apply(spec(LONDON))

    assert life.template == before
    assert life.knows("rome-wan")
    assert gone(life) == (("r", "rome"),)
    assert life.desired.changes == ("wan[r].publishers[rome]: removed: live",)
    del life.secrets["rome-wan"]
    assert life.apply(spec(LONDON)).problem is None
    assert life.template == before


def test_one_that_left_is_remembered_over_a_restart_and_its_variables_are_not() -> None:
    life = Life(spec(LONDON))
    life.apply(spec(LONDON, PARIS))

    life.apply({**spec(LONDON), "clusterName": "other"})

    assert gone(life) == (("r", "paris"),)
    life.apply({"clusterName": "another"})
    assert gone(life) == (("r", "london"), ("r", "paris"))
    assert not life.knows("london-wan")


def test_one_that_comes_back_is_wanted_again_without_a_restart() -> None:
    life = Life(spec(LONDON, PARIS))
    before = life.template
    life.apply(spec(LONDON))

    life.apply(spec(LONDON, PARIS))

    assert life.template == before
    assert gone(life) == ()
    assert [p.name for p in life.desired.wan.publishers] == [("r", "london"), ("r", "paris")]


def test_what_is_remembered_is_bounded() -> None:
    life = Life({})
    life.recorded = {"config/size": "1"} | {f"wan/r/{n}": "0" for n in range(200)}

    life.apply({})

    assert len(life.desired.wan.gone) == 64


def test_a_replicated_map_is_given_and_says_what_it_refers_to() -> None:
    life = Life(spec(LONDON))

    live = life.apply(spec(LONDON, maps=[{"name": "m", "wan": {"replication": "r"}}])).live

    (block,) = planned(live.structures, {"r"}).added_blocks
    assert isinstance(block.config, MapConfig)
    assert block.config.wan is not None
    assert (block.name, block.config.wan.replication) == ("m", "r")
    assert live.replications == ("r",)
    assert set(yaml.safe_load(live.structures)["grid"]) == {"map"}
    with pytest.raises(ConfigError, match="no member declares this replication"):
        planned(live.structures, live.replications[1:])


def test_a_cluster_without_wan_has_the_record_of_before() -> None:
    life = Life({})

    assert life.recorded is not None
    assert not [key for key in life.recorded if "wan" in key]
