"""The local mode: pods and Jobs as programs of this machine."""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.errors import Rejected
from grid_operator.ports.local.job import JobProcess
from grid_operator.ports.local.program import LocalHost, expanded, process_spec, program_of
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

DEADLINE_S = 20.0


class Objects:
    def __init__(self, *found: KubeObject) -> None:
        self._found = {(o["kind"], o["metadata"]["name"]): o for o in found}

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        return self._found.get((kind, name))


def host_in(directory: Path, program: tuple[str, ...] = ("grid-member",)) -> LocalHost:
    log = directory / "log"

    def print_log(name: str, line: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{name}: {line}\n")

    return LocalHost(directory / "data", directory / "run", {"PATH": "/bin"}, print_log, program)


def pod_of(volumes: list[Any], mounts: list[Any], **container: Any) -> KubeObject:
    return {
        "metadata": {"name": "demo-0", "namespace": "ns"},
        "spec": {
            "containers": [{"name": "member", "volumeMounts": mounts, **container}],
            "volumes": volumes,
        },
        "status": {"podIP": "127.0.0.9"},
    }


SECRET: KubeObject = {
    "kind": "Secret",
    "metadata": {"name": "certificate"},
    "data": {"tls.crt": base64.b64encode(b"PEM").decode(), "other": ""},
}


def test_claims_are_directories_that_clusters_share_by_name(tmp_path: Path) -> None:
    host = host_in(tmp_path)
    data = host.data_dir / "ns"
    assert host.claim_directory("ns", "data-demo-0") == data / "demo" / "demo-0"
    assert host.claim_directory("ns", "data-my-demo-12") == data / "my-demo" / "my-demo-12"
    assert host.claim_directory("ns", "demo-backup") == data / ".claims" / "demo-backup"
    assert host.claim_directory("ns", "data") == data / ".claims" / "data"


def test_mounts_and_what_points_to_them(tmp_path: Path) -> None:
    host = host_in(tmp_path)
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "backup", "persistentVolumeClaim": {"claimName": "demo-backup"}},
        {"name": "tls", "secret": {"secretName": "certificate",
                                   "items": [{"key": "tls.crt", "path": "tls.crt"}]}},
    ]  # fmt: skip
    mounts = [
        {"name": name, "mountPath": path}
        for name, path in (
            ("tmp", "/tmp"), ("backup", "/backup"), ("tls", "/etc/grid-tls"), ("data", "/data"),
        )
    ]  # fmt: skip
    env = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "PARKED", "value": "/tmp/parked"},
        {"name": "BACKUPS", "value": "/backup/$(POD_NAME)"},
        {"name": "TLS", "value": "/etc/grid-tls"},
        {"name": "LATER", "value": "$(NOTHING) $$(POD_NAME)"},
    ]
    pod = pod_of(volumes, mounts, args=["--config", "/data/x"], env=env)
    program = program_of(pod, Objects(SECRET), host, {"GRID_BIND_ADDRESS": "127.0.0.9"})
    scratch = host.run_dir / "ns" / "demo-0"
    data = host.data_dir / "ns" / "demo" / "demo-0"
    assert program.argv == ("grid-member", "--config", f"{data}/x")
    assert program.env == {
        "PATH": "/bin",
        "POD_NAME": "demo-0",
        "PARKED": f"{scratch}/tmp/parked",
        "BACKUPS": f"{host.data_dir}/ns/.claims/demo-backup/demo-0",
        "TLS": f"{scratch}/tls",
        "LATER": "$(NOTHING) $(POD_NAME)",
        "GRID_BIND_ADDRESS": "127.0.0.9",
    }
    program.write_files()
    assert (scratch / "tls" / "tls.crt").read_text() == "PEM"
    assert (scratch / "tls" / "tls.crt").stat().st_mode & 0o777 == 0o600
    assert not (scratch / "tls" / "other").exists()
    assert data.stat().st_mode & 0o777 == 0o700


