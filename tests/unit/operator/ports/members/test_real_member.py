"""The operator's client against real members: every endpoint, replays, security, TLS."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from grid_operator.decide.calls import CallDone, CallRefused, CallUnknown, Endpoint, MemberCall
from grid_operator.decide.model import MemberProblem, MemberView
from grid_operator.ports.api import MemberAccess
from grid_operator.ports.members.client import MemberClient
from grid_operator.ports.members.trust import FORMER_TRUSTED_S, MemberTrust
from tests.unit.engine.backed_up import damage_log
from tests.unit.member.running import MemberProcess, configuration
from tests.unit.member.security.certificates import Authority
from tests.unit.member.wire import once
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.calls import CallOutcome

    Start: TypeAlias = Callable[..., MemberProcess]

HOST = "demo-0.demo-members.grids.svc"
ACCESS = MemberAccess("op", "s3cret")
WAITS = "the store is damaged: the member waits for forceStart or partialStart"


def pod(scheme: str = "HTTP") -> KubeObject:
    return {
        "metadata": {
            "name": "demo-0",
            "namespace": "grids",
            "uid": "uid-1",
            "labels": {"gridcluster.io/cluster": "demo"},
        },
        "spec": {
            "containers": [
                # A mesh puts its own container first; what that speaks is not the member's.
                {"name": "proxy", "readinessProbe": {"httpGet": {"scheme": "HTTPS"}}},
                {"name": "member", "readinessProbe": {"httpGet": {"scheme": scheme}}},
            ]
        },
        "status": {"podIP": "127.0.0.1"},
    }


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[MemberProcess] = []

    def run(extra: str = "", *, until: str = "ready", text: str = "") -> MemberProcess:
        member = MemberProcess(text or configuration(extra=extra), tmp_path / "member")
        started.append(member)
        member.wait_for(until)
        return member

    yield run
    for member in started:
        member.kill()


def persistence(place: Path, **more: object) -> str:
    settings = {
        "enabled": True,
        "base-dir": str(place / "data"),
        "backup-dir": str(place / "backups"),
        **more,
    }
    return f"  persistence: {json.dumps(settings)}\n"


async def tell(
    client: MemberClient, endpoint: Endpoint, parameter: str | None = None, key: str = ""
) -> CallOutcome:
    told = MemberCall(pod(), endpoint, key or f"test-1.{endpoint.name}", parameter)
    outcome = await client.call(told, ACCESS, lambda: True)
    assert outcome is not None
    return outcome


async def look(client: MemberClient) -> MemberView:
    view = await client.fetch_view(pod(), ACCESS)
    assert isinstance(view, MemberView), view
    return view


async def test_states_configuration_log_level_and_license(start: Start) -> None:
    member = start()
    async with MemberClient(member.management_port) as client:
        assert (await look(client)).cluster_state == "ACTIVE"
        assert await tell(client, Endpoint.CHANGE_STATE, "no_migration", "a.Call") == CallDone()
        assert (await look(client)).cluster_state == "NO_MIGRATION"
        # Another key, the same state: the member says fail, and it is so.
        assert await tell(client, Endpoint.CHANGE_STATE, "no_migration", "b.Call") == CallDone()
        await tell(client, Endpoint.CHANGE_STATE, "active", "c.Call")
        # The first key again is answered as it was first, and changes nothing a second time.
        assert await tell(client, Endpoint.CHANGE_STATE, "no_migration", "a.Call") == CallDone()
        assert (await look(client)).cluster_state == "ACTIVE"
        wrong = await tell(client, Endpoint.CHANGE_STATE, "asleep", "d.Call")
        assert isinstance(wrong, CallRefused)
        assert "no_migration" in wrong.message

        added = "grid:\n  map:\n    'or+ders%': {time-to-live-seconds: 60}\n"
        assert await tell(client, Endpoint.CONFIG_UPLOAD, added) == CallDone()
        used = {(s.kind, s.name) for s in (await look(client)).structures}
        assert ("map", "or+ders%") in used
        bad = await tell(client, Endpoint.CONFIG_UPLOAD, "grid: {map: {m: {x: 1}}}", "e.Upload")
        assert isinstance(bad, CallRefused)
        assert "x" in bad.message

        assert await tell(client, Endpoint.LOG_LEVEL, "FINE") == CallDone()
        level = await once(member.port, "GET", "/grid/rest/log-level")
        assert json.loads(level.body) == {"logLevel": "FINE"}
        secret = "li&cen+se%20"
        assert await tell(client, Endpoint.LICENSE, secret) == CallDone()
        shown = await once(member.port, "GET", "/grid/rest/license")
        assert shown.status == 200


async def test_the_same_key_with_another_request_is_refused(start: Start) -> None:
    async with MemberClient(start().management_port) as client:
        assert await tell(client, Endpoint.CHANGE_STATE, "frozen", "k.Call") == CallDone()
        other = await tell(client, Endpoint.CHANGE_STATE, "passive", "k.Call")
        assert isinstance(other, CallRefused)
        assert (await look(client)).cluster_state == "FROZEN"


@pytest.mark.parametrize("endpoint", [Endpoint.MEMBER_SHUTDOWN, Endpoint.CLUSTER_SHUTDOWN])
async def test_shutdowns_answer_before_they_happen(start: Start, endpoint: Endpoint) -> None:
    member = start()
    async with MemberClient(member.management_port) as client:
        assert await tell(client, endpoint) == CallDone()
        assert member.end() == 0
        assert isinstance(await tell(client, endpoint), CallUnknown)


async def test_a_backup_tells_its_operation_and_is_begun_once(start: Start, tmp_path: Path) -> None:
    member = start(persistence(tmp_path))
    async with MemberClient(member.management_port) as client:
        begun = await tell(client, Endpoint.BACKUP, key="b-1.Begin")
        assert isinstance(begun, CallDone)
        assert begun.operation

        async def ended() -> bool:
            (operation,) = (await look(client)).operations
            assert operation.id == begun.operation
            return operation.stage == "FINISHED"

        await eventually(ended)
        assert await tell(client, Endpoint.BACKUP, key="b-1.Begin") == begun
        assert await tell(client, Endpoint.BACKUP_INTERRUPT) == CallDone()
        assert os.listdir(tmp_path / "backups") == ["backup-1"]
        assert len((await look(client)).operations) == 1


async def test_a_backup_without_a_directory_is_refused(start: Start) -> None:
    async with MemberClient(start().management_port) as client:
        refused = await tell(client, Endpoint.BACKUP)
    assert isinstance(refused, CallRefused)


async def damage(start: Start, tmp_path: Path) -> None:
    member = start(persistence(tmp_path))
    for number in range(20):
        body = b"item %d" % number
        assert (await once(member.port, "POST", "/grid/rest/queues/default", body)).status == 200
    member.kill()
    damage_log(tmp_path / "data/store/shard-0", b"item 12")


@pytest.mark.parametrize("endpoint", [Endpoint.PARTIAL_START, Endpoint.FORCE_START])
async def test_damaged_data_waits_and_is_started_from_once(
    start: Start, tmp_path: Path, endpoint: Endpoint
) -> None:
    await damage(start, tmp_path)
    policy = {"cluster-data-recovery-policy": "PARTIAL_RECOVERY_MOST_RECENT"}
    member = start(persistence(tmp_path, **policy), until=WAITS)
    async with MemberClient(member.management_port) as client:
        problem = await client.fetch_view(pod(), ACCESS)
        assert isinstance(problem, MemberProblem)
        assert problem.node_state == "STARTING"
        assert problem.message
        assert isinstance(await tell(client, Endpoint.BACKUP), CallRefused)
        first = await tell(client, endpoint, key="f-1.Call")
        assert first == CallDone()
        member.wait_for("ready")
        assert (await look(client)).ready
        assert await tell(client, endpoint, key="f-1.Call") == first
        healthy = await tell(client, endpoint, key="f-2.Call")
        assert isinstance(healthy, CallRefused)
        assert "healthy" in healthy.message


async def test_wrong_credentials_are_told_and_never_shown(start: Start) -> None:
    wrong = MemberAccess("op", "no-such-password")
    async with MemberClient(start().management_port) as client:
        told = MemberCall(pod(), Endpoint.CHANGE_STATE, "k", "frozen")
        outcome = await client.call(told, wrong, lambda: True)
        view = await client.fetch_view(pod(), wrong)
    assert isinstance(outcome, CallRefused)
    assert isinstance(view, MemberProblem)
    assert view.unauthenticated
    assert "no-such-password" not in f"{outcome} {view}"


SECURE = """grid:
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    management:
      enabled: true
      port: {{port: 0}}
      realm: ops
      ssl: {{enabled: true, certificate-file: {certificate}, key-file: {key}}}
  security:
    enabled: true
    member-authentication: {{realm: ops}}
    realms:
      - name: ops
        authentication: {{simple: {{users: [{{username: op, password: s3cret}}]}}}}
  logging: {{format: json}}
