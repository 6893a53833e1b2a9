"""Three members on three nodes: what befalls one of them loses nothing, and stops nobody for long.

The tests of this module share one cluster and run in the order in which they stand; from the third
on a client writes all the time. Each leaves three members that are safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.conftest import a_cluster, images_in, shown_on_failure
from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, POD, Installation, manifest
from tests.e2e.looks import CONNECT_CODE, LEADERS_CODE, SERVER_CODE
from tests.e2e.visitor import visiting
from tests.e2e.writer import CHECK_CODE, FAILED_CODE, LONGEST_GAP_CODE, NOW_CODE, WRITE_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tests.e2e.conftest import Images, Kube
    from tests.e2e.provider.base import Provider

pytestmark = [pytest.mark.timeout(300, func_only=True), pytest.mark.capability("storage")]

NAME: Final = "three"
SIZE: Final = 3
MORE: Final = 5
MOST: Final = 7
"""Of so many members two hold a part of the data only."""
PODS: Final = tuple(f"{NAME}-{ordinal}" for ordinal in range(SIZE))
MAP: Final = "/grid/rest/maps/default/"
MEMBERS_PORT: Final = 5704
SLICES: Final = ("endpointslices.discovery.k8s.io", "-l", f"kubernetes.io/service-name={NAME}")
SAFE_TIMEOUT_S: Final = 120.0
ELECTION_S: Final = 15.0
"""A new leader of a part of the log takes up to 10 seconds; and a client's own 5 until it gives up
on a connection that is dead."""
LONE_S: Final = ELECTION_S + 5.0
"""The same for each of the writer's threads: it may have begun on a dead connection."""
UNPOWERED_S: Final = 45.0
"""The same, while the Service sends a third of the connections to a node that lost its power."""
WRITERS: Final = 4
WRITE_PAUSE_S: Final = 0.05

# One line for each change. A `range` fails at the second one, and the watch ends without a word.
READY: Final = 'jsonpath={.endpoints[*].conditions.ready}{"\\n"}'


class Several(Installation):
    """Three members, and a client that writes."""

    identity = ""
    """The version of the members' identity when they were ready first."""

    def version(self, *words: str) -> str:
        metadata = self.get(*words)["metadata"]
        return f"{metadata['uid']}@{metadata['resourceVersion']}"

    def python(self, pod: str, code: str, *arguments: str) -> str:
        return self.kubectl("exec", pod, "--", "python3", "-c", code, *arguments).strip()

    def host(self, pod: str) -> str:
        return f"{pod}.{NAME}-members.{NAMESPACE}.svc"

    def uids(self) -> dict[str, str]:
        items = self.get("pods", "-l", f"gridcluster.io/cluster={NAME}")["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def node_of(self, pod: str) -> str:
        return str(self.get("pod", pod)["spec"]["nodeName"])

    def node_is_ready(self, node: str) -> bool:
        conditions = self.kube.json("get", "node", node)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def endpoints(self) -> int:
        """Return how many members the Service sends requests to."""
        slices = self.get(*SLICES)["items"]
        found = [e for one in slices for e in one.get("endpoints") or ()]
        return sum(bool(e["conditions"].get("ready")) for e in found)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Callable[[], list[int]]]:
        """Watch the Service while the block runs; give how many it sent requests to, over time."""
        command = ("get", *SLICES, "--watch", "-o", READY)
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

    def busiest(self) -> str:
        """Return the pod whose server leads most parts of the log."""
        leaders = json.loads(self.python(PODS[0], LEADERS_CODE))
        (pod,) = (pod for pod in PODS if max(leaders, key=leaders.get).startswith(f"{pod}-"))
        return pod

    def wait_status(self, condition: str, status: str) -> None:
        self.kube.wait_for(
            lambda: self.condition(condition, NAME).get("status") == status,
            SAFE_TIMEOUT_S,
            f"{condition} to be {status}",
        )

    def wait_safe_again(self, size: int = SIZE) -> None:
        """Wait until everybody is there, and the operator would let another one go."""
        for condition in ("Ready", "SafeToDisrupt"):
            self.wait_status(condition, "True")
        assert len(self.uids()) == size

    def start_writer(self) -> None:
        """Start it on the operator's node, which stays on."""
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
        pod["spec"]["nodeName"] = self.node_of(self.operator_pod())
        arguments = [NAME, str(WRITERS), str(WRITE_PAUSE_S), str(ELECTION_S)]
        pod["spec"]["containers"][0]["command"] = ["python3", "-c", WRITE_CODE, *arguments]
        self.apply(json.dumps(pod))
        self.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")

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

    def check_nothing_is_lost(self) -> int:
        """Read whatever was answered, a part of it from each member; return how much it was."""
        number, _, wrong = self.python(
            "writer", CHECK_CODE, *map(self.host, self.uids())
        ).partition(" ")
        assert wrong == "[]"
        return int(number)

    def elsewhere(self) -> list[str]:
        """Return the members that share no node with the writer."""
        writers = self.node_of("writer")
        return [pod for pod in PODS if self.node_of(pod) != writers]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    yield from a_cluster(SIZE)


