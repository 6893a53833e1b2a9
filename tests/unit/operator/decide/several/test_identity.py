"""What members show each other changes for all of them at once, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType
from grid_operator.decide.calls import Endpoint
from grid_operator.render import SecretContent
from tests.unit.operator.api.clusters import SECRETS
from tests.unit.operator.decide.several.test_several import NAMES, condition, three

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from tests.unit.operator.decide.fake_store import FakeStore

SECURE: dict[str, Any] = {"size": 3, "security": {"enabled": True}}
PLAIN: dict[str, Any] = {"size": 3, "tls": {"secretName": "member-tls", "members": False}}
ENCRYPTED: dict[str, Any] = {"size": 3, "tls": {"secretName": "member-tls"}}
KEPT: dict[str, Any] = {"size": 3, "persistence": {"enabled": True}}
OTHER = SecretContent({"username": "member", "password": "another"}, owned=True)
CHANGES: list[tuple[dict[str, Any], dict[str, Any], bool, str]] = [
    ({"size": 3}, {"size": 3, "clusterName": "other"}, False, "spec.clusterName"),
    ({"size": 3}, SECURE, False, "spec.security.enabled"),
    (SECURE, {"size": 3}, False, "spec.security.enabled"),
    (SECURE, SECURE, True, "Secret demo-identity"),
    (PLAIN, {"size": 3, "tls": {**PLAIN["tls"], "members": True}}, False, "spec.tls.members"),
    (ENCRYPTED, PLAIN, False, "spec.tls.members"),
    (ENCRYPTED, {"size": 3}, False, "spec.tls"),
    ({"size": 3}, {"size": 3, "tls": {**PLAIN["tls"], "members": True}}, False, "spec.tls.members"),
]
IDS = ["name", "security on", "security off", "secret"]
IDS += ["members' TLS on", "members' TLS off", "no TLS any more", "TLS and members' TLS"]


def change(store: FakeStore, spec: dict[str, Any], another_secret: bool) -> None:
    store.change_spec(spec)
    if another_secret:
        store.secrets = {**SECRETS, "demo-identity": OTHER}


def template(store: FakeStore) -> KubeObject:
    found = next(o for o in store.objects.values() if o["kind"] == "StatefulSet")
    template: KubeObject = found["spec"]["template"]
    return template


@pytest.mark.parametrize(("before", "after", "secret", "field"), CHANGES, ids=IDS)
def test_another_identity_is_refused_while_members_run(
    before: dict[str, Any], after: dict[str, Any], secret: bool, field: str
) -> None:
    store = three(**before)
    pods, made = dict(store.pods), template(store)

    change(store, after, secret)
    store.settle()

    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.status, told.reason) == ("False", "ImmutableIdentity")
    assert told.message.startswith(field)
    assert "spec.runState: Stopped" in told.message
    assert (store.pods, store.replaced, store.calls) == (pods, [], [])
    assert template(store) == made

    store.secrets = SECRETS
    store.change_spec(before)
    store.settle()
    assert condition(store, ConditionType.READY).status == "True"
    assert (store.pods, store.calls) == (pods, [])


@pytest.mark.parametrize("together", [False, True], ids=["stopped first", "with the stop"])
@pytest.mark.parametrize(("before", "after", "secret", "field"), CHANGES, ids=IDS)
def test_a_stop_lets_all_of_them_have_it_at_once(
    before: dict[str, Any], after: dict[str, Any], secret: bool, field: str, together: bool
) -> None:
    store = three(**before)
    if not together:
        store.change_spec({**before, "runState": "Stopped"})
        store.settle()
    change(store, {**after, "runState": "Stopped"}, secret)
    store.settle()
    assert store.cluster.status.stopped, field
    assert (store.pods, store.replaced) == ({}, [])

    store.change_spec(after)
    store.settle()

    assert condition(store, ConditionType.READY).status == "True"
    assert (sorted(store.pods), store.replaced) == (sorted(NAMES), [])
    assert Endpoint.MEMBER_SHUTDOWN not in {call.endpoint for call in store.calls}


@pytest.mark.parametrize(("before", "after", "secret", "field"), CHANGES, ids=IDS)
def test_a_stop_that_is_taken_back_before_it_begins_leaves_all_as_it_was(
    before: dict[str, Any], after: dict[str, Any], secret: bool, field: str
) -> None:
    """A backup is waited for by a stop; meanwhile nothing tells that members have changed."""
    store = three(**before)
    change(store, {**after, "runState": "Stopped"}, secret)
    store.perform_objects()
    store.change_spec(after)
    for _ in range(5):
        store.step()

    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.reason, told.message.startswith(field)) == ("ImmutableIdentity", True)
    assert (store.replaced, store.calls) == ([], [])


def test_members_with_data_never_get_another_name() -> None:
    store = three(**KEPT)
    store.change_spec({**KEPT, "clusterName": "other"})
    store.settle()
    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableIdentity"
    assert "restoreFrom" in condition(store, ConditionType.CONFIG_VALID).message
    assert (store.replaced, store.calls) == ([], [])


def test_a_lost_management_password_is_not_taken_for_another_identity() -> None:
    """Digests have it as their key, and only new pods take a new one."""
    store = three(**SECURE)
    store.management_password = "made anew"
    store.settle()
    assert condition(store, ConditionType.CONFIG_VALID).status == "True"
    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