"""


async def test_security_and_tls_are_on(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    other = Authority(tmp_path, "other-authority")
    pair = authority.issue("member", names=f"DNS:{HOST}")
    member = start(text=SECURE.format(certificate=pair.certificate, key=pair.key))
    trusted = MemberAccess("op", "s3cret", authority.file.read_text())
    strange = MemberAccess("op", "s3cret", other.file.read_text())
    broken = MemberAccess("op", "s3cret", "no certificate")
    encrypted = pod("HTTPS")
    elsewhere = pod("HTTPS") | {"metadata": pod()["metadata"] | {"name": "demo-1"}}
    told = MemberCall(encrypted, Endpoint.CHANGE_STATE, "k", "frozen")
    async with MemberClient(member.management_port) as client:
        assert await client.call(told, trusted, lambda: True) == CallDone()
        view = await client.fetch_view(encrypted, trusted)
        assert isinstance(view, MemberView)
        assert view.cluster_state == "FROZEN"
        problems = [
            await client.fetch_view(elsewhere, trusted),
            await client.fetch_view(pod(), trusted),
        ]
    for access in (strange, broken):
        async with MemberClient(member.management_port) as client:
            problems.append(await client.fetch_view(encrypted, access))
            assert isinstance(await client.call(told, access, lambda: True), CallUnknown)
    name, plain, stranger, no_pem = (str(getattr(p, "message", p)) for p in problems)
    assert "not trusted" in name
    assert "broke off" in plain
    assert "not trusted" in stranger
    assert "ca.crt" in no_pem


async def test_a_new_authority_is_picked_up_while_members_still_show_the_old(
    start: Start, tmp_path: Path
) -> None:
    clock = [0.0]
    old, new = Authority(tmp_path), Authority(tmp_path, "new-authority")
    pair = old.issue("member", names=f"DNS:{HOST}")
    member = start(text=SECURE.format(certificate=pair.certificate, key=pair.key))
    before, after = (MemberAccess("op", "s3cret", a.file.read_text()) for a in (old, new))
    trust = MemberTrust(lambda: clock[0])
    async with MemberClient(member.management_port, trust=trust) as client:

        async def seen(access: MemberAccess) -> bool:
            return isinstance(await client.fetch_view(pod("HTTPS"), access), MemberView)

        assert await seen(before)
        assert await seen(after), "the member has not got its new certificate yet"
        clock[0] += FORMER_TRUSTED_S + 1
        assert not await seen(after), "the old authority is trusted no longer"
        fresh = new.issue("member", names=f"DNS:{HOST}")
        pair.key.write_bytes(fresh.key.read_bytes())
        pair.certificate.write_bytes(fresh.certificate.read_bytes())
        await eventually(lambda: seen(after), patience_s=40)
