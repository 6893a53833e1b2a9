"""Clusters of other shapes than the example: TLS, users, XML, several namespaces, odd endings."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.e2e.installation import (
    CHANGE_TIMEOUT_S,
    HEALTH,
    NAMESPACE,
    READY_TIMEOUT_S,
    ROOT,
    Installation,
    manifest,
)
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300)

SECRETS_TIMEOUT_S: Final = 150.0
"""A kubelet looks at mounted Secrets once a minute unless it is set otherwise; the member every 10
seconds."""
OTHER: Final = "grid-other"

# Prints the serial number of the certificate that a server shows, then an answer of it.
TLS_CODE: Final = """
import http.client, ssl, sys
host, ca, path = sys.argv[1:4]
context = ssl.create_default_context(cadata=ca)
connection = http.client.HTTPSConnection(host, 5701, timeout=5, context=context)
try:
    connection.request("GET", path)
    answer = connection.getresponse()
    print(connection.sock.getpeercert()["serialNumber"] if connection.sock else "-", answer.status)
except OSError as error:
    print(type(error).__name__, 0)
"""

# Prints the serial number of the certificate that one member shows to another one.
MEMBERS_CODE: Final = """
import socket, ssl, sys
host, place = sys.argv[1], "/etc/grid-tls/"
context = ssl.create_default_context(cafile=place + "ca.crt")
context.load_cert_chain(place + "tls.crt", place + "tls.key")
try:
    plain = socket.create_connection((host, 5704), 5)
    with context.wrap_socket(plain, server_hostname=host) as there:
        print(there.getpeercert()["serialNumber"], there.recv(4).decode())
except OSError as error:
    print(type(error).__name__, "-")
"""

# Turns the bits of a value wherever the store has it, in place, once LMDB has it.
DAMAGE_CODE: Final = """
import pathlib
import time
value = b"spoilt by a disk"
store = pathlib.Path("/data/persistence")
while not any(value in path.read_bytes() for path in store.rglob("data.mdb")):
    time.sleep(0.05)
for path in [*store.rglob("data.mdb"), *store.rglob("tail")]:
    content = path.read_bytes()
    with path.open("r+b") as file:
        at = content.find(value)
        while at >= 0:
            file.seek(at)
            file.write(bytes(byte ^ 255 for byte in value))
            at = content.find(value, at + 1)