@pytest.fixture(scope="module")
def kube(provider: Provider, pytestconfig: pytest.Config) -> Iterator[Kube]:
    yield from shown_on_failure(provider, pytestconfig)


@pytest.fixture(scope="module")
def images(provider: Provider) -> Images:
    return images_in(provider)


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Several:
    installation = Several(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    persistence = {"enabled": True, "size": "512Mi"}
    security = {"enabled": True}
    installation.apply(manifest(NAME, size=SIZE, persistence=persistence, security=security))
    installation.wait_ready(NAME)
    installation.identity = installation.version("secret", f"{NAME}-identity")
    return installation


@pytest.fixture(scope="module")
def written(grid: Several) -> Several:
    """The cluster while a client writes to it."""
    grid.start_writer()
    grid.kube.wait_for(lambda: grid.longest_gap_s(grid.now() - 1) < 1, CHANGE_TIMEOUT_S)
    return grid


def test_three_members_are_one_cluster_on_three_nodes(grid: Several) -> None:
    grid.kube.wait_for(lambda: grid.endpoints() == SIZE, CHANGE_TIMEOUT_S)
    grid.wait_serving(NAME)
    assert len({grid.node_of(pod) for pod in PODS}) == SIZE
    seen = set()
    for number, pod in enumerate(PODS):
        assert grid.http("client", "POST", f"{MAP}{pod}", str(number), host=NAME).status == 200
        document = json.loads(
            grid.http("client", "GET", "/grid/rest/cluster", host=grid.host(pod)).body
        )
        seen.add(tuple(sorted(member["uuid"] for member in document["members"])))
    assert {len(members) for members in seen} == {SIZE}
    assert len(seen) == 1
    for number, key in enumerate(PODS):
        for pod in PODS:
            answer = grid.http("client", "GET", f"{MAP}{key}", host=grid.host(pod))
            assert (answer.status, answer.body) == (200, str(number)), f"{key} from {pod}"
    assert grid.cluster(NAME)["status"]["readyMembers"] == SIZE
    assert grid.python(PODS[0], SERVER_CODE) == "/opt/grid/bin/nats-server"
    claims = {claim["metadata"]["name"] for claim in grid.get("pvc")["items"]}
    assert claims == {f"data-{pod}" for pod in PODS}


def test_several_cannot_be_scaled_to_one(grid: Several) -> None:
    arguments = ("-n", NAMESPACE, "scale", f"gridcluster/{NAME}", "--replicas=1")
    answer = grid.kube.try_kubectl(*arguments)
    assert answer.returncode != 0
    assert "size cannot change" in answer.stderr


@pytest.mark.capability("network-policy")
def test_the_members_port_is_closed_to_others(grid: Several) -> None:
    inside, outside = grid.host(PODS[0]), "client"
    assert grid.python(PODS[1], CONNECT_CODE, inside, str(MEMBERS_PORT)) == "open"
    assert grid.python(outside, CONNECT_CODE, inside, "5701") == "open"
    assert grid.python(outside, CONNECT_CODE, inside, str(MEMBERS_PORT)) == "TimeoutError"


def test_a_pod_that_is_deleted_by_hand_comes_back(written: Several) -> None:
    before, since = written.uids(), written.now()
    with visiting(written, NAME) as visits:
        written.kubectl("delete", "pod", PODS[1], "--wait=false")
        written.wait_status("SafeToDisrupt", "False")
        written.wait_safe_again()
    visits[0].check()
    after = written.uids()
    assert {pod for pod in PODS if after[pod] != before[pod]} == {PODS[1]}
    written.check_writes_went_on(since)


@pytest.mark.capability("signal")
def test_the_busiest_leader_is_killed(written: Several) -> None:
    pod, since = written.busiest(), written.now()
    with written.watched() as seen:
        written.kube.signal_pod(NAMESPACE, pod, "KILL")
        written.kube.wait_for(lambda: min(seen()) < SIZE, CHANGE_TIMEOUT_S)
        written.kube.wait_for(lambda: seen()[-1] == SIZE, SAFE_TIMEOUT_S)
        assert min(seen()) == SIZE - 1, "an election is no reason to leave the Service"
    written.wait_safe_again()
    written.check_writes_went_on(since)


def test_a_node_is_drained_and_meanwhile_no_other(written: Several) -> None:
    pod = written.elsewhere()[0]
    others = [other for other in PODS if other != pod]
    node, since = written.node_of(pod), written.now()
    drain = ("drain", node, "--delete-emptydir-data", "--force", "--timeout=90s")
    try:
        written.kube.kubectl(*drain, timeout_s=100)
        written.wait_status("SafeToDisrupt", "False")
        for other in others:
            assert "disruption budget" in _eviction(written, other)
    finally:
        written.kube.kubectl("uncordon", node)
    written.wait_safe_again()
    written.check_writes_went_on(since)


def _eviction(grid: Several, pod: str) -> str:
    """Ask for an eviction; return why it was refused."""
    wanted = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    answer = grid.kube.try_kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(wanted))
    assert answer.returncode != 0, f"{pod} was evicted"
    return answer.stdout + answer.stderr


