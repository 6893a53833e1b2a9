"""Real members and a real operator to read metrics from.

Three members are as the operator configures them, two members alone are clusters of which one
replicates to the other.
"""

from __future__ import annotations

import ipaddress
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from grid_member import Config, start_member
from tests.unit.gridctl.running import Up, until
from tests.unit.member.security.certificates import Authority
from tests.unit.member.wire import Wire, once
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.listening import started
from tests.unit.operator.handlers.operators import operator
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from grid_member.start.handle import MemberHandle
    from tests.unit.operator.handlers.operators import Operator
    from tests.unit.operator.watch_api import WatchApi

SIZE: Final = 3
CALL_S: Final = 15
SPEC: Final[dict[str, Any]] = {
    "size": SIZE,
    "tls": {"secretName": "mine"},
    "maps": [
        {"name": "default"},
        {"name": "few", "eviction": {"policy": "Lru", "maxSizePolicy": "PerNode", "size": 10}},
        {
            "name": "small",
            "eviction": {"policy": "Lru", "maxSizePolicy": "UsedHeapSize", "size": 1},
        },
    ],
    "queues": [{"name": "default"}, {"name": "short", "maxSize": 1}],
    "persistence": {"enabled": True, "backup": {"volume": {"accessMode": "ReadWriteMany"}}},
}
SILENT: Final = "127.255.255.254"
"""An address at which no process listens."""
NETWORK: Final = """
    port: {port: 0}
    interfaces: {enabled: true, interfaces: [127.0.0.1]}
    rest-api: {enabled: true, endpoint-groups: {DATA: {enabled: true}, WAN: {enabled: true}}}
"""
RECEIVING: Final = f"""
grid:
  cluster-name: london
  network: {NETWORK}
    wan: {{enabled: true, port: {{port: 0}}, realm: r}}
  security:
    realms:
      - {{name: r, authentication: {{simple: {{users: [{{username: wan, password: PASSWORD}}]}}}}}}
  metrics: {{enabled: true, port: {{port: 0}}}}
  map: {{m: {{}}}}
"""
REPLICATING: Final = f"""
grid:
  cluster-name: tokyo
  network: {NETWORK}
  security:
    realms: [{{name: r, identity: {{username-password: {{username: wan, password: PASSWORD}}}}}}]
  metrics: {{enabled: true, port: {{port: 0}}}}
  map: {{m: {{wan-replication-ref: {{rep: {{}}}}}}}}
  wan-replication:
    rep:
      batch-publisher:
        london: {{cluster-name: london, target-endpoints: "127.0.0.1:%s", realm: r}}
        away: {{cluster-name: paris, target-endpoints: "{SILENT}:5705", realm: r}}
"""
WAN_CALLS: Final = (
    ("maps/m/key", b"value"),
    ("wan/consistencyCheck/map", b"tokyo&&rep&london&m"),
    ("wan/sync/map", b"tokyo&&rep&away&m"),
)
"""One ends, and the other one goes on without progress."""
PATIENCE_S: Final = 60
"""Three members and an operator start beside other tests."""
SET: Final = "/apis/apps/v1/namespaces/grids/statefulsets/demo"
POD: Final = "/api/v1/namespaces/grids/pods/demo-0"
CLUSTER: Final = "/apis/gridcluster.io/v1alpha1/namespaces/grids/gridclusters/demo"


@contextmanager
def members(directory: Path) -> Iterator[Up]:
    """Run three members with all that has metrics: TLS, limits, a backup, refused requests."""
    up = Up(directory)
    up.patience_s = PATIENCE_S
    authority = Authority(directory)
    hosts = [str(ipaddress.IPv4Address(up.address) + member) for member in range(SIZE)]
    names = ",".join(["DNS:*.demo-members.default.svc", *(f"IP:{host}" for host in hosts)])
    pair = authority.issue("members", names=names)
    secret = up.directory / "data" / "default" / ".secrets" / "mine"
    secret.mkdir(parents=True, mode=0o700)
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.file}
    for key, file in files.items():
        (secret / key).write_bytes(file.read_bytes())
    up.write(**SPEC)
    try:
        up.start()
        use(hosts[0], authority.client())
        up.annotate(backup="first")
        until(
            lambda: (up.ended("Backup") or {}).get("outcome") == "Succeeded",
            "no backup",
            PATIENCE_S,
        )
        yield up
    finally:
        up.kill()


