"""A cluster of several members while a client writes to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from tests.e2e.installation import CHANGE_TIMEOUT_S, HEALTH, NAMESPACE, POD, Installation
from tests.e2e.pods.writer import CHECK_CODE, FAILED_CODE, LONGEST_GAP_CODE, NOW_CODE, WRITE_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Kube

ELECTION_S: Final = 15.0
"""A new leader of a part of the log takes up to 10 seconds; and a client's own 5 until it gives up
on a connection that is dead."""
LONE_S: Final = ELECTION_S + 5.0
"""The same for each of the writer's threads: it may have begun on a dead connection."""
WRITERS: Final = 4
WRITE_PAUSE_S: Final = 0.05
# One line for each change. A `range` fails at the second one, and the watch ends without a word.
READY: Final = 'jsonpath={.endpoints[*].conditions.ready}{"\\n"}'


class Written(Installation):
    """Members of one cluster, and a client that writes."""

    def __init__(self, kube: Kube, member_image: str, name: str) -> None:
        """Work on the cluster of that name."""
        super().__init__(kube, member_image)
        self.name = name

    def python(self, pod: str, code: str, *arguments: str) -> str:
        return self.kubectl("exec", pod, "--", "python3", "-c", code, *arguments).strip()

    def host(self, pod: str) -> str:
        return f"{pod}.{self.name}-members.{NAMESPACE}.svc"

    def uids(self) -> dict[str, str]:
        items = self.get("pods", "-l", f"gridcluster.io/cluster={self.name}")["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def node_of(self, pod: str) -> str:
        return str(self.get("pod", pod)["spec"]["nodeName"])

    @property
    def _slices(self) -> tuple[str, ...]:
        label = f"kubernetes.io/service-name={self.name}"
        return "endpointslices.discovery.k8s.io", "-l", label

    def endpoints(self) -> int:
        """Return how many members the Service sends requests to."""
        slices = self.get(*self._slices)["items"]
        found = [e for one in slices for e in one.get("endpoints") or ()]
        return sum(bool(e["conditions"].get("ready")) for e in found)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Callable[[], list[int]]]:
        """Watch the Service while the block runs; give how many it sent requests to, over time."""
        command = ("get", *self._slices, "--watch", "-o", READY)
        with (
            tempfile.TemporaryFile() as shown,
            subprocess.Popen(
                [*self.kube.provider.kubectl, "-n", NAMESPACE, *command], stdout=shown
            ) as watch,
        ):

            def seen() -> list[int]:
                assert watch.poll() is None, "the watch is over"
                told = os.pread(shown.fileno(), os.fstat(shown.fileno()).st_size, 0)
                return [line.count(b"true") for line in told.splitlines()]

            try:
                self.kube.wait_for(seen, CHANGE_TIMEOUT_S)
                yield seen
            finally:
                watch.kill()

    def refused_eviction(self, pod: str) -> str:
        """Ask for an eviction; return why it was refused."""
        answer = self._evict(pod)
        assert answer.returncode != 0, f"{pod} was evicted"
        return answer.stdout + answer.stderr

    def evict(self, pod: str) -> None:
        """Evict it as soon as the budget allows one."""
        self.kube.wait_for(lambda: self._evict(pod).returncode == 0, CHANGE_TIMEOUT_S)

    def _evict(self, pod: str) -> subprocess.CompletedProcess[str]:
        wanted = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        return self.kube.try_kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(wanted))

    def start_writer(self, node: str) -> None:
        """Start it on a node that stays on, and wait until its writes are answered."""
        pod = json.loads(
            self.kubectl(
                "create",
                "--dry-run=client",
                "-f",
                "-",
                "-o",
                "json",
                stdin=POD.format(
                    name="writer", labels='{gridcluster.io/client: "true"}', image=self.member_image
                ),
            )
        )
        pod["spec"]["nodeName"] = node
        arguments = [self.name, str(WRITERS), str(WRITE_PAUSE_S), str(ELECTION_S)]
        pod["spec"]["containers"][0]["command"] = ["python3", "-c", WRITE_CODE, *arguments]
        self.apply(json.dumps(pod))
        self.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")
        self.wait_writes()

    def wait_writes(self) -> None:
        """Wait until writes of each thread are answered, also after a time when none could be."""
        recent_s = 3.0
        self.kube.wait_for(
            lambda: max(self._gaps_s(self.now() - recent_s)) < recent_s, CHANGE_TIMEOUT_S, "writes"
        )

    def now(self) -> float:
        """Return the time by the writer's clock."""
        return float(self.python("writer", NOW_CODE))

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time without an answered write since a moment, by whomever."""
        return self._gaps_s(since)[0]

    def _gaps_s(self, since: float) -> list[float]:
        told = self.python("writer", LONGEST_GAP_CODE, str(since), str(WRITERS))
        return [float(gap) for gap in told.split()]

    def check_writes_went_on(self, since: float, lone_s: float = LONE_S) -> None:
        """See that writes were answered all the time since a moment, those of each thread, too."""
        together, *threads = self._gaps_s(since)
        assert together < ELECTION_S
        assert max(threads) < lone_s, f"longest times without an answer, by threads: {threads}"

    def failed(self, since: float) -> str:
        """Return what the writer, who tries again, had no answer to in good time since then."""
        return self.python("writer", FAILED_CODE, str(since))

    def wait_names(self) -> None:
        """Wait until the writer finds each member by its name: a pod's name follows its address."""

        def are_found() -> bool:
            asked = (self.http("writer", "GET", HEALTH, host=self.host(pod)) for pod in self.uids())
            return all(answer.status == 200 for answer in asked)

        self.kube.wait_for(are_found, CHANGE_TIMEOUT_S, "the names of all members")

    def check_nothing_is_lost(self) -> int:
        """Read whatever was answered, a part of it from each member; return how much it was."""
        self.wait_names()
        number, _, wrong = self.python(
            "writer", CHECK_CODE, *map(self.host, self.uids())
        ).partition(" ")
        assert wrong == "[]"
        return int(number)

    def stop_writer(self) -> None:
        """Let it end what it has begun, and see that it wrote all the time."""
        self.python("writer", "open('/tmp/stop', 'w')")
        stopped = "import os; print(os.path.exists('/tmp/stopped'))"
        self.kube.wait_for(lambda: self.python("writer", stopped) == "True", CHANGE_TIMEOUT_S)
        assert self.check_nothing_is_lost() > WRITERS / WRITE_PAUSE_S, "the client hardly wrote"