"""


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Installation:
    installation = Installation(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    return installation


@pytest.fixture(autouse=True)
def _clean(grid: Installation) -> Iterator[None]:
    """Leave nothing of a test to the next."""
    yield
    grid.kubectl("delete", "gridclusters", "--all", "--timeout=60s")
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster")["items"] == [], CHANGE_TIMEOUT_S
    )
    grid.kubectl("delete", "pvc", "--all", "--timeout=60s")


def secret(name: str, **content: str) -> str:
    data = {key.replace("_", "."): value for key, value in content.items()}
    metadata = {"name": name}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    )


def tls_secret(authority: Authority, number: int) -> str:
    names = ",".join(
        f"DNS:{name}.{NAMESPACE}.svc" for name in ("tls", "*.tls-members", "tls-members")
    )
    pair = authority.issue(f"member-{number}", names=names)
    return secret(
        "member-tls",
        tls_crt=pair.certificate.read_text(),
        tls_key=pair.key.read_text(),
        ca_crt=authority.file.read_text(),
    )


def test_tls_and_its_rotation(grid: Installation, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ca = authority.file.read_text()

    def serial() -> str | None:
        """Return that of the certificate of a member that answers."""
        host = f"tls.{NAMESPACE}.svc"
        arguments = (host, ca, HEALTH)
        shown = grid.kubectl("exec", "client", "--", "python3", "-c", TLS_CODE, *arguments)
        number, status = shown.split()
        return number if status == "200" else None

    def shown_to_members() -> str | None:
        """Return that of the certificate that tls-0 shows to a member that it lets in."""
        host = f"tls-0.tls-members.{NAMESPACE}.svc"
        shown = grid.kubectl("exec", "tls-1", "--", "python3", "-c", MEMBERS_CODE, host)
        number, said = shown.split()
        return number if said == "INFO" else None

    grid.apply(tls_secret(authority, 1))
    kept = {"enabled": True, "size": "256Mi"}
    tls = {"secretName": "member-tls"}
    grid.apply(manifest("tls", size=2, tls=tls, configFormat="Xml", persistence=kept))
    grid.wait_ready("tls")
    grid.kube.wait_for(lambda: serial() is not None, READY_TIMEOUT_S)
    first, pod = serial(), grid.get("pod", "tls-0")
    assert shown_to_members() == first
    assert grid.cluster("tls")["status"]["membersTls"] is True
    grid.apply(tls_secret(authority, 2))
    grid.kube.wait_for(lambda: serial() not in (None, first), SECRETS_TIMEOUT_S)
    grid.kube.wait_for(lambda: shown_to_members() not in (None, first), SECRETS_TIMEOUT_S)
    after = grid.get("pod", "tls-0")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert grid.condition("Ready", "tls")["status"] == "True"


def test_users_are_made_once_and_asked_for(grid: Installation) -> None:
    security = {"enabled": True, "users": [{"name": "ada", "secretName": "ada"}]}
    groups = [{"name": name, "enabled": True} for name in ("Data", "ClusterWrite")]
    wanted = manifest(
        "safe",
        security=security,
        rest={"endpointGroups": groups},
        advancedNetwork={"enabled": True, "restPort": 5711},
        configFormat="Xml",
    )
    grid.apply(wanted)
    grid.wait_serving("safe")
    made = grid.get("secret", "ada")
    password = base64.b64decode(made["data"]["password"]).decode()
    path = "/grid/rest/management/cluster/state"
    assert grid.http("client", "POST", path, f"ada&{password}", host="safe").status == 200
    assert grid.http("client", "POST", path, "ada&guess", host="safe").status == 403
    grid.kubectl("annotate", "gc", "safe", "example.org/touched=yes")
    grid.wait_quiet()
    assert grid.get("secret", "ada")["metadata"]["uid"] == made["metadata"]["uid"]
    shown = json.dumps([grid.cluster("safe"), grid.get("events"), grid.get("configmaps")])
    assert password not in shown
    assert password not in grid.kubectl("logs", grid.operator_pod())


def test_a_cluster_in_memory_stops_and_starts_empty(grid: Installation) -> None:
    path = "/grid/rest/maps/default/k"
    grid.apply(manifest("fleeting", persistence={"enabled": False}))
    grid.wait_serving("fleeting")
    assert grid.http("client", "POST", path, "v", host="fleeting").status == 200
    grid.kubectl("patch", "gc", "fleeting", "--type=merge", "-p", '{"spec":{"runState":"Stopped"}}')
    grid.kubectl("wait", "--for=condition=Stopped", "gc/fleeting", "--timeout=90s")
    grid.kubectl("patch", "gc", "fleeting", "--type=merge", "-p", '{"spec":{"runState":"Running"}}')
    grid.wait_serving("fleeting")
    assert grid.http("client", "GET", path, host="fleeting").status == 204
    assert grid.http("client", "POST", path, "v", host="fleeting").status == 200


def test_a_cluster_made_again_over_its_orphans_keeps_what_members_hold(grid: Installation) -> None:
    def spec(*maps: str) -> str:
        persistence = {"enabled": False}
        return manifest("orphan", persistence=persistence, maps=[{"name": n} for n in maps])

    def owner() -> str:
        owners = grid.get("statefulset", "orphan")["metadata"].get("ownerReferences", [])
        return str(owners[0]["uid"]) if owners else ""

    path = "/grid/rest/maps/default/k"
    grid.apply(spec("default"))
    grid.wait_serving("orphan")
    # What members were given while they run is in the record of the StatefulSet alone.
    grid.apply(spec("default", "extra"))
    grid.kube.wait_for(
        lambda: (
            grid.http("client", "POST", "/grid/rest/maps/extra/k", "v", host="orphan").status == 200
        ),
        CHANGE_TIMEOUT_S,
    )
    assert grid.http("client", "POST", path, "v", host="orphan").status == 200
    pod = grid.get("pod", "orphan-0")["metadata"]["uid"]

    grid.kubectl("delete", "gridcluster", "orphan", "--cascade=orphan")
    grid.apply(spec("default", "extra"))

    grid.wait_serving("orphan")
    grid.kube.wait_for(
        lambda: owner() == grid.cluster("orphan")["metadata"]["uid"], CHANGE_TIMEOUT_S
    )
    assert grid.get("pod", "orphan-0")["metadata"]["uid"] == pod
    assert grid.http("client", "GET", path, host="orphan").body == "v"


@pytest.mark.capability("signal")
@pytest.mark.parametrize(("annotation", "left"), [("partial-start", 200), ("force-start", 204)])
def test_damaged_data_is_given_up_only_with_the_right_words(
    grid: Installation, annotation: str, left: int
) -> None:
    name = f"hurt-{annotation}"
    grid.apply(manifest(name))
    grid.wait_serving(name)
    maps = "/grid/rest/maps/default/"
    for key, value in (("old", "sound"), ("new", "spoilt by a disk")):
        assert grid.http("client", "POST", maps + key, value, host=name).status == 200
    grid.kubectl("exec", f"{name}-0", "--", "python3", "-c", DAMAGE_CODE)
    grid.kube.signal_pod(NAMESPACE, f"{name}-0", "KILL")
    grid.kube.wait_for(
        lambda: "checksum" in json.dumps(grid.cluster(name)["status"]["conditions"]),
        READY_TIMEOUT_S,
    )
    uid = grid.cluster(name)["metadata"]["uid"]

    def ask(value: str) -> None:
        wanted = f"gridcluster.io/{annotation}={value}"
        grid.kubectl("annotate", "gc", name, "--overwrite", wanted)

    ask("f1,acknowledge-data-loss=0d8f9f9e-0f6a-4b7c-8a55-2f4ac8e6a111")
    grid.kubectl("wait", "--for=condition=RequestsValid=false", f"gc/{name}", "--timeout=30s")
    assert grid.condition("Ready", name)["status"] == "False"
    ask(f"f2,acknowledge-data-loss={uid}")
    grid.wait_serving(name)
    assert grid.http("client", "GET", maps + "new", host=name).status == 204
    assert grid.http("client", "GET", maps + "old", host=name).status == left


def test_two_clusters_of_one_name_in_two_namespaces(grid: Installation, images: Images) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}}
    grid.kube.apply(yaml.safe_dump(namespace))
    _let_the_operator_serve(grid, OTHER)
    try:
        for place in (NAMESPACE, OTHER):
            grid.kube.kubectl("-n", place, "apply", "-f", "-", stdin=manifest("twin"))
        for place in (NAMESPACE, OTHER):
            words = ("wait", "--for=condition=Ready", "gc/twin", "--timeout=90s")
            grid.kube.kubectl("-n", place, *words, timeout_s=100)
        uids = {
            grid.kube.json("-n", place, "get", "pod", "twin-0")["metadata"]["uid"]
            for place in (NAMESPACE, OTHER)
        }
        assert len(uids) == 2
    finally:
        # The namespace goes with a cluster in it, and nothing holds it back.
        grid.kube.kubectl("delete", "namespace", OTHER, "--timeout=90s", timeout_s=100)
        grid.install_operator()


def test_the_example_of_a_second_namespace_is_rendered_as_it_is_meant(grid: Installation) -> None:
    rendered = grid.kube.kubectl("kustomize", str(ROOT / "examples" / "team-namespace"))
    objects = list(yaml.safe_load_all(rendered))
    (deployment,) = (o for o in objects if o["kind"] == "Deployment")
    bindings = {o["metadata"]["namespace"]: o for o in objects if o["kind"] == "RoleBinding"}
    subjects = [
        {"kind": "ServiceAccount", "name": "grid-operator", "namespace": NAMESPACE},
    ]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == [
        *("--namespace", NAMESPACE, "--namespace", "team-a"),
    ]
    assert bindings.keys() == {NAMESPACE, "team-a"}
    assert all(binding["subjects"] == subjects for binding in bindings.values())


def test_with_rights_everywhere_members_are_stopped_before_their_pods_go(
    grid: Installation,
) -> None:
    everywhere = str(ROOT / "operator" / "install-all-namespaces")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}}
    grid.kube.apply(yaml.safe_dump(namespace))
    grid.kube.kubectl("apply", "-k", everywhere)
    grid.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")
    try:
        for name in ("alone", "left"):
            grid.kube.kubectl("-n", OTHER, "apply", "-f", "-", stdin=manifest(name))
        for name in ("alone", "left"):
            words = ("wait", "--for=condition=Ready", f"gc/{name}", "--timeout=90s")
            grid.kube.kubectl("-n", OTHER, *words, timeout_s=100)
        found = grid.kube.json("-n", OTHER, "get", "gc", "alone")["metadata"]["finalizers"]
        assert found == ["gridcluster.io/shutdown"]
        grid.kube.kubectl("-n", OTHER, "delete", "gc", "alone", "--timeout=60s")
        events = grid.kube.json("-n", OTHER, "get", "events")["items"]
        told = {e["reason"] for e in events if e["involvedObject"]["name"] == "alone"}
        assert "ShutDownStarted" in told
        # With one left in it, and its finalizer: nothing holds the namespace back.
        grid.kube.kubectl("delete", "namespace", OTHER, "--timeout=90s", timeout_s=100)
    finally:
        grid.kube.kubectl("delete", "namespace", OTHER, "--ignore-not-found", "--timeout=90s")
        for kind in ("clusterrolebinding", "clusterrole"):
            grid.kube.kubectl("delete", kind, "grid-operator", "--ignore-not-found")
        grid.install_operator()


def _let_the_operator_serve(grid: Installation, namespace: str) -> None:
    rights = str(ROOT / "operator" / "install-namespace")
    grid.kube.kubectl("apply", "-n", namespace, "-k", rights)
    arguments = [
        *grid.get("deployment", "grid-operator")["spec"]["template"]["spec"]["containers"][0].get(
            "args", []
        ),
        *("--namespace", NAMESPACE, "--namespace", namespace),
    ]
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": arguments}]
    words = ("patch", "deployment", "grid-operator", "--type=json", "-p", json.dumps(patch))
    grid.kubectl(*words)
    grid.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")


def test_a_paused_cluster_can_be_deleted_and_touched_by_nobody(grid: Installation) -> None:
    grid.apply(manifest("still", paused=True))
    grid.kubectl(
        *("wait", "--for=jsonpath={.status.conditions[?(@.type=='Progressing')].reason}=Paused"),
        *("gc/still", "--timeout=30s"),
    )
    assert grid.get("statefulsets", "-l", "gridcluster.io/cluster=still")["items"] == []
    grid.kubectl("delete", "gc", "still", "--timeout=30s")


def test_deletion_while_a_backup_runs(grid: Installation) -> None:
    grid.apply(manifest("busy"))
    grid.wait_ready("busy")
    grid.kubectl("annotate", "gc", "busy", "gridcluster.io/backup=b1")
    grid.kubectl("delete", "gc", "busy", "--timeout=60s")
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster=busy")["items"] == [],
        CHANGE_TIMEOUT_S,
    )
    claims = {claim["metadata"]["name"] for claim in grid.get("pvc")["items"]}
    assert claims == {"data-busy-0", "busy-backup"}
