from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.render import (
    SecretContent,
    complete_secrets,
    desired_state,
    named_secrets,
    secret_content,
)
from tests.unit.operator.api.clusters import CONTEXT, SECRETS, SECURE_SPEC, make_cluster

if TYPE_CHECKING:
    from grid_operator.api.desired import Desired
    from grid_operator.api.objects import KubeObject

CLUSTER = make_cluster(SECURE_SPEC)
ONE_USER: dict[str, Any] = {
    "security": {"enabled": True, "users": [{"name": "ada", "secretName": "ada"}]}
}


def desired(secrets: dict[str, SecretContent], spec: dict[str, Any] = SECURE_SPEC) -> Desired:
    return desired_state(make_cluster(spec), replace(CONTEXT, secrets=secrets))


def secret(**data: bytes) -> KubeObject:
    encoded = {key.replace("_", "."): base64.b64encode(v).decode() for key, v in data.items()}
    return {"metadata": {"name": "s"}, "data": encoded}


def test_every_secret_of_the_spec_is_named() -> None:
    assert named_secrets(CLUSTER) == ("ada", "bob", "demo-identity", "license", "member-tls")
    assert named_secrets(make_cluster()) == ()


def test_absent_users_and_identity_are_made_and_nothing_else() -> None:
    passwords = iter(["p1", "p2", "p3"])

    made = complete_secrets(CLUSTER, {}, None, False, lambda: next(passwords))

    assert set(made) == {"ada", "bob", "demo-identity"}
    assert {content.data["username"] for content in made.values()} == {"ada", "bob", "member"}
    assert len({content.data["password"] for content in made.values()}) == 3
    assert all(content.owned for content in made.values())


def test_what_is_there_is_taken_as_it_is() -> None:
    found = {"ada": SecretContent({"password": "hers"})}

    made = complete_secrets(CLUSTER, found, None, False, lambda: "random")

    assert made["ada"] is found["ada"]


@pytest.mark.parametrize(
    ("recorded", "has_pods", "made"),
    [
        ({"secret/ada": "1"}, True, False),
        ({"secret/ada": "1"}, False, True),
        ({"secret/bob": "1"}, True, True),
        (None, True, True),
    ],
)
def test_a_lost_secret_is_not_made_anew_while_members_use_it(
    recorded: dict[str, str] | None, has_pods: bool, made: bool
) -> None:
    found = complete_secrets(CLUSTER, {}, recorded, has_pods, lambda: "random")

    assert ("ada" in found) == made


def test_made_secrets_are_children_and_those_of_others_are_not() -> None:
    children = [c for c in desired(SECRETS).children if c["kind"] == "Secret"]

    assert {c["metadata"]["name"] for c in children} == {"demo-management", "demo-identity", "ada"}
    ada = next(c for c in children if c["metadata"]["name"] == "ada")
    assert {k: base64.b64decode(v).decode() for k, v in ada["data"].items()} == {
        "username": "ada",
        "password": "ada-password",
    }


def test_content_is_decoded_and_belongs_to_whom_its_owner_says() -> None:
    own = secret(password=b"x", other=b"\xff")
    own["metadata"]["ownerReferences"] = [{"uid": "uid-1"}]

    assert secret_content(own, CLUSTER) == SecretContent({"password": "x"}, owned=True)
    assert secret_content(secret(password=b"x"), CLUSTER).owned is False
    assert secret_content({"metadata": {}, "data": {"a": "?"}}, CLUSTER).data == {}
    assert secret_content({"metadata": {}}, CLUSTER).data == {}


def test_nothing_speaks_against_secrets_that_are_whole() -> None:
    assert desired(SECRETS).problem is None
    assert desired({}, {}).problem is None


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_missing_secret_is_told_by_name(name: str) -> None:
    found = desired({k: v for k, v in SECRETS.items() if k != name}).problem

    assert found is not None
    assert found.reason == "SecretMissing"
    assert f"Secret {name} is not there" in found.message
    assert "create it" in found.message


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("ada", {"username": "ada"}, "has no password"),
        ("ada", {"password": ""}, "has no password"),
        ("ada", {"password": "hers\n"}, "a line break"),
        ("ada", {"password": "x" * 4097}, "more than 4096"),
        ("ada", {"username": "eve", "password": "x"}, "username is not the name of user ada"),
        ("demo-identity", {"password": "x"}, "username must be a name"),
        ("demo-identity", {"username": "a:b", "password": "x"}, "username must be a name"),
        ("member-tls", {"tls.crt": "c", "ca.crt": "c"}, "has no tls.key"),
        ("member-tls", {"tls.crt": "c", "tls.key": "k"}, "has no ca.crt"),
        ("license", {"other": "x"}, "has no license"),
        ("license", {"license": "x" * 8193}, "longer than 8192 bytes"),
    ],
)
def test_content_that_members_could_not_use_is_told(
    name: str, data: dict[str, str], told: str
) -> None:
    found = desired({**SECRETS, name: SecretContent(data)}).problem

    assert found is not None
    assert found.reason == "InvalidSecret"
    assert f"Secret {name}" in found.message
    assert told in found.message
    assert not [v for v in data.values() if v and len(v) > 3 and v in found.message]


def test_the_operators_own_secret_is_for_nobody_else() -> None:
    spec = {"license": {"secretName": "demo-management", "key": "password"}}
    secrets = {"demo-management": SecretContent({"password": "x"})}

    found = desired(secrets, spec).problem

    assert found is not None
    assert "demo-management is the operator's own" in found.message


def test_passwords_come_to_members_from_their_secrets_only() -> None:
    children = desired(SECRETS, ONE_USER).children
    pod = next(c for c in children if c["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    variables = {v["name"]: v for v in pod["containers"][0]["env"]}

    refs = {
        name: variable["valueFrom"]["secretKeyRef"]
        for name, variable in variables.items()
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    assert refs["GRID_USER_0_PASSWORD"] == {"name": "ada", "key": "password"}
    assert refs["GRID_IDENTITY_PASSWORD"] == {"name": "demo-identity", "key": "password"}
    assert refs["GRID_IDENTITY_USERNAME"] == {"name": "demo-identity", "key": "username"}
