"""Secrets: read, made once, never shown; and what the live StatefulSet remembers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.names import STRUCTURES_ANNOTATION, child_labels
from grid_operator.api.objects import ObjectRef
from grid_operator.decide.calls import Endpoint
from grid_operator.ports.errors import NotReady, Rejected
from tests.unit.operator.reconcile.test_calls import World

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

SECURE = {"security": {"enabled": True, "users": [{"name": "ada", "secretName": "ada"}]}}


def secret(name: str, **data: str) -> KubeObject:
    encoded = {k.replace("_", "."): base64.b64encode(v.encode()).decode() for k, v in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "grids", "uid": f"uid-{name}"},
        "data": encoded,
    }


def put(world: World, *objects: KubeObject) -> None:
    for obj in objects:
        world.kube.objects[ObjectRef.of(obj)] = obj


async def test_absent_secrets_of_users_and_members_are_made_once() -> None:
    world = World(**SECURE)
    await world.settle()
    made = {name: world.kube.get("Secret", name)["data"] for name in ("ada", "demo-identity")}
    for _ in range(3):
        await world.round()
    assert {n: world.kube.get("Secret", n)["data"] for n in made} == made
    assert len({data["password"] for data in made.values()}) == 2
    owner = world.kube.get("Secret", "ada")["metadata"]["ownerReferences"][0]
    assert owner["uid"] == "uid-demo"


async def test_a_secret_of_somebody_else_is_used_and_never_written() -> None:
    world = World(**SECURE)
    mine = secret("ada", password="what-ada-chose")
    put(world, mine)
    await world.settle()
    assert world.kube.get("Secret", "ada") == mine


async def test_a_secret_that_members_were_given_is_not_made_anew_while_there_are_any() -> None:
    world = World(**SECURE)
    await world.settle()
    lost = ObjectRef("v1", "Secret", "grids", "demo-identity")
    kept = world.kube.objects.pop(lost)
    pod = world.kube.get("Pod", "demo-0")["metadata"]["uid"]
    for _ in range(3):
        await world.round()
    assert world.kube.condition("ConfigValid")["reason"] == "SecretMissing"
    assert "demo-identity" in world.kube.condition("ConfigValid")["message"]
    assert lost not in world.kube.objects
    assert world.kube.get("Pod", "demo-0")["metadata"]["uid"] == pod
    world.kube.objects[lost] = kept
    await world.until(lambda: world.is_so("ConfigValid") and world.is_so("Ready"))


async def test_no_password_is_in_a_status_an_event_or_an_annotation() -> None:
    world = World(**SECURE, license={"secretName": "license"})
    put(world, secret("ada", password="what-ada-chose"), secret("license", license="the-license"))
    await world.settle()
    for _ in range(4):
        await world.round()
    shown = [o for r, o in world.kube.objects.items() if r.kind != "Secret"]
    text = f"{shown} {world.kube.events} {world.members.calls}"
    for word in ("password-1", "password-2", "what-ada-chose", "the-license"):
        assert word not in text
        assert base64.b64encode(word.encode()).decode() not in text


@pytest.mark.parametrize("name", ["tls", "license"])
async def test_a_secret_that_only_its_owner_can_make_is_asked_for(name: str) -> None:
    world = World(**{name: {"secretName": "theirs"}})
    for _ in range(3):
        await world.round()
    assert world.kube.condition("ConfigValid")["reason"] == "SecretMissing"
    assert "theirs" in world.kube.condition("ConfigValid")["message"]
    assert not any(ref.kind == "StatefulSet" for ref in world.kube.objects)


async def test_a_secret_that_may_not_be_read_shows_in_the_conditions() -> None:
    world = World(tls={"secretName": "theirs"})
    world.kube.fail["fetch Secret"] = Rejected("secrets theirs is forbidden", "Forbidden")
    await world.round()
    assert world.kube.condition("Progressing")["reason"] == "ApiRefused"
    assert "forbidden" in world.kube.condition("Progressing")["message"]


async def test_the_authorities_of_old_and_new_secrets_are_trusted_until_pods_are_replaced() -> None:
    world = World(tls={"secretName": "first"})
    files = {"tls_crt": "c", "tls_key": "k"}
    put(
        world,
        secret("first", ca_crt="AUTHORITY-1", **files),
        secret("second", ca_crt="AUTHORITY-2", **files),
    )
    await world.settle()
    assert {a.authority for a in world.members.accesses} == {"AUTHORITY-1"}
    world.members.accesses.clear()
    world.kube.edit(tls={"secretName": "second"})
    await world.until(lambda: ("Restart", "Succeeded") in world.ended())
    await world.round()
    trusted = [a.authority.split() for a in world.members.accesses]
    assert ["AUTHORITY-1", "AUTHORITY-2"] in trusted
    assert ["AUTHORITY-2"] in trusted


async def test_a_rotated_authority_is_used_at_once() -> None:
    world = World(tls={"secretName": "first"})
    put(world, secret("first", ca_crt="AUTHORITY-1", tls_crt="c", tls_key="k"))
    await world.settle()
    world.members.accesses.clear()
    put(world, secret("first", ca_crt="AUTHORITY-2", tls_crt="d", tls_key="l"))
    pod = world.kube.get("Pod", "demo-0")["metadata"]["uid"]
    for _ in range(3):
        await world.round()
    assert {a.authority for a in world.members.accesses} == {"AUTHORITY-2"}
    assert world.kube.get("Pod", "demo-0")["metadata"]["uid"] == pod, "without a restart"


async def test_a_record_that_was_taken_away_does_not_make_one_member_several() -> None:
    world = World(persistence={"enabled": True})
    await world.settle()
    del world.kube.get("StatefulSet", "demo")["metadata"]["annotations"][STRUCTURES_ANNOTATION]
    world.kube.edit(size=3, persistence={"enabled": True})
    await world.round()
    assert world.kube.condition("ConfigValid")["reason"] == "ImmutableSize"


async def test_a_new_map_is_given_to_running_members_and_a_changed_one_restarts_them() -> None:
    world = World(maps=[{"name": "orders"}])
    await world.settle()
    pod = world.kube.get("Pod", "demo-0")["metadata"]["uid"]
    world.kube.edit(maps=[{"name": "orders"}, {"name": "late"}])
    await world.until(lambda: ("ApplyLive", "Succeeded") in world.ended())
    uploads = [c for c in world.members.calls if c.endpoint is Endpoint.CONFIG_UPLOAD]
    assert len(uploads) == 1
    assert "late" in str(uploads[0].parameter)
    assert world.kube.get("Pod", "demo-0")["metadata"]["uid"] == pod
    for _ in range(4):
        await world.round()
    assert len([c for c in world.members.calls if c.endpoint is Endpoint.CONFIG_UPLOAD]) == 1
    world.kube.edit(maps=[{"name": "orders", "timeToLiveSeconds": 60}, {"name": "late"}])
    await world.until(lambda: ("Restart", "Succeeded") in world.ended())
    assert world.kube.get("Pod", "demo-0")["metadata"]["uid"] != pod


async def test_a_restore_makes_a_claim_and_a_job_before_any_member() -> None:
    world = World(
        persistence={"enabled": True}, restoreFrom={"claimName": "backups", "member": "old-0"}
    )
    world.kube.job_condition = ""
    for _ in range(6):
        await world.round()
    kinds = {ref.kind for ref in world.kube.objects}
    assert {"Job", "PersistentVolumeClaim"} <= kinds
    assert not {"StatefulSet", "Pod"} & kinds
    job = next(o for r, o in world.kube.objects.items() if r.kind == "Job")
    job["status"] = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    await world.until(lambda: world.is_so("Ready"))
    assert not any(ref.kind == "Job" for ref in world.kube.objects)
    assert world.status["restoredFrom"]
    assert any(ref.kind == "PersistentVolumeClaim" for ref in world.kube.objects)


def put_pods_without_a_set(world: World) -> None:
    """Put the pods of three members there, as `kubectl delete --cascade=orphan` leaves them."""
    for ordinal in range(3):
        meta = {
            "name": f"demo-{ordinal}",
            "namespace": "grids",
            "uid": f"uid-{ordinal}",
            "labels": child_labels("demo"),
        }
        put(world, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": {}})


@pytest.mark.parametrize("members", [None, True], ids=["unsaid", "another choice"])
async def test_pods_whose_set_was_taken_away_keep_what_they_speak(members: bool | None) -> None:
    """The next StatefulSet takes them up, and would replace them one after the other."""
    chosen = {} if members is None else {"members": members}
    world = World(size=3, tls={"secretName": "theirs", **chosen})
    put(world, secret("theirs", ca_crt="a", tls_crt="c", tls_key="k"))
    put_pods_without_a_set(world)

    await world.round()

    found = [o for o in world.kube.objects.values() if o["kind"] == "ConfigMap"]
    assert not any("ca-file" in o["data"]["grid.yaml"] for o in found)
    reason = "Valid" if members is None else "ImmutableIdentity"
    assert world.kube.condition("ConfigValid")["reason"] == reason


async def test_pods_of_a_former_set_do_not_say_what_new_members_speak() -> None:
    world = World(size=3, tls={"secretName": "theirs"})
    put(world, secret("theirs", ca_crt="a", tls_crt="c", tls_key="k"))
    put_pods_without_a_set(world)
    for pod in [o for o in world.kube.objects.values() if o["kind"] == "Pod"]:
        owner = {"kind": "StatefulSet", "name": "demo", "uid": "of-a-release", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]

    with pytest.raises(NotReady, match="until the former Pod"):
        await world.round()

    (found,) = (o for o in world.kube.objects.values() if o["kind"] == "ConfigMap")
    assert "ca-file" in found["data"]["grid.yaml"]
