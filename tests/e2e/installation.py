"""The operator installed on a cluster, a client pod beside it, and the example applied."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from tests.e2e.conftest import Kube

ROOT: Final = Path(__file__).resolve().parents[2]
NAMESPACE: Final = "grid-system"
EXAMPLE: Final = (ROOT / "examples" / "gridcluster.yaml").read_text(encoding="utf-8")
READY_TIMEOUT_S: Final = 90.0
CHANGE_TIMEOUT_S: Final = 60.0
QUIET_S: Final = 3.0
WRITE_METRIC: Final = re.compile(
    r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)$", re.MULTILINE
)
WRITE_VERBS: Final = frozenset({"APPLY", "CREATE", "DELETE", "PATCH", "POST", "PUT", "UPDATE"})
OWNED_RESOURCES: Final = (
    *("gridclusters", "statefulsets", "services", "configmaps", "secrets", "networkpolicies"),
    *("persistentvolumeclaims", "poddisruptionbudgets"),
)
CONTROLLER_SUBRESOURCES: Final = {"statefulsets": "status", "persistentvolumeclaims": "status"}
"""Written by Kubernetes' own controllers only."""
KEPT_KINDS: Final = (
    "gridclusters.gridcluster.io,statefulsets,services,configmaps,secrets,networkpolicies,pods"
)

# Answers the way curl would: prints the status and the body, or the kind of failure.
HEALTH: Final = "/grid/health/ready"

CLIENT_CODE: Final = """
import sys, http.client
method, host, port, path, body, timeout = sys.argv[1:7]
connection = http.client.HTTPConnection(host, int(port), timeout=float(timeout))
try:
    connection.request(method, path, body=body.encode() if method in ("POST", "PUT") else None)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except OSError as error:
    print(0, type(error).__name__)
"""

POD: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {labels}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    seccompProfile: {{type: RuntimeDefault}}
  containers:
  - name: client
    image: {image}
    imagePullPolicy: IfNotPresent
    command: [python3, -c, "import time; time.sleep(100000)"]
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {{drop: [ALL]}}
"""


def manifest(name: str, **spec: Any) -> str:
    """Return a GridCluster with persistence and a volume for backups."""
    wanted: dict[str, Any] = {
        "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
        "maps": [{"name": "default"}],
        "queues": [{"name": "default"}],
        "persistence": {
            "enabled": True,
            "size": "256Mi",
            "recoveryPolicy": "PartialRecoveryMostRecent",
            "backup": {"volume": {"size": "256Mi"}},
        },
    }
    return yaml.safe_dump(
        {
            "apiVersion": "gridcluster.io/v1alpha1",
            "kind": "GridCluster",
            "metadata": {"name": name},
            "spec": wanted | spec,
        }
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as a pod saw it; status 0 when there was none."""

    status: int
    body: str


