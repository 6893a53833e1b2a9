"""Users, certificates and the license of a spec, in a member that runs or is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.decide.calls import Endpoint
from grid_operator.render import SecretContent
from tests.unit.member.security.certificates import Authority
from tests.unit.operator.reconcile.test_calls import World
from tests.unit.operator.reconcile.test_materials import put, secret

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.operator.fields.pods import RunningPod

DATA: dict[str, Any] = {
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "maps": [{"name": "default"}],
}
USERS = [{"name": "ada", "secretName": "of-ada"}, {"name": "bob", "secretName": "of-bob"}]
SECRETS = {
    "of-ada": SecretContent({"password": "what-ada-chose"}),
    "of-bob": SecretContent({"password": "what-bob-chose"}),
}


def state(pod: RunningPod, name: str, password: str) -> str:
    """Return how the member answers who asks for the cluster state at the REST port."""
    return str(pod.manage("state", f"{name}&{password}", 5701)["status"])


def test_with_security_callers_are_users_and_no_cluster_name(pod: RunningPod) -> None:
    pod.start({})
    assert state(pod, "dev", "") == "success"

    pod.start({"security": {"enabled": True, "users": USERS}}, SECRETS)

    assert state(pod, "dev", "") == "fail"
    assert state(pod, "ada", "what-ada-chose") == "success"
    assert state(pod, "bob", "what-bob-chose") == "success"
    assert state(pod, "ada", "what-bob-chose") == "fail"
    assert state(pod, "eve", "what-ada-chose") == "fail"


def test_a_protected_group_asks_for_a_user_as_a_whole(pod: RunningPod) -> None:
    security = {"enabled": True, "users": USERS, "protected": ["Data"]}
    pod.start({**DATA, "security": security}, SECRETS)

    assert pod.call("rest/maps/default/a")[0] == 401
    assert pod.call("rest/maps/default/a", user="ada:what-ada-chose")[0] == 204
    assert pod.call("rest/maps/default/a", user="ada:what-bob-chose")[0] == 401
    assert pod.call("rest/cluster")[0] == 200, "of another group"


def certificates(authority: Authority, pod: RunningPod) -> SecretContent:
    """Return a Secret as cert-manager makes it, for the pod's address."""
    pair = authority.issue("member", names=f"IP:{pod.address}")
    return SecretContent(
        {
            "tls.crt": pair.certificate.read_text(),
            "tls.key": pair.key.read_text(),
            "ca.crt": authority.file.read_text(),
        }
    )


def test_both_ports_show_the_certificate_of_the_secret(pod: RunningPod, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other-authority")
    pod.context = authority.client()

    pod.start({"tls": {"secretName": "mine"}}, {"mine": certificates(authority, pod)})

    for port, path in ((5701, "health/ready"), (5702, "rest/cluster")):
        user = "grid-operator:a-password" if port == 5702 else ""
        assert pod.call(path, port=port, user=user, scheme="https")[0] == 200
        assert pod.call(path, port=port, user=user)[0] == 0, "without TLS"
    pod.context = other.client()
    assert pod.call("health/ready", scheme="https")[0] == 0, "of another authority"


@pytest.mark.parametrize(("mode", "taken"), [("None", True), ("Optional", False)])
def test_certificates_of_clients_are_verified_or_not_asked_for(
    pod: RunningPod, tmp_path: Path, mode: str, taken: bool
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other-authority")
    pod.context = authority.client()
    tls = {"secretName": "mine", "clientCertificates": mode}
    pod.start({"tls": tls}, {"mine": certificates(authority, pod)})

    pod.context = authority.client(other.issue("stranger"))
    assert (pod.call("health/ready", scheme="https")[0] == 200) is taken
    pod.context = authority.client(authority.issue("client"))
    assert pod.call("health/ready", scheme="https")[0] == 200


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"secretName": "mine"}, "of-the-usual-key"),
        ({"secretName": "mine", "key": "text"}, "of-the-key"),
        ({"secretName": "other"}, "of-the-other"),
    ],
)
async def test_members_are_given_the_license_of_the_secret_and_key(
    wanted: dict[str, str], text: str
) -> None:
    world = World(license=wanted)
    put(
        world,
        secret("mine", license="of-the-usual-key", text="of-the-key"),
        secret("other", license="of-the-other"),
    )

    await world.until(lambda: ("ApplyLive", "Succeeded") in world.ended())

    given = [c.parameter for c in world.members.calls if c.endpoint is Endpoint.LICENSE]
    assert given == [text]
