"""Members that Helm runs without an operator, while a client writes to them.

The tests of this module share one Kubernetes of two nodes and run in the order in which they stand:
each begins with the release that the one before has left. Both nodes reach the volumes, so that a
member of a drained node goes on at the other one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.conftest import a_cluster, images_in, shown_on_failure
from tests.e2e.installation import CHANGE_TIMEOUT_S, HEALTH, NAMESPACE, ROOT
from tests.e2e.pods.visitor import visiting
from tests.e2e.provider.images import PUBLIC_REGISTRY
from tests.e2e.releases import helm_on
from tests.e2e.written import Written
from tests.helm.program import helm_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Images, Kube
    from tests.e2e.provider.base import Provider
    from tests.helm.running import Helm

pytestmark = [pytest.mark.timeout(300, func_only=True), pytest.mark.capability("storage")]

NODES: Final = 2
NAME: Final = "grid"
SOLO: Final = "solo"
SIZE: Final = 3
MORE: Final = 5
MAP: Final = "/grid/rest/maps/default/"
WAITED_FOR: Final = ("--wait", "--timeout=200s")
RESTRICTED: Final = ("pod-security.kubernetes.io/enforce=restricted",)
CHANGED: Final = {"example.org/changed": "yes"}
SOON: Final = {"drainSeconds": 1}
SECRET: Final = "callers"
CREDENTIALS: Final = ("--from-literal=username=caller", "--from-literal=password=of-tests")
DATA: Final[dict[str, Any]] = {
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "maps": [{"name": "default"}],
    "queues": [{"name": "default"}],
    "persistence": {"enabled": True, "size": "256Mi", "storageClassName": "shared"},
}


class Released(Written):
    """The members of a release, and the values that it was given last."""

    def __init__(self, kube: Kube, member_image: str, helm: Helm) -> None:
        """Work on the release of this helm."""
        super().__init__(kube, member_image, helm.release)
        self.helm = helm
        self.values: dict[str, Any] = {**DATA, "image": member_image}

    def deploy(self, **values: Any) -> None:
        """Install the release, or upgrade it with other values, and wait until it is ready."""
        self.values |= values
        self.helm.deploy(self.values, *WAITED_FOR)

    def refused_upgrade(self, **values: Any) -> str:
        """Return why the release cannot be upgraded with other values."""
        return self.helm.refused_deploy({**self.values, **values}, *WAITED_FOR)

    def uninstall(self) -> None:
        """Remove the release, and wait until its pods are gone as well."""
        self.helm.uninstall()
        self.kube.wait_for(lambda: self.uids() == {}, CHANGE_TIMEOUT_S, "the end of all pods")

    def check(self) -> None:
        """Let `helm test` see that all works."""
        ran = self.helm.run("test", self.name, "--namespace", NAMESPACE, "--logs")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "passed" in ran.stdout
        assert "FAILED" not in ran.stdout

    def wait_answers(self) -> None:
        """Wait until the client's node has heard of the members, too."""
        self.kube.wait_for(
            lambda: self.http("client", "GET", HEALTH, host=self.name).status == 200,
            CHANGE_TIMEOUT_S,
        )

    def put(self, key: str, value: str) -> None:
        answer = self.http("client", "POST", f"{MAP}{key}", value, host=self.name)
        assert answer.status == 200, answer

    def read(self, key: str, host: str = "") -> str:
        return self.http("client", "GET", f"{MAP}{key}", host=host or self.name).body

    def members(self, pod: str) -> frozenset[str]:
        """Return the members that one of them knows, none when its name is not known yet."""
        told = self.http("client", "GET", "/grid/rest/cluster", host=self.host(pod))
        if told.status != 200:
            return frozenset()
        return frozenset(member["uuid"] for member in json.loads(told.body)["members"])

    def wait_all_know_all(self, size: int) -> None:
        def all_know_all() -> bool:
            known = [self.members(pod) for pod in self.uids()]
            return len(known) == size == len(known[0]) and len(set(known)) == 1

        self.kube.wait_for(all_know_all, CHANGE_TIMEOUT_S, "members that know each other")

    def ages(self) -> list[str]:
        """Return since when each pod is there, by ordinals."""
        pods = self.get("pods", "-l", f"gridcluster.io/cluster={self.name}")["items"]
        made = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in pods}
        return [made[name] for name in sorted(made)]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    yield from a_cluster(NODES)


