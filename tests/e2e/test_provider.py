"""The test cluster itself: what the other end-to-end tests rely on is really so."""

from __future__ import annotations

import json
import textwrap
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.provider.base import CommandError
from tests.e2e.provider.commands import run
from tests.e2e.provider.host import KUBELET_SYSCTLS
from tests.e2e.provider.kube import Kube
from tests.e2e.provider.native.cgroups import cgroup_directories
from tests.e2e.provider.native.cluster import NativeProvider
from tests.e2e.provider.native.network import NETNS_DIR, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_TIMEOUT_S: Final = 60.0
CHANGE_TIMEOUT_S: Final = 30.0
PORT: Final = 8080
SERVER: Final = textwrap.dedent(
    f"""
    import http.server, socketserver
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"served")
    socketserver.ThreadingTCPServer(("", {PORT}), Answer).serve_forever()
    """
)
# Prints the answer, "silence" when packets are dropped, or the error.
CLIENT: Final = textwrap.dedent(
    """
    import sys, urllib.request, urllib.error
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=2).read().decode())
    except (TimeoutError, urllib.error.URLError) as error:
        print("silence" if "timed out" in str(error) else error)
    """
)


class Namespace:
    """A namespace of its own for one test."""

    def __init__(self, kube: Kube, image: str) -> None:
        self.kube = kube
        self.image = image
        self.name = f"test-{uuid.uuid4().hex[:8]}"

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.kube.kubectl("-n", self.name, *args, stdin=stdin)

    def apply(self, *objects: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def start(self, pod: dict[str, Any]) -> None:
        self.apply(pod)
        name = pod["metadata"]["name"]
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def pod(self, name: str, code: str, **labels: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"name": name, **labels}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
                "containers": [
                    {
                        "name": "main",
                        "image": self.image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["python3", "-c", code],
                    }
                ],
            },
        }

    def start_server(self) -> None:
        server = self.pod("server", SERVER)
        probe = {"httpGet": {"port": PORT, "path": "/"}, "periodSeconds": 1}
        server["spec"]["containers"][0]["readinessProbe"] = probe
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "server"},
            "spec": {"selector": {"name": "server"}, "ports": [{"port": 80, "targetPort": PORT}]},
        }
        self.apply(service)
        self.start(server)

    def start_client(self, name: str, **labels: str) -> None:
        self.start(self.pod(name, "import time; time.sleep(100000)", **labels))

    def fetch(self, client: str, url: str) -> str:
        return self.kubectl("exec", client, "--", "python3", "-c", CLIENT, url).strip()

    def wait_until(self, client: str, url: str, outcome: str) -> None:
        """Wait until a fetch has that outcome: nodes hear of pods, Services and policies later."""
        self.kube.wait_for(lambda: self.fetch(client, url) == outcome, CHANGE_TIMEOUT_S)


@pytest.fixture
def namespace(kube: Kube, python_pod_image: str) -> Iterator[Namespace]:
    made = Namespace(kube, python_pod_image)
    kube.kubectl("create", "namespace", made.name)
    kube.wait_for(lambda: made.kubectl("get", "serviceaccount", "default"), CHANGE_TIMEOUT_S)
    yield made
    kube.kubectl("delete", "namespace", made.name, "--wait=false")


def test_every_node_is_ready(kube: Kube) -> None:
    nodes = kube.json("get", "nodes")["items"]
    conditions = [c for node in nodes for c in node["status"]["conditions"]]
    assert nodes
    assert {c["status"] for c in conditions if c["type"] == "Ready"} == {"True"}


def test_a_service_answers_by_its_name(namespace: Namespace) -> None:
    namespace.start_server()
    namespace.start_client("client")
    for name in ("server", f"server.{namespace.name}.svc.cluster.local"):
        url = f"http://{name}/"
        namespace.kube.wait_for(lambda u=url: namespace.fetch("client", u) == "served", 10)  # type: ignore[misc]
    nobody = f"http://nobody.{namespace.name}.svc.cluster.local./"
    assert "not known" in namespace.fetch("client", nobody)


@pytest.mark.capability("storage")
def test_a_volume_outlives_its_pod(namespace: Namespace) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    namespace.apply(claim)
    pod = namespace.pod("writer", "import time; time.sleep(100000)")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod["spec"]["volumes"] = [volume]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    namespace.start(pod)
    write = "open('/data/kept', 'w').write('precious')"
    namespace.kubectl("exec", "writer", "--", "python3", "-c", write)
    namespace.kubectl("delete", "pod", "writer")
    namespace.start(pod)
    read = "print(open('/data/kept').read())"
    assert namespace.kubectl("exec", "writer", "--", "python3", "-c", read) == "precious\n"


