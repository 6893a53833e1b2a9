"""What members show each other: whether another one restarts several, and when it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grid_operator.render import SecretContent, desired_state
from tests.unit.operator.api.clusters import SECRETS, SECURE_SPEC, make_cluster
from tests.unit.operator.render.test_record import Life


@pytest.mark.parametrize("name", ["ada", "demo-identity"])
def test_another_password_of_several_restarts_them_only_if_they_still_meet(name: str) -> None:
    life = Life({**SECURE_SPEC, "size": 3})
    life.context = replace(life.context, replicas=3, has_pods=True)
    before = life.hash
    other = SecretContent({**SECRETS[name].data, "password": "another"})
    life.context = replace(life.context, secrets={**SECRETS, name: other})

    life.apply()

    assert (life.hash == before) is (life.desired.problem is not None) is (name != "ada")
    life.apply()
    assert (life.desired.problem is not None) is (name != "ada")
    life.context = replace(life.context, replicas=0, has_pods=False)
    life.apply()
    assert (life.hash != before, life.desired.problem) == (True, None)


def test_a_record_without_the_identity_gets_it_and_restarts_nobody() -> None:
    """An earlier operator made it."""
    life = Life({**SECURE_SPEC, "size": 3})
    before, recorded = life.hash, dict(life.context.recorded or {})
    del recorded["identity"]
    life.context = replace(life.context, recorded=recorded, replicas=3, has_pods=True)

    life.apply()

    assert (life.hash, life.desired.problem, life.desired.changes) == (before, None, ())
    assert "identity" in (life.context.recorded or {})


@pytest.mark.parametrize(
    ("claims", "refused"), [(("data-demo-1",), True), (("demo-backup",), False), ((), False)]
)
def test_another_name_is_refused_also_while_stopped_as_long_as_there_is_data(
    claims: tuple[str, ...], refused: bool
) -> None:
    life = Life({"size": 3, "persistence": {"enabled": True}})
    there = tuple({"metadata": {"name": name}, "spec": {}} for name in claims)
    life.context = replace(life.context, claims=there)
    life.spec |= {"clusterName": "other", "runState": "Stopped"}

    desired = desired_state(make_cluster(life.spec, status={"stopped": True}), life.context)

    assert (desired.problem is not None) is refused
