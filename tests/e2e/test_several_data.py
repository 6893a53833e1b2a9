"""The data of several members: a backup of theirs becomes another cluster, and members leave.

The tests of this module share one cluster and run in the order in which they stand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.conftest import a_cluster, images_in, shown_on_failure
from tests.e2e.installation import CHANGE_TIMEOUT_S, Installation, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.e2e.conftest import Images, Kube
    from tests.e2e.provider.base import Provider

pytestmark = [pytest.mark.timeout(300, func_only=True), pytest.mark.capability("storage")]

NODES: Final = 2
NAME: Final = "kept"
COPY: Final = "copy"
SIZE: Final = 3
SOON: Final = {"drainSeconds": 1}
FEWER: Final = 2
MAP: Final = "/grid/rest/maps/default/"
KEYS: Final = 10
CHANGE_S: Final = 2 * CHANGE_TIMEOUT_S
"""Members leave, and the others restart one by one."""
PERSISTENCE: Final = {
    "enabled": True,
    "size": "256Mi",
    "backup": {
        "volume": {"size": "256Mi", "storageClassName": "shared", "accessMode": "ReadWriteMany"}
    },
}


class Kept(Installation):
    """Members that have data, and a client."""

    def patch(self, **spec: Any) -> None:
        self.kubectl("patch", "gc", NAME, "--type=merge", "-p", json.dumps({"spec": spec}))

    def put(self, value: str) -> None:
        for key in range(KEYS):
            answer = self.http("client", "POST", f"{MAP}{key}", value, host=NAME)
            assert answer.status == 200, answer

    def read(self, name: str) -> set[str]:
        """Return what the members of a cluster show."""
        return {
            self.http("client", "GET", f"{MAP}{key}", host=name, timeout_s=15).body
            for key in range(KEYS)
        }

    def pods(self, name: str) -> dict[str, str]:
        """Return the uids by name."""
        items = self.get("pods", "-l", f"gridcluster.io/cluster={name}")["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def claims(self) -> set[str]:
        return {claim["metadata"]["name"] for claim in self.get("pvc")["items"]}

    def ended(self, kind: str) -> list[str]:
        over = self.cluster(NAME)["status"].get("lastOperations", ())
        return [o["outcome"] for o in over if o["kind"] == kind]

    def wait(self, condition: str, name: str) -> None:
        self.kube.wait_for(
            lambda: self.condition(condition, name).get("status") == "True", CHANGE_S, condition
        )


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
def grid(kube: Kube, images: Images) -> Kept:
    installation = Kept(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    # Kubernetes keeps a claim as long as anybody owns it, and the GridCluster owns all of these.
    wish = {"size": SIZE, "persistence": PERSISTENCE, "deletionPolicy": "Delete", "shutdown": SOON}
    installation.apply(manifest(NAME, **wish))
    installation.wait_ready(NAME)
    return installation


def test_a_backup_of_several_members_becomes_a_cluster_of_another_size(grid: Kept) -> None:
    grid.put("kept")
    grid.kubectl("annotate", "gc", NAME, "gridcluster.io/backup=b1")
    grid.wait("BackupSucceeded", NAME)
    grid.put("later")

    grid.apply(manifest(COPY, size=FEWER, persistence=PERSISTENCE, restoreFrom={"cluster": NAME}))
    grid.wait("Restored", COPY)
    grid.wait("Ready", COPY)

    assert grid.read(COPY) == {"kept"}
    assert grid.read(NAME) == {"later"}
    grid.kubectl("delete", "gc", COPY)
    grid.kube.wait_for(lambda: not grid.pods(COPY), CHANGE_TIMEOUT_S)


def test_a_member_leaves_and_its_volume_goes(grid: Kept) -> None:
    grid.put("before")
    before = grid.pods(NAME)

    grid.patch(size=FEWER)

    left = {f"{NAME}-{ordinal}" for ordinal in range(FEWER)}
    grid.kube.wait_for(lambda: set(grid.pods(NAME)) == left, CHANGE_S, "a pod to go")
    grid.kube.wait_for(lambda: grid.ended("Shrink") == ["Succeeded"], CHANGE_TIMEOUT_S)
    data = {claim for claim in grid.claims() if claim.startswith(f"data-{NAME}-")}
    assert data == {f"data-{pod}" for pod in left}
    grid.kube.wait_for(
        lambda: not set(grid.pods(NAME).values()) & set(before.values()),
        CHANGE_S,
        "the others to get the shorter list",
    )
    grid.wait("Ready", NAME)
    grid.wait("SafeToDisrupt", NAME)
    assert grid.read(NAME) == {"before"}
    grid.put("after")


def test_another_member_takes_its_place(grid: Kept) -> None:
    grid.patch(size=SIZE)

    grid.wait("Ready", NAME)

    assert len(grid.pods(NAME)) == SIZE
    assert grid.read(NAME) == {"after"}