@pytest.fixture(scope="module")
def kube(provider: Provider, pytestconfig: pytest.Config) -> Iterator[Kube]:
    yield from shown_on_failure(provider, pytestconfig)


@pytest.fixture(scope="module")
def images(provider: Provider) -> Images:
    return images_in(provider)


@pytest.fixture(scope="module")
def helm(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The chart of members, for a namespace that takes restricted pods alone."""
    kube.kubectl("create", "namespace", NAMESPACE)
    kube.kubectl("label", "namespace", NAMESPACE, *RESTRICTED)
    return helm_on(kube, "grid", tmp_path_factory.mktemp("helm"), NAME)


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images, helm: Helm) -> Released:
    released = Released(kube, images.member, helm)
    released.start_pod("client", client=True)
    return released


@pytest.fixture(scope="module")
def written(grid: Released) -> Released:
    """The members while a client writes to them."""
    grid.start_writer(grid.node_of("client"))
    return grid


def test_helm_3_installs_one_member_and_helm_4_finds_its_data(grid: Released, helm: Helm) -> None:
    older = replace(helm, program=helm_program(3), release=SOLO)
    solo = Released(grid.kube, grid.member_image, older)
    solo.deploy()
    solo.wait_answers()
    solo.put("kept", "1")
    before = solo.uids()

    solo.deploy(pod={"annotations": CHANGED})
    assert set(solo.uids()) == set(before)
    assert solo.uids() != before
    solo.uninstall()

    again = Released(grid.kube, grid.member_image, replace(helm, release=SOLO))
    again.deploy()
    again.wait_answers()
    assert again.read("kept") == "1"
    again.uninstall()


def test_three_members_are_one_cluster(grid: Released) -> None:
    grid.deploy(size=SIZE)
    grid.wait_answers()
    assert len({grid.node_of(pod) for pod in grid.uids()}) == NODES
    grid.wait_all_know_all(SIZE)
    for pod in grid.uids():
        grid.put(pod, f"of {pod}")
    for key in grid.uids():
        assert {grid.read(key, grid.host(pod)) for pod in grid.uids()} == {f"of {key}"}


def test_helm_test_passes_in_a_restricted_namespace(grid: Released) -> None:
    grid.check()


def test_a_configuration_that_cannot_work_touches_no_pod(written: Released) -> None:
    before, since = written.uids(), written.now()
    # What the schema of the values cannot know.
    config = {"map": {"a": {"time-to-live-seconds": "${TTL}"}}}
    said = written.refused_upgrade(config=config, pod={"env": [{"name": "TTL", "value": "-1"}]})
    assert "pre-upgrade" in said
    (job,) = written.get("jobs")["items"]
    assert "map.a.time-to-live-seconds" in written.kubectl("logs", f"job/{job['metadata']['name']}")
    assert written.uids() == before
    assert written.failed(since) == "[]"


def test_without_management_no_member_leaves(written: Released) -> None:
    before = written.uids()
    assert "management.enabled" in written.refused_upgrade(size=SIZE - 1)
    assert written.uids() == before


def test_another_image_takes_one_member_after_the_other(written: Released) -> None:
    before, since = written.uids(), written.now()
    with visiting(written, NAME) as visits, written.watched() as seen:
        # Those that are replaced drain for the time that they started with; later tests need less.
        image = with_registry(written.member_image)
        written.deploy(image=image, pod={"annotations": CHANGED}, shutdown=SOON)
        assert min(seen()) == SIZE - 1
    visits[0].check()
    assert written.failed(since) == "[]"
    written.check_writes_went_on(since)
    after = written.uids()
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert written.ages() == sorted(written.ages(), reverse=True), "the highest ordinal first"


def with_registry(image: str) -> str:
    """Return another name of an image that the nodes have already."""
    return image if "/" in image else f"{PUBLIC_REGISTRY}/{image}"


def test_three_become_five(written: Released) -> None:
    before, since = written.uids(), written.now()
    # Members that are to leave in the next test have to listen before.
    written.kubectl("create", "secret", "generic", SECRET, *CREDENTIALS)
    written.deploy(size=MORE, management={"enabled": True, "existingSecret": SECRET})
    assert written.failed(since) == "[]"
    assert not set(written.uids().values()) & set(before.values()), "all know all of the list"
    written.wait_all_know_all(MORE)
    written.check()


def test_five_become_three(written: Released) -> None:
    before, since = written.uids(), written.now()
    written.deploy(size=SIZE)
    assert written.failed(since) == "[]"
    assert not set(written.uids().values()) & set(before.values()), "all know the shorter list"
    written.wait_all_know_all(SIZE)
    written.check_nothing_is_lost()
    written.check()
    # No member starts on them again, as the notes of the upgrade say.
    left = [f"data-{NAME}-{ordinal}" for ordinal in range(SIZE, MORE)]
    written.kubectl("delete", "pvc", *left, "--timeout=60s")


def test_members_that_were_scaled_away_by_hand_come_back_with_all(written: Released) -> None:
    def scale(size: int) -> None:
        written.kubectl("scale", f"statefulset/{NAME}", f"--replicas={size}")
        written.kube.wait_for(lambda: len(written.uids()) == size, CHANGE_TIMEOUT_S)

    claims = written.get("pvc")["items"]
    size = len(written.uids())
    scale(1)
    only = written.host(f"{NAME}-0")
    written.kube.wait_for(
        lambda: written.http("client", "GET", HEALTH, host=only).status == 503, CHANGE_TIMEOUT_S
    )
    scale(size)
    written.kubectl("rollout", "status", f"statefulset/{NAME}", "--timeout=90s")
    written.wait_writes()
    written.check_nothing_is_lost()
    assert len(written.get("pvc")["items"]) == len(claims)


def test_a_node_is_drained_of_one_member_at_a_time(written: Released) -> None:
    since, home = written.now(), written.node_of("writer")
    pods = written.uids()
    node = next(node for node in map(written.node_of, pods) if node != home)
    away = [pod for pod in pods if written.node_of(pod) == node]
    with written.watched() as seen:
        try:
            written.kube.kubectl("cordon", node)
            written.kube.kubectl("cordon", home)
            written.evict(away[0])
            for other in set(pods) - {away[0]}:
                assert "disruption budget" in written.refused_eviction(other)
            written.kube.kubectl("uncordon", home)
            drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
            written.kube.kubectl(*drain, "--force", "--timeout=150s", timeout_s=160)
        finally:
            written.kube.kubectl("uncordon", home, node)
        written.kubectl("rollout", "status", f"statefulset/{NAME}", "--timeout=90s")
        assert min(seen()) == len(pods) - 1
    assert {written.node_of(pod) for pod in pods} == {home}
    assert written.failed(since) == "[]"


def test_an_uninstalled_release_finds_its_data_again(written: Released) -> None:
    written.uninstall()
    written.deploy()
    written.wait_writes()
    written.check_nothing_is_lost()
    assert written.read(f"{NAME}-0") == f"of {NAME}-0"


def test_the_operator_takes_the_members_over_with_their_data(
    written: Released, images: Images
) -> None:
    chart = replace(written.helm, chart=ROOT / "charts" / "grid-operator", release="grid-operator")
    chart.deploy({"image": images.operator}, *WAITED_FOR)
    # The operator sees to that.
    written.values.pop("management", None)
    written.deploy(mode="GridCluster")
    written.wait_ready(NAME)
    written.wait_writes()
    assert written.cluster(NAME)["status"]["readyMembers"] == SIZE
    assert written.read(f"{NAME}-0") == f"of {NAME}-0"


def test_nothing_that_was_answered_is_lost(written: Released) -> None:
    written.stop_writer()
