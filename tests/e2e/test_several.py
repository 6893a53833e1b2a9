"""Three members on three nodes: what befalls one of them loses nothing, and stops nobody for long.

The tests of this module share one cluster and run in the order in which they stand; from the third
on a client writes all the time. Each leaves three members that are safe.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.conftest import a_cluster, images_in, shown_on_failure
from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, manifest
from tests.e2e.pods.looks import CONNECT_CODE, LEADERS_CODE, SERVER_CODE
from tests.e2e.pods.visitor import visiting
from tests.e2e.written import ELECTION_S, Written

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
SAFE_TIMEOUT_S: Final = 120.0
UNPOWERED_S: Final = 45.0
"""A thread of the writer is answered after so long at most, while the Service sends a third of the
connections to a node that lost its power."""


class Several(Written):
    """Three members, and a client that writes."""

    identity = ""
    """The version of the members' identity when they were ready first."""

    def version(self, *words: str) -> str:
        metadata = self.get(*words)["metadata"]
        return f"{metadata['uid']}@{metadata['resourceVersion']}"

    def node_is_ready(self, node: str) -> bool:
        conditions = self.kube.json("get", "node", node)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

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
    installation = Several(kube, images.member, NAME)
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
    grid.start_writer(grid.node_of(grid.operator_pod()))
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
            assert "disruption budget" in written.refused_eviction(other)
    finally:
        written.kube.kubectl("uncordon", node)
    written.wait_safe_again()
    written.check_writes_went_on(since)


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
    written.stop_writer()


def test_the_identity_was_made_once(grid: Several) -> None:
    identity, members = (
        grid.get(*words)["metadata"]["creationTimestamp"]
        for words in (("secret", f"{NAME}-identity"), ("statefulset", NAME))
    )
    assert identity <= members
    assert grid.version("secret", f"{NAME}-identity") == grid.identity