def use(host: str, context: ssl.SSLContext) -> None:
    """Send requests; the member answers one with 403 and one, as its queue is full, with 503."""
    asked = [
        *(("POST", f"maps/{name}/key", b"value", 200) for name in ("default", "few", "small")),
        ("GET", "maps/default/key", None, 200),
        ("POST", "management/cluster/memberShutdown", b"", 403),
        ("POST", "queues/short", b"item", 200),
        ("POST", "queues/short", b"item", 503),
    ]
    for method, path, body, status in asked:
        url = f"https://{host}:5701/grid/rest/{path}"
        request = urllib.request.Request(url, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CALL_S, context=context) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            with error:
                found = error.code
        assert found == status, (path, found)


async def wan_metrics() -> tuple[str, str]:
    """Return the metrics of a member that replicates, and of the one that takes its changes."""
    target = await start_member(Config.from_text(RECEIVING, environment={}))
    try:
        text = REPLICATING % target.wan_port
        source = await start_member(Config.from_text(text, environment={}))
        try:
            await _use_wan(source)
            return await _metrics(source.metrics_port), await _metrics(target.metrics_port)
        finally:
            await source.stop()
    finally:
        await target.stop()


async def _use_wan(source: MemberHandle) -> None:
    assert source.rest_port is not None
    port = source.rest_port
    for path, body in WAN_CALLS:

        async def done(path: str = path, body: bytes = body) -> bool:
            reply = await once(port, "POST", f"/grid/rest/{path}", body)
            return reply.status == 200  # 503 until the members have agreed

        await eventually(done, patience_s=PATIENCE_S)

    async def told() -> bool:
        found = await _metrics(source.metrics_port)
        return all(f"grid_wan_{name}{{" in found for name in ("check_differences", "job_progress"))

    await eventually(told, patience_s=PATIENCE_S)


async def _metrics(port: int | None) -> str:
    assert port is not None
    async with await Wire.connect(port) as wire:
        return (await wire.call("GET", "/metrics")).body.decode()


async def operator_metrics(directory: Path) -> str:
    """Return the metrics of a `grid-operator` while it stops a member that does not answer."""
    async with started() as api, operator(api, directory, "grids") as running:
        api.put(CLUSTER, scheduled())
        await _told(running, "grid_cluster_backup_longest_interval_seconds{")
        await eventually(lambda: _is_there(api, SET))
        api.put(POD, pod_of(api.objects[SET]))
        await _told(running, "grid_operator_member_request_duration_seconds_count{")
        live = api.objects[CLUSTER]
        api.put(CLUSTER, {**live, "spec": {**live["spec"], "runState": "Stopped"}})
        await _told(running, "grid_cluster_operation_started_timestamp_seconds{")
        return await running.metrics()


def scheduled() -> dict[str, Any]:
    """Return a GridCluster with a complete backup and a failed one."""
    kept = {"volume": {"size": "1Gi"}, "schedule": {"cron": "0 2 * * *"}}
    cluster = cluster_object(persistence={"enabled": True, "backup": kept})
    ended = {"lastSuccessfulTime": "2026-01-02T02:00:05Z", "lastFailedTime": "2026-01-01T02:00:05Z"}
    return {**cluster, "status": {"observedUid": cluster["metadata"]["uid"], "backup": ended}}


def pod_of(stateful_set: dict[str, Any]) -> dict[str, Any]:
    """Return a pod that runs, and whose member does not answer."""
    template = stateful_set["spec"]["template"]
    owner = {"kind": "StatefulSet", "uid": stateful_set["metadata"]["uid"]}
    meta = {"name": "demo-0", "namespace": "grids", "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **meta},
        "spec": template["spec"],
        "status": {"phase": "Running", "podIP": SILENT},
    }


async def _told(running: Operator, series: str) -> None:
    async def told() -> bool:
        return series in await running.metrics()

    await eventually(told, patience_s=PATIENCE_S)


async def _is_there(api: WatchApi, path: str) -> bool:
    return path in api.objects