@pytest.mark.capability("node-power")
def test_a_node_loses_its_power_and_gets_it_back(written: Several, provider: Provider) -> None:
    pod = written.elsewhere()[-1]
    node, since, fewest = written.node_of(pod), written.now(), SIZE

    def until(condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            nonlocal fewest
            fewest = min(fewest, written.endpoints())
            return condition()

        written.kube.wait_for(holds, SAFE_TIMEOUT_S)

    provider.node_off(node)
    try:
        until(lambda: not written.node_is_ready(node) and written.endpoints() == SIZE - 1)
        written.wait_status("SafeToDisrupt", "False")
        assert written.longest_gap_s(since) < ELECTION_S
    finally:
        provider.node_on(node)
    until(lambda: written.node_is_ready(node) and written.endpoints() == SIZE)
    assert fewest == SIZE - 1, "an election is no reason to leave the Service"
    written.wait_safe_again()
    written.check_writes_went_on(since, UNPOWERED_S)


def test_a_changed_pod_takes_one_member_after_the_other(written: Several) -> None:
    before, since = written.uids(), written.now()

    def is_rolled() -> bool:
        now = written.uids()
        return set(now) == set(PODS) and not set(now.values()) & set(before.values())

    # Those that are replaced drain for the time that they started with; later tests need less.
    changed = {"annotations": {"example.org/changed": "yes"}}
    spec = {"pod": changed, "shutdown": {"drainSeconds": 1}}
    with visiting(written, NAME) as visits, written.watched() as seen:
        written.kubectl("patch", "gc", NAME, "--type=merge", "-p", json.dumps({"spec": spec}))
        written.kube.wait_for(is_rolled, 2 * SAFE_TIMEOUT_S)
        written.wait_safe_again()
        assert min(seen()) == SIZE - 1
    visits[0].check()
    assert written.failed(since) == "[]"
    pods: list[Any] = [written.get("pod", pod) for pod in PODS]
    ages = [pod["metadata"]["creationTimestamp"] for pod in pods]
    assert ages == sorted(ages, reverse=True), "the highest ordinal first"
    restarts = [
        o for o in written.cluster(NAME)["status"]["lastOperations"] if o["kind"] == "Restart"
    ]
    assert {o["outcome"] for o in restarts} == {"Succeeded"}


@pytest.mark.parametrize("size", [MORE, MOST, SIZE])
def test_more_of_them_and_fewer(written: Several, size: int) -> None:
    before, since = written.uids(), written.now()

    def are_all_anew() -> bool:
        now = written.uids()
        return len(now) == size and not set(now.values()) & set(before.values())

    written.kubectl("patch", "gc", NAME, "--type=merge", "-p", f'{{"spec":{{"size":{size}}}}}')
    written.kube.wait_for(are_all_anew, 2 * SAFE_TIMEOUT_S)
    written.wait_safe_again(size)
    assert written.failed(since) == "[]"
    for pod in written.uids():
        health = written.http("client", "GET", "/grid/health", host=written.host(pod)).body
        assert json.loads(health)["clusterSize"] == size
    written.check_nothing_is_lost()


def test_nothing_that_was_answered_is_lost(written: Several) -> None:
    written.python("writer", "open('/tmp/stop', 'w')")
    stopped = "import os; print(os.path.exists('/tmp/stopped'))"
    written.kube.wait_for(lambda: written.python("writer", stopped) == "True", CHANGE_TIMEOUT_S)
    number = written.check_nothing_is_lost()
    assert number > WRITERS / WRITE_PAUSE_S, "the client hardly wrote"


def test_the_identity_was_made_once(grid: Several) -> None:
    identity, members = (
        grid.get(*words)["metadata"]["creationTimestamp"]
        for words in (("secret", f"{NAME}-identity"), ("statefulset", NAME))
    )
    assert identity <= members
    assert grid.version("secret", f"{NAME}-identity") == grid.identity