@pytest.mark.capability("network-policy")
def test_a_network_policy_blocks_and_lets_through(namespace: Namespace) -> None:
    namespace.start_server()
    namespace.start_client("friend", friend="yes")
    namespace.start_client("stranger")
    url = "http://server/"
    # The planted hole: without a policy both connect, so silence later means the policy works.
    for client in ("friend", "stranger"):
        namespace.wait_until(client, url, "served")
    namespace.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "friends-only"},
            "spec": {
                "podSelector": {"matchLabels": {"name": "server"}},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "from": [{"podSelector": {"matchLabels": {"friend": "yes"}}}],
                        "ports": [{"port": PORT}],
                    }
                ],
            },
        }
    )
    namespace.wait_until("stranger", url, "silence")
    assert namespace.fetch("friend", url) == "served"
    # The kubelet's probes pass: the pod stays ready.
    namespace.kubectl("wait", "--for=condition=Ready", "pod/server", "--timeout=5s")
    namespace.kubectl("delete", "networkpolicy", "friends-only")
    namespace.wait_until("stranger", url, "served")


@pytest.mark.capability("network-policy")
def test_an_egress_policy_leaves_only_what_it_names(namespace: Namespace) -> None:
    namespace.start_server()
    namespace.start_client("client")
    url = "http://server/"
    namespace.wait_until("client", url, "served")
    dns = {
        "to": [
            {
                "namespaceSelector": {},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
    }
    policy: dict[str, Any] = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "outwards"},
        "spec": {
            "podSelector": {"matchLabels": {"name": "client"}},
            "policyTypes": ["Egress"],
            "egress": [dns],
        },
    }
    namespace.apply(policy)
    namespace.wait_until("client", url, "silence")
    to_server = {"to": [{"podSelector": {"matchLabels": {"name": "server"}}}]}
    policy["spec"]["egress"] = [dns, to_server]
    namespace.apply(policy)
    namespace.wait_until("client", url, "served")


def test_the_restricted_standard_is_enforced(namespace: Namespace) -> None:
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    namespace.kube.kubectl("label", "namespace", namespace.name, enforce)
    with pytest.raises(CommandError, match="violates PodSecurity"):
        namespace.apply(namespace.pod("careless", "pass"))


@pytest.mark.capability("signal")
def test_a_killed_process_is_started_again(namespace: Namespace) -> None:
    def restarts() -> int:
        pod = namespace.kube.json("-n", namespace.name, "get", "pod", "client")
        return int(pod["status"]["containerStatuses"][0]["restartCount"])

    namespace.start_client("client")
    assert restarts() == 0
    namespace.kube.signal_pod(namespace.name, "client", "KILL")
    namespace.kube.wait_for(lambda: restarts() == 1, CHANGE_TIMEOUT_S)


def _mounts(prefix: str) -> list[str]:
    """Return what is mounted, but for the namespaces of clusters whose names start otherwise."""
    mounted = Path("/proc/self/mounts").read_text().splitlines()
    of_clusters, own = f"{NETNS_DIR}/grid-", f"{NETNS_DIR}/{prefix}"
    return [line for line in mounted if of_clusters not in line or own in line]


def _sysctls() -> dict[str, str]:
    return {key: Path("/proc/sys", key).read_text().strip() for key in KUBELET_SYSCTLS}


def _processes_mentioning(text: str) -> list[str]:
    return [
        line
        for line in run("ps", "-eo", "args").splitlines()
        if text in line and "ps -eo" not in line
    ]


@pytest.mark.capability("teardown", "node-power", "node-cut")
def test_nodes_are_lost_and_found_and_nothing_stays_behind() -> None:
    """A second cluster beside the first: three nodes, a power cut, a network cut, the end."""
    cluster = NativeProvider(f"x{uuid.uuid4().hex[:8]}")
    prefix = f"grid-{cluster.name}-"
    mounts = _mounts(prefix)
    other = Kube(cluster)
    try:
        cluster.up(nodes=3)
        layout = cluster.layout

        def ready(node: str) -> bool:
            conditions = other.json("get", "node", node)["status"]["conditions"]
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        cluster.node_off("n2")
        cluster.cut("n3", ["cp", "n1"])
        other.wait_for(lambda: not ready("n2") and not ready("n3"), READY_TIMEOUT_S)
        assert ready("n1")
        cluster.node_on("n2")
        cluster.heal()
        other.wait_for(lambda: ready("n2") and ready("n3"), READY_TIMEOUT_S)
    finally:
        cluster.down()
    assert namespaces(prefix) == []
    assert cgroup_directories(prefix) == []
    assert layout.host_link not in run("ip", "-o", "link")
    assert _mounts(prefix) == mounts
    assert not layout.directory.exists()
    assert _processes_mentioning(str(layout.directory)) == []
    cluster.down()  # nothing to do is no error


@pytest.mark.capability("teardown")
def test_a_failed_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise CommandError("planted")

    monkeypatch.setattr("tests.e2e.provider.native.cluster.first_objects", fail)
    cluster = NativeProvider(f"y{uuid.uuid4().hex[:8]}")
    prefix = f"grid-{cluster.name}-"
    mounts = _mounts(prefix)
    with pytest.raises(CommandError, match="planted"):
        cluster.up(nodes=1)
    assert namespaces(prefix) == []
    assert cgroup_directories(prefix) == []
    assert _mounts(prefix) == mounts
    assert _processes_mentioning(f"/{cluster.name}/") == []
