"""The example GridCluster on a real Kubernetes: from apply to deletion.

The tests of this module share one cluster and run in the order in which they stand; each leaves
the example applied and ready, except the last.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.installation import CHANGE_TIMEOUT_S, EXAMPLE, NAMESPACE, POD, Answer, Installation

if TYPE_CHECKING:
    from typing import Any

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300)

OBSERVATION_PERIOD_S = 10.0
MAP = "/grid/rest/maps/default/"
QUEUE = "/grid/rest/queues/default"


def example(**spec: Any) -> str:
    """Return the example with some fields of its spec replaced."""
    document = yaml.safe_load(EXAMPLE)
    document["spec"].update(spec)
    return yaml.safe_dump(document)


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Installation:
    installation = Installation(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    installation.start_pod("stranger", client=False)
    return installation


def test_the_example_becomes_ready(
    grid: Installation, record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    grid.apply(EXAMPLE)
    grid.wait_ready()
    seconds = time.monotonic() - started
    record_property("apply_to_ready_s", seconds)
    with capsys.disabled():
        print(f"\ntime from apply to Ready: {seconds:.1f} s")
    status = grid.cluster()["status"]
    assert status["readyMembers"] == 1
    assert status["clusterState"].lower() == "active"
    assert status["clusterVersion"] == "0.2"
    (member,) = status["members"]
    assert member["pod"] == "demo-0"
    assert member["ready"] is True
    assert grid.condition("ConfigValid")["status"] == "True"
    assert grid.condition("Progressing")["status"] == "False"


def test_the_image_has_what_data_requests_run_through_compiled(grid: Installation) -> None:
    assert "the data path is compiled" in grid.kubectl("logs", "demo-0")


def test_kubectl_shows_and_explains(grid: Installation) -> None:
    header, row = grid.kubectl("get", "gc").splitlines()
    assert header.split() == ["NAME", "SIZE", "READY", "STATE", "VERSION", "AGE"]
    assert row.split()[0] == "demo"
    assert "DESCRIPTION" in grid.kubectl("explain", "gridcluster.spec.persistence")
    assert grid.get("gridcluster", "demo")["status"]["selector"]


def test_the_namespace_enforces_the_restricted_standard(grid: Installation) -> None:
    labels = grid.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    privileged = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "  - {name: c, image: x, securityContext: {privileged: true}}\n"
    )
    assert "violates PodSecurity" in grid.refused(privileged)


def test_maps_and_queues_through_the_service(grid: Installation) -> None:
    grid.wait_serving()
    assert grid.http("client", "POST", MAP + "key", "value").status == 200
    assert grid.http("client", "GET", MAP + "key").body == "value"
    assert grid.http("client", "POST", QUEUE, "first").status == 200
    assert grid.http("client", "POST", QUEUE, "second").status == 200
    assert grid.http("client", "GET", QUEUE + "/size").body == "2"
    assert grid.http("client", "DELETE", QUEUE + "/1").body == "first"
    assert grid.http("client", "DELETE", QUEUE + "/1").body == "second"
    assert grid.http("client", "DELETE", QUEUE + "/0").status == 204


@pytest.mark.capability("network-policy")
def test_a_stranger_reaches_no_port(grid: Installation) -> None:
    assert grid.http("stranger", "GET", "/grid/health", timeout_s=2).status == 0
    assert grid.http("stranger", "GET", "/grid/health", port=5702, timeout_s=2).status == 0
    assert grid.http("client", "GET", "/grid/health").status == 200
    assert grid.http("client", "GET", "/grid/health", host="demo-members", port=5702).status == 0
    policy = grid.get("networkpolicy", "demo")
    assert policy["spec"]["ingress"]


@pytest.mark.capability("network-policy")
def test_labelled_pods_of_any_namespace_read_metrics_and_no_others(grid: Installation) -> None:
    member, elsewhere = f"demo-0.demo-members.{NAMESPACE}", "default"
    label = "{gridcluster.io/metrics: 'true'}"
    pod = POD.format(name="scraper", labels=label, image=grid.member_image)
    grid.kube.kubectl("-n", elsewhere, "apply", "-f", "-", stdin=pod)
    wait = ("wait", "--for=condition=Ready", "pod/scraper", "--timeout=60s")
    grid.kube.kubectl("-n", elsewhere, *wait)

    def scrape(pod: str, namespace: str, path: str = "/metrics", port: int = 5703) -> Answer:
        return grid.http(pod, "GET", path, host=member, port=port, namespace=namespace, timeout_s=2)

    # Policies follow a new pod in their own time.
    grid.kube.wait_for(lambda: scrape("scraper", elsewhere).status == 200, CHANGE_TIMEOUT_S)
    assert "grid_ready 1.0" in scrape("scraper", elsewhere).body
    assert scrape("scraper", elsewhere, "/grid/health", 5701).status == 0
    assert scrape("client", NAMESPACE).status == 0
    assert scrape("stranger", NAMESPACE).status == 0
    grid.kube.kubectl("-n", elsewhere, "label", "pod", "scraper", "gridcluster.io/metrics-")
    grid.kube.wait_for(lambda: scrape("scraper", elsewhere).status == 0, CHANGE_TIMEOUT_S)
    grid.kube.kubectl("-n", elsewhere, "delete", "pod", "scraper")


def test_who_may_edit_a_namespace_may_make_a_gridcluster_in_it(grid: Installation) -> None:
    """Nobody watches the namespace: the object stays as the API server made it."""
    namespace, kube = "default", grid.kube
    for role, user in (("view", "viewer"), ("edit", "editor")):
        binding = ("create", "rolebinding", role, f"--clusterrole={role}", f"--user={user}")
        kube.kubectl("-n", namespace, *binding)

    def may(user: str, verb: str, *more: str) -> bool:
        asked = ("auth", "can-i", verb, "gridclusters.gridcluster.io", *more, "--as", user)
        return kube.try_kubectl("-n", namespace, *asked).stdout.strip() == "yes"

    # A controller adds the rules to the roles, in its own time.
    kube.wait_for(lambda: may("editor", "create") and may("viewer", "watch"), CHANGE_TIMEOUT_S)
    assert may("editor", "delete")
    assert may("editor", "list")
    assert not may("viewer", "create")
    assert not may("viewer", "delete")
    assert may("editor", "patch", "--subresource=scale")
    assert not may("editor", "patch", "--subresource=status")
    assert not may("somebody", "get")
    kube.kubectl("-n", namespace, "apply", "--as", "editor", "-f", "-", stdin=EXAMPLE)
    shown = kube.kubectl("-n", namespace, "get", "gc", "demo", "--as", "viewer", "-o", "json")
    # What waits by convention does not take it for one that is as it should be.
    assert json.loads(shown)["status"]["observedGeneration"] == -1
    taken = example(rest={"port": 5703})
    refused = kube.try_kubectl(
        *("-n", namespace, "apply", "--as", "editor", "-f", "-"), stdin=taken
    )
    assert "metrics.port is the REST port" in refused.stderr
    kube.kubectl("-n", namespace, "delete", "gc", "demo", "--as", "editor")


def test_an_unchanged_cluster_costs_no_write(
    grid: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    before = grid.versions()
    writes = grid.writes_during(3 * OBSERVATION_PERIOD_S)
    with capsys.disabled():
        print(f"\nAPI writes in {3 * OBSERVATION_PERIOD_S:.0f} s of an unchanged cluster: {writes}")
    assert grid.versions() == before
    assert writes == 0


def test_a_hand_edit_of_an_owned_field_is_reverted(grid: Installation) -> None:
    config = grid.get("configmap", "demo-config")["data"]["grid.yaml"]
    grid.kubectl("patch", "configmap", "demo-config", "-p", '{"data":{"grid.yaml":"grid: {}"}}')
    grid.kube.wait_for(
        lambda: grid.get("configmap", "demo-config")["data"]["grid.yaml"] == config,
        2 * OBSERVATION_PERIOD_S,
    )
    port = '[{"op":"replace","path":"/spec/ports/0/port","value":9999}]'
    grid.kubectl("patch", "service", "demo", "--type=json", "-p", port)
    grid.kube.wait_for(
        lambda: grid.get("service", "demo")["spec"]["ports"][0]["port"] == 5701,
        2 * OBSERVATION_PERIOD_S,
    )
    assert grid.get("configmap", "demo-config")["data"] == {"grid.yaml": config}
    assert len(grid.get("service", "demo")["spec"]["ports"]) == 1


def test_an_unowned_field_is_kept(grid: Installation) -> None:
    grid.wait_quiet()  # what the test before had reverted
    grid.kubectl("annotate", "service", "demo", "example.org/note=mine")
    grid.kubectl("label", "service", "demo", "team=blue")
    before = grid.versions()
    events = grid.cluster_events()
    assert grid.writes_during(2 * OBSERVATION_PERIOD_S) == 0
    service = grid.get("service", "demo")["metadata"]
    assert service["annotations"]["example.org/note"] == "mine"
    assert service["labels"]["team"] == "blue"
    assert grid.versions() == before
    assert grid.cluster_events() == events


@pytest.mark.capability("signal")
def test_readiness_follows_the_member(grid: Installation) -> None:
    def addresses() -> list[Any]:
        slices = grid.get("endpointslices", "-l", "kubernetes.io/service-name=demo")["items"]
        return [
            address
            for s in slices
            for e in s.get("endpoints") or []
            if e["conditions"]["ready"]
            for address in e["addresses"]
        ]

    assert len(addresses()) == 1
    # A stopped process answers no probe: not ready, and out of the Service.
    grid.kube.signal_pod(NAMESPACE, "demo-0", "STOP")
    try:
        grid.kube.wait_for(lambda: addresses() == [], CHANGE_TIMEOUT_S)
        grid.kube.wait_for(
            lambda: grid.condition("Ready").get("status") == "False", CHANGE_TIMEOUT_S
        )
    finally:
        grid.kube.signal_pod(NAMESPACE, "demo-0", "CONT")
    grid.wait_ready()
    grid.kube.wait_for(lambda: len(addresses()) == 1, CHANGE_TIMEOUT_S)


@pytest.mark.capability("signal")
def test_a_killed_process_comes_back_with_its_data(grid: Installation) -> None:
    grid.kube.wait_for(
        lambda: grid.http("client", "POST", MAP + "kept", "precious").status == 200,
        CHANGE_TIMEOUT_S,
    )
    grid.http("client", "POST", QUEUE, "waiting")
    restarts = grid.get("pod", "demo-0")["status"]["containerStatuses"][0]["restartCount"]
    uid = grid.member_uid()
    grid.kube.signal_pod(NAMESPACE, "demo-0", "KILL")
    grid.kube.wait_for(
        lambda: (
            grid.get("pod", "demo-0")["status"]["containerStatuses"][0]["restartCount"] > restarts
        ),
        CHANGE_TIMEOUT_S,
    )
    grid.kube.wait_for(
        lambda: grid.http("client", "GET", MAP + "kept").body == "precious", CHANGE_TIMEOUT_S
    )
    assert grid.http("client", "DELETE", QUEUE + "/1").body == "waiting"
    assert grid.member_uid() == uid
    grid.wait_ready()


def test_a_deleted_pod_comes_back_with_its_data(grid: Installation) -> None:
    uid = grid.member_uid()
    uuid = grid.cluster()["status"]["members"][0]["uuid"]
    assert grid.http("client", "POST", MAP + "kept", "precious").status == 200
    grid.kubectl("delete", "pod", "demo-0")
    grid.kube.wait_for(
        lambda: grid.http("client", "GET", MAP + "kept").body == "precious", CHANGE_TIMEOUT_S
    )
    assert grid.member_uid() != uid
    grid.wait_ready()
    assert grid.cluster()["status"]["members"][0]["uuid"] == uuid


def test_an_edit_is_rolled_out(grid: Installation) -> None:
    uid = grid.member_uid()
    queues = [*yaml.safe_load(EXAMPLE)["spec"]["queues"], {"name": "small", "maxSize": 1}]
    grid.apply(example(queues=queues, pod={"annotations": {"example.org/edition": "second"}}))
    grid.wait_ready()
    grid.kube.wait_for(lambda: grid.member_uid() != uid, CHANGE_TIMEOUT_S)
    grid.wait_ready()
    grid.kube.wait_for(
        lambda: grid.http("client", "POST", "/grid/rest/queues/small", "1").status == 200,
        CHANGE_TIMEOUT_S,
    )
    assert grid.http("client", "POST", "/grid/rest/queues/small", "2").status == 503
    assert grid.http("client", "GET", MAP + "kept").body == "precious"


def test_a_bad_spec_is_refused_with_a_message(grid: Installation) -> None:
    assert "size above 9" in grid.refused(example(size=10))
    assert "spec.size: Invalid value: size cannot change" in grid.refused(example(size=3))
    assert "unknown field" in grid.refused(example(colour="blue"))
    assert "spec.deletionPolicy" in grid.refused(example(deletionPolicy="Shred"))


def test_a_size_that_the_operator_refuses_can_be_set_back(grid: Installation) -> None:
    """Where no operator works: one of three pods is there, such as under a quota."""
    kube, of = grid.kube, ("-n", "default")
    name = "gridcluster/unserved"

    def scale(size: int) -> bool:
        return kube.try_kubectl(*of, "scale", name, f"--replicas={size}").returncode == 0

    def observe(**status: Any) -> None:
        patch = json.dumps({"status": status})
        arguments = ("--subresource=status", "--type=merge", "--patch", patch)
        kube.kubectl(*of, "patch", name, *arguments)

    document = yaml.safe_load(example(size=3))
    document["metadata"] = {"name": "unserved", "namespace": "default"}
    kube.apply(yaml.safe_dump(document))
    try:
        observe(size=1)
        assert not scale(1), "members are there"
        observe(size=0)
        assert scale(1), "the operator compares with what members have on disk"
        observe(size=1, conditions=[refused_size()])
        assert scale(3)
    finally:
        kube.kubectl(*of, "delete", name)


def refused_size() -> dict[str, str]:
    words = {"type": "ConfigValid", "status": "False", "reason": "ImmutableSize"}
    return {**words, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_bad_value_shows_in_a_condition(grid: Installation) -> None:
    uid = grid.member_uid()
    grid.apply(
        example(pod={"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}})
    )
    grid.kube.wait_for(
        lambda: grid.condition("ConfigValid").get("status") == "False", CHANGE_TIMEOUT_S
    )
    condition = grid.condition("ConfigValid")
    assert condition["reason"] == "InvalidQuantity"
    assert "memory" in condition["message"]
    assert grid.member_uid() == uid
    assert grid.http("client", "GET", MAP + "kept").body == "precious"
    grid.apply(EXAMPLE)
    grid.wait_ready()
    assert grid.condition("ConfigValid")["status"] == "True"


def test_a_restarted_operator_changes_nothing(grid: Installation) -> None:
    before = grid.versions()
    events = grid.cluster_events()
    old = grid.operator_pod()
    grid.kubectl("delete", "pod", old)
    grid.kubectl("rollout", "status", "deployment/grid-operator", "--timeout=60s")
    grid.wait_quiet()
    assert grid.writes_during(2 * OBSERVATION_PERIOD_S) == 0
    after = grid.versions()
    kept = {name for name in before if "operator" not in name}
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    assert grid.cluster_events() == events


def test_deletion_leaves_the_volumes(grid: Installation) -> None:
    grid.kubectl("delete", "gridcluster", "demo")
    grid.kube.wait_for(
        lambda: (
            grid.get(
                "statefulsets,services,configmaps,secrets,networkpolicies,pods",
                *("-l", "gridcluster.io/cluster=demo"),
            )["items"]
            == []
        ),
        CHANGE_TIMEOUT_S,
    )
    claims = grid.get("pvc")["items"]
    assert [claim["metadata"]["name"] for claim in claims] == ["data-demo-0"]


def test_a_cluster_of_the_same_name_takes_its_volume_up_again(grid: Installation) -> None:
    # As a claim that an administrator made beforehand: it has to follow the deletion policy, too.
    grid.kubectl("label", "pvc", "data-demo-0", "gridcluster.io/cluster-")
    grid.apply(example(deletionPolicy="Delete"))
    grid.wait_ready()
    grid.kube.wait_for(
        lambda: grid.http("client", "GET", MAP + "kept").status == 200, CHANGE_TIMEOUT_S
    )
    assert grid.http("client", "GET", MAP + "kept").body == "precious"


def test_deletion_with_the_volumes(grid: Installation) -> None:
    grid.kubectl("delete", "gridcluster", "demo")
    grid.kube.wait_for(lambda: grid.get("pvc")["items"] == [], CHANGE_TIMEOUT_S)
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster=demo")["items"] == [],
        CHANGE_TIMEOUT_S,
    )
    assert grid.get("pvc")["items"] == []