SETTINGS: KubeObject = {"kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}


BINARY: KubeObject = {
    "kind": "Secret",
    "metadata": {"name": "binary"},
    "data": {"k": base64.b64encode(b"\xff").decode()},
}
SETTINGS_ITEM = {"key": "a", "path": "deep/a"}
UP_AND_OUT = {"name": "settings", "items": [{"key": "a", "path": "../a"}]}


def test_what_a_spec_adds_to_a_member_is_translated(tmp_path: Path) -> None:
    host = host_in(tmp_path)
    volumes: list[dict[str, Any]] = [
        {"name": "settings", "configMap": {"name": "settings", "items": [SETTINGS_ITEM]}},
        {"name": "scratch"},
        {"name": "absent", "secret": {"secretName": "none", "optional": True}},
    ]
    mounts = [{"name": v["name"], "mountPath": f"/srv/{v['name']}"} for v in volumes]
    key = {"name": "settings", "key": "a"}
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": key}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {**key, "key": "b", "optional": True}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k", "optional": True}}},
        {"name": "DIR", "value": "/srv/settings/deep"},
    ]
    sources = [
        {"prefix": "FROM_", "configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "none", "optional": True}},
    ]
    pod = pod_of(volumes, mounts, env=env, envFrom=sources)
    pod["spec"]["containers"].append({"name": "beside", "image": "none"})

    program = program_of(pod, Objects(SETTINGS), host, {})
    program.write_files()

    scratch = host.scratch_directory("ns", "demo-0")
    wanted = {"A": "1", "FROM_a": "1", "DIR": f"{scratch}/settings/deep"}
    assert program.env == {"PATH": "/bin", **wanted}
    assert (scratch / "settings" / "deep" / "a").read_text() == "1"
    assert (scratch / "absent").is_dir()


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {}}}]}, "fileKeyRef does not exist"),
        ({"envFrom": [{"prefix": "A_"}]}, "spec.pod: .* lacks a field"),
        ({"envFrom": [{"secretRef": {"name": "binary"}}]}, "Secret binary: k is not text"),
        ({"envFrom": [{"secretRef": {"name": "../x"}}]}, "'../x' is not the name of an object"),
        ({"envFrom": [{"secretRef": "x"}]}, "spec.pod: .* lacks a field or has a wrong one"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env A: valueFrom is empty"),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": 5}}}]},
            "spec.pod: .* has a wrong one",
        ),
    ],
)
def test_additions_that_are_not_understood_are_refused(
    tmp_path: Path, container: dict[str, Any], words: str
) -> None:
    probe = {"httpGet": {"path": "/p", "port": 5701}}
    pod = pod_of([], [], readinessProbe=probe, **container)
    with pytest.raises(Rejected, match=words):
        process_spec(pod, Objects(SETTINGS, BINARY), host_in(tmp_path))


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"hostPath": {"path": "/"}}, "hostPath does not exist in the local mode"),
        ({"secret": {"secretName": "none"}}, "Secret none is not there"),
        ({"configMap": {"name": "none"}}, "ConfigMap none is not there"),
        (
            {"secret": {"secretName": "certificate", "items": [{"key": "k", "path": "k"}]}},
            "Secret certificate has no key k",
        ),
        ({"configMap": UP_AND_OUT}, "../a is not a path in it"),
        ({"persistentVolumeClaim": {"claimName": "../x"}}, "is not the name of an object"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    tmp_path: Path, volume: dict[str, Any], words: str
) -> None:
    pod = pod_of([{"name": "v", **volume}], [{"name": "v", "mountPath": "/v"}])
    with pytest.raises(Rejected, match=words):
        program_of(pod, Objects(SECRET, SETTINGS), host_in(tmp_path), {})


def test_a_part_of_a_volume_is_refused_by_name(tmp_path: Path) -> None:
    pod = pod_of([{"name": "v"}], [{"name": "v", "mountPath": "/v", "subPath": "a"}])
    with pytest.raises(Rejected, match="volume v: subPath does not exist in the local mode"):
        program_of(pod, Objects(), host_in(tmp_path), {})