class Installation:
    """Everything a test does to one cluster that runs the operator."""

    def __init__(self, kube: Kube, member_image: str) -> None:
        """Work on kube; client pods run the member's image, which holds a Python."""
        self.kube = kube
        self.member_image = member_image

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.kube.kubectl("-n", NAMESPACE, *args, stdin=stdin)

    def get(self, *args: str) -> Any:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def install_operator(self) -> None:
        self.kube.kubectl("apply", "-f", str(ROOT / "crds" / "gridcluster.yaml"))
        self.kube.kubectl(
            "wait",
            "--for=condition=Established",
            "crd/gridclusters.gridcluster.io",
            "--timeout=30s",
        )
        self.kube.kubectl("apply", "-k", str(ROOT / "operator" / "install"))
        self.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")

    def apply(self, manifest: str) -> None:
        self.kubectl("apply", "-f", "-", stdin=manifest)

    def refused(self, manifest: str) -> str:
        """Apply a manifest that must be refused; return what the API server said."""
        answer = self.kube.try_kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=manifest)
        assert answer.returncode != 0, "the API server took it"
        return answer.stderr

    def cluster(self, name: str = "demo") -> Any:
        return self.get("gridcluster", name)

    def condition(self, kind: str, name: str = "demo") -> dict[str, Any]:
        """Return a condition that speaks of the present generation, {} when there is none."""
        cluster = self.cluster(name)
        for condition in cluster.get("status", {}).get("conditions", []):
            current = condition.get("observedGeneration") == cluster["metadata"]["generation"]
            if condition["type"] == kind and current:
                return dict(condition)
        return {}

    def wait_ready(self, name: str = "demo") -> None:
        self.kube.wait_for(
            lambda: self.condition("Ready", name).get("status") == "True", READY_TIMEOUT_S
        )

    def wait_serving(self, name: str = "demo") -> None:
        """Wait until a cluster is ready, and the client's node has heard of it.

        Routes, names and network policies follow a ready pod one by one, each in its own time:
        of 14 first requests right after Ready three took a second more and one five.
        """
        self.wait_ready(name)
        self.kube.wait_for(
            lambda: self.http("client", "GET", HEALTH, host=name).status == 200, READY_TIMEOUT_S
        )

    def start_pod(self, name: str, *, client: bool) -> None:
        labels = '{gridcluster.io/client: "true"}' if client else "{role: stranger}"
        self.apply(POD.format(name=name, labels=labels, image=self.member_image))
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def http(
        self,
        pod: str,
        method: str,
        path: str,
        body: str = "",
        *,
        host: str = "demo",
        port: int = 5701,
        namespace: str = NAMESPACE,
        timeout_s: float = 5,
    ) -> Answer:
        """Send one request from inside a pod."""
        shown = self.kube.kubectl(
            *("-n", namespace, "exec", pod, "--", "python3", "-c", CLIENT_CODE),
            *(method, host, str(port), path, body, str(timeout_s)),
        )
        status, _, rest = shown.partition(" ")
        return Answer(int(status), rest.removesuffix("\n"))

    def member_uid(self) -> str:
        return str(self.get("pod", "demo-0")["metadata"]["uid"])

    def versions(self) -> dict[str, str]:
        """Return uid and resourceVersion of everything that belongs to the cluster.

        Of a pod its uid and restarts: the kubelet writes its status whenever it likes.
        """
        return {
            f"{item['kind']}/{item['metadata']['name']}": _version(item)
            for item in self.get(KEPT_KINDS)["items"]
        }

    def api_writes(self) -> float:
        """Count what the API server was ever asked to write of what the operator may write.

        Pods count when they are deleted: their status is the kubelet's.
        """
        metrics = self.kube.kubectl("get", "--raw", "/metrics")
        total = 0.0
        for match in WRITE_METRIC.finditer(metrics):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
            if labels.get("verb") in WRITE_VERBS and _may_be_the_operators(labels):
                total += float(match["count"])
        return total

    def writes_during(self, duration_s: float) -> float:
        """Count the API writes of a stretch of time in which nobody changes anything."""
        before = self.api_writes()
        time.sleep(duration_s)  # what is measured is time itself
        return self.api_writes() - before

    def wait_quiet(self) -> None:
        """Wait until nobody has written anything for a while."""
        self.kube.wait_for(lambda: self.writes_during(QUIET_S) == 0, CHANGE_TIMEOUT_S)

    def cluster_events(self) -> set[str]:
        """Return the names of the Events about GridClusters."""
        items = self.get("events", "--field-selector", "involvedObject.kind=GridCluster")["items"]
        return {item["metadata"]["name"] for item in items}

    def operator_pod(self) -> str:
        pods = self.get("pods", "-l", "app.kubernetes.io/name=grid-operator")["items"]
        (name,) = [p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]]
        return str(name)


def _version(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    if item["kind"] != "Pod":
        return f"{metadata['uid']}@{metadata['resourceVersion']}"
    containers = item["status"].get("containerStatuses", [])
    return f"{metadata['uid']}, restarts {[c['restartCount'] for c in containers]}"


def _may_be_the_operators(labels: dict[str, str]) -> bool:
    if labels.get("dry_run"):
        return False
    resource = labels.get("resource", "")
    if resource == "pods":
        return labels["verb"] == "DELETE"
    if resource not in OWNED_RESOURCES:
        return False
    subresource = labels.get("subresource", "")
    return not subresource or subresource != CONTROLLER_SUBRESOURCES.get(resource)