def test_references_are_expanded_as_kubernetes_does() -> None:
    variables = {"A": "1", "B": "$(A)"}
    assert expanded("$(A)-$(B)-$(C)-$$(A)-$$$(A)-$A-$", variables) == "1-$(A)-$(C)-$(A)-$1-$A-$"


def test_probes_speak_as_the_pod_says(tmp_path: Path) -> None:
    probe = {"httpGet": {"path": "/p", "port": "rest", "scheme": "HTTPS"}, "periodSeconds": 3}
    ports = [{"name": "rest", "containerPort": 5703}]
    pod = pod_of([], [], readinessProbe=probe, ports=ports)
    spec = process_spec(pod, Objects(), host_in(tmp_path))
    assert (spec.probe_url, spec.probe_period_s) == ("https://127.0.0.9:5703/p", 3)


def test_several_members_have_addresses_that_follow_one_another(tmp_path: Path) -> None:
    probe = {"httpGet": {"path": "/p", "port": 5701}}
    hosts = [{"name": f"GRID_MEMBER_{n}", "value": f"demo-{n}.members"} for n in range(3)]
    pod = pod_of([], [], readinessProbe=probe, env=[*hosts, {"name": "GRID_MEMBER_X"}])
    pod["metadata"]["name"] = "demo-1"
    env = process_spec(pod, Objects(), host_in(tmp_path)).program.env
    assert {name: value for name, value in env.items() if name != "PATH"} == {
        "GRID_BIND_ADDRESS": "127.0.0.9",
        "GRID_PUBLIC_ADDRESS": "127.0.0.9",
        "GRID_MEMBER_0": "127.0.0.8",
        "GRID_MEMBER_1": "127.0.0.9",
        "GRID_MEMBER_2": "127.0.0.10",
        "GRID_MEMBER_X": "",
    }


def job_of(limit: int, *args: str) -> KubeObject:
    container = {"name": "restore", "args": list(args)}
    return {
        "kind": "Job",
        "metadata": {"name": "demo-restore", "namespace": "ns"},
        "spec": {"backoffLimit": limit, "template": {"spec": {"containers": [container]}}},
    }


class Run:
    """A Job whose program is a line of Python."""

    def __init__(self, directory: Path, limit: int, code: str) -> None:
        self.over = asyncio.Event()
        host = host_in(directory, (sys.executable,))
        job = job_of(limit, "-c", code)
        self.process = JobProcess(job, Objects(), host, self.over.set)

    async def condition(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            await self.over.wait()
        assert self.process.condition is not None
        return self.process.condition


async def test_a_job_that_succeeds(tmp_path: Path) -> None:
    run = Run(tmp_path, 2, "print('done')")
    assert await run.condition() == {"type": "Complete", "status": "True"}
    assert (tmp_path / "log").read_text() == "demo-restore: done\n"


async def test_a_job_is_repeated_until_it_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "count"
    code = f"f = open({str(file)!r}, 'a'); f.write('x'); raise SystemExit(f.tell() < 3)"
    assert (await Run(tmp_path, 2, code).condition())["type"] == "Complete"
    assert file.read_text() == "xxx"


async def test_a_job_that_fails_too_often_says_why(tmp_path: Path) -> None:
    code = "import sys; print('cannot restore: damaged', file=sys.stderr); sys.exit(3)"
    found = await Run(tmp_path, 1, code).condition()
    assert found == {"type": "Failed", "status": "True", "message": "cannot restore: damaged"}
    assert (tmp_path / "log").read_text().count("cannot restore") == 2


async def test_a_job_that_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    run = Run(tmp_path, 2, "print('here', flush=True); import time; time.sleep(60)")
    await until((tmp_path / "log").exists)
    await run.process.stop()
    await run.process.stop()
    assert run.process.condition is None
