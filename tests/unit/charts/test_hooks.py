"""What the chart has in place of an operator that calls the members: Jobs, and the test's pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.command.client import _parser as client_parser
from grid_member.command.line import main as grid_member

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(120, func_only=True)

Tree = dict[str, Any]
MANAGED: Final[Tree] = {"management": {"enabled": True, "existingSecret": "for-management"}}
BACKUP: Final[Tree] = {
    "enabled": True,
    "backup": {
        "volume": {"size": "1Gi", "accessMode": "ReadWriteMany"},
        "schedule": {"cron": "0 3 * * *", "timeZone": "Europe/Berlin"},
    },
}
FULL: Final[Tree] = {
    **MANAGED,
    "size": 3,
    "tls": {"secretName": "demo-tls"},
    "persistence": BACKUP,
    "maps": [{"name": "a*"}, {"name": "-m b"}],
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "commonAnnotations": {"team": "data"},
}
CASES: Final[dict[str, Tree]] = {
    "default": {},
    "full": FULL,
    "one": {**FULL, "size": 1},
    "one-with-clients": {
        "tls": {"secretName": "demo-tls", "clientCertificates": "Optional"},
        "existingConfigMap": "mine",
    },
    "advanced": {
        **MANAGED,
        "size": 5,
        "advancedNetwork": {"enabled": True, "restPort": 6000},
        "security": {
            "enabled": True,
            "protected": ["Data", "ClusterRead"],
            "users": [{"name": "b", "secretName": "b"}, {"name": "a", "secretName": "a"}],
        },
    },
    "open": {
        "persistence": BACKUP,
        "clusterName": "orders",
        "rest": {"endpointGroups": [{"name": "Persistence", "enabled": True}]},
    },
}


def hooks(objects: list[Tree]) -> dict[str, Tree]:
    """Return the objects that call members, by kind and name."""
    found = {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}
    annotated = {
        k for k, o in found.items() if "helm.sh/hook" in o["metadata"].get("annotations", {})
    }
    return {k: o for k, o in found.items() if k in annotated or o["kind"] == "CronJob"}


def pod_spec(found: Tree) -> Tree:
    spec: Tree = found["spec"]
    for key in ("jobTemplate", "spec", "template", "spec"):
        spec = spec.get(key, spec)
    return spec


def arguments(found: Tree) -> list[str]:
    return list(pod_spec(found)["containers"][0]["args"])


def parsed(found: Tree) -> Any:
    words = arguments(found)
    assert words[0] == "client"
    return client_parser().parse_args(words[1:])


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_pod_is_restricted_and_runs_the_members_image(grid_chart: Helm, values: Tree) -> None:
    pods = [one for one in hooks(grid_chart.objects(values)).values() if one["kind"] != "ConfigMap"]
    for found in pods:
        pod = pod_spec(found)
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["restartPolicy"] == "Never"
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["image"] == "grid-member:0.2.0"
        assert "command" not in container
        mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}
        # No pod but the members' has their key.
        secrets = [v["secret"] for v in pod.get("volumes", ()) if v["name"] == "tls"]
        assert all(i["key"] != "tls.key" for s in secrets for i in s["items"])


def test_what_keeps_members_apart_leaves_room_for_jobs(grid_chart: Helm) -> None:
    """With a member on each node, and all of a release apart, a Job still has a node."""
    node: Tree = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    apart = {"labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "demo"}}}
    affinity = {"nodeAffinity": node, "podAntiAffinity": {"required": [apart]}}
    pod = {"affinity": affinity, "nodeSelector": {"disk": "ssd"}, "runtimeClassName": "kata"}
    objects = grid_chart.objects({**FULL, "pod": pod})
    (members,) = (one for one in objects if one["kind"] == "StatefulSet")
    labels = members["spec"]["template"]["metadata"]["labels"]

    assert labels["app.kubernetes.io/instance"] == "demo"
    assert members["spec"]["template"]["spec"]["affinity"] == affinity
    for one in hooks(objects).values():
        if one["kind"] == "ConfigMap":
            continue
        found = pod_spec(one)
        assert found["affinity"] == {"nodeAffinity": node}
        assert (found["nodeSelector"], found["runtimeClassName"]) == ({"disk": "ssd"}, "kata")
        template = one["spec"].get("jobTemplate", one)["spec"].get("template", one)
        assert template["metadata"]["labels"]["app.kubernetes.io/instance"] != "demo"


def test_jobs_have_a_limit_of_cpu_where_members_have_one(grid_chart: Helm) -> None:
    """A quota of limits.cpu refuses every pod without one, and Jobs wait for their pods."""
    for given, limits in ((None, {"memory": "128Mi"}), (2, {"memory": "128Mi", "cpu": "2"})):
        pod = {"resources": {"limits": {"cpu": given}}} if given else {}
        for one in hooks(grid_chart.objects({**FULL, "pod": pod})).values():
            if one["kind"] != "ConfigMap":
                (container,) = pod_spec(one)["containers"]
                assert container["resources"]["limits"] == limits


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_members_command_takes_the_arguments(grid_chart: Helm, values: Tree) -> None:
    found = hooks(grid_chart.objects(values))
    calls = [one for one in found.values() if arguments_of(one)[:1] == ["client"]]
    assert calls
    for one in calls:
        chosen = parsed(one)
        mounts = {m["mountPath"] for m in pod_spec(one)["containers"][0].get("volumeMounts", ())}
        assert chosen.credentials is None or str(chosen.credentials) in mounts
        assert chosen.ca is None or str(chosen.ca.parent) in mounts
        assert (chosen.ca is None) == ("tls" not in values)
        # What runs in it ends before it is ended.
        limit = (
            one["spec"].get("activeDeadlineSeconds")
            or one["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
        )
        assert chosen.timeout < limit


def arguments_of(found: Tree) -> list[str]:
    return arguments(found) if found["kind"] != "ConfigMap" else []


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_policies_let_callers_through(grid_chart: Helm, values: Tree) -> None:
    objects = grid_chart.objects(values)
    policies = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "NetworkPolicy"}
    callers, members = policies["demo-client"], policies["demo"]
    selected = callers["podSelector"]["matchLabels"]
    for one in hooks(objects).values():
        if one["kind"] == "ConfigMap":
            continue
        template = one["spec"].get("jobTemplate", one)["spec"].get("template", one)
        labels = template["metadata"]["labels"]
        assert selected.items() <= labels.items()
        assert not members["podSelector"]["matchLabels"].items() <= labels.items()
        for url in getattr(parsed(one), "url", ()) if arguments(one)[0] == "client" else ():
            port = int(url.rpartition(":")[2])
            if "{ordinal}" not in url:  # the Service's own
                continue
            allowed = [r for r in members["ingress"] if port in [p["port"] for p in r["ports"]]]
            peers = [peer["podSelector"]["matchLabels"] for r in allowed for peer in r["from"]]
            assert any(peer.items() <= labels.items() for peer in peers)
            assert port in [p["port"] for p in callers["egress"][0]["ports"]]


@pytest.mark.parametrize("spec", [CASES["full"], CASES["advanced"], CASES["open"]])
def test_the_configuration_is_checked_as_members_read_it(
    spec: Tree, grid_chart: Helm, check: Callable[[Tree], int]
) -> None:
    objects = grid_chart.objects(spec)
    texts = {o["metadata"]["name"]: o.get("data") for o in objects if o["kind"] == "ConfigMap"}
    job = hooks(objects)["Job/demo-config-check-1"]

    assert texts["demo-config"] == texts["demo-config-check-1"]
    assert arguments(job) == ["config", "check", "/etc/grid/grid.yaml"]
    assert check(spec) == 0


def test_the_check_waits_for_no_object_of_the_release_itself(grid_chart: Helm) -> None:
    """Such as a Secret of extraObjects: a pod waits for what is missing until its time is over."""
    of_secret = {"secretKeyRef": {"name": "s", "key": "a"}}
    of_map = {"configMapKeyRef": {"name": "c", "key": "b"}}
    pod = {
        "env": [{"name": "A", "valueFrom": of_secret}, {"name": "B", "valueFrom": of_map}],
        "envFrom": [{"secretRef": {"name": "s"}}, {"prefix": "P_", "configMapRef": {"name": "c"}}],
    }
    objects = grid_chart.objects({"pod": pod})
    (container,) = pod_spec(hooks(objects)["Job/demo-config-check-1"])["containers"]
    sources = [next(iter(v["valueFrom"].values())) for v in container["env"] if "valueFrom" in v]
    named = [one for one in sources if "name" in one]
    named += [v for one in container["envFrom"] for k, v in one.items() if k.endswith("Ref")]

    assert len(named) == 4
    assert all(one["optional"] for one in named)
    (members,) = (one for one in objects if one["kind"] == "StatefulSet")
    assert "optional" not in str(pod_spec(members)["containers"])


@pytest.fixture
def check(
    grid_chart: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Tree], int]:
    """Give a function that runs what the hook runs, with its environment."""

    def run(values: Tree) -> int:
        found = hooks(grid_chart.objects(values))
        (container,) = pod_spec(found["Job/demo-config-check-1"])["containers"]
        assert not any("secretKeyRef" in e.get("valueFrom", {}) for e in container["env"])
        known: dict[str, str] = {}
        for variable in container["env"]:
            text = variable.get("value", "demo-check")
            known[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda m: known[m[1]], text)
            monkeypatch.setenv(variable["name"], known[variable["name"]])
        file = tmp_path / "grid.yaml"
        file.write_text(found["ConfigMap/demo-config-check-1"]["data"]["grid.yaml"])
        return grid_member(["config", "check", str(file)])

    return run


def test_a_configuration_that_cannot_work_fails_the_hook_at_once(
    grid_chart: Helm, check: Callable[[Tree], int], capsys: pytest.CaptureFixture[str]
) -> None:
    # What the schema of the values cannot know.
    config = {"map": {"a": {"time-to-live-seconds": "${TTL}"}}}
    pod = {"env": [{"name": "TTL", "value": "-1"}]}
    values = {**MANAGED, "size": 3, "config": config, "pod": pod}
    assert check(values) == 2
    assert "map.a.time-to-live-seconds" in capsys.readouterr().err
    job = hooks(grid_chart.objects(values))["Job/demo-config-check-1"]
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2])
    assert rule["onExitCodes"]["containerName"] == pod_spec(job)["containers"][0]["name"]


def test_hooks_come_in_their_order(grid_chart: Helm) -> None:
    found = hooks(grid_chart.objects(FULL))
    notes = {name: one["metadata"].get("annotations", {}) for name, one in found.items()}
    order = sorted((int(n["helm.sh/hook-weight"]), k) for k, n in notes.items() if len(n) > 3)

    assert [name for _, name in order] == [
        *("ConfigMap/demo-config-check-1", "Job/demo-config-check-1", "Job/demo-shrink-1"),
    ]
    assert notes["Job/demo-config-check-1"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    # A rollback renders nothing: it has the hooks of the release that it goes back to.
    assert notes["Job/demo-shrink-1"]["helm.sh/hook"] == "pre-upgrade,pre-rollback"
    for _, name in order:
        policy = notes[name]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
        assert notes[name]["team"] == "data"


def test_the_test_looks_at_what_the_values_say(grid_chart: Helm) -> None:
    chosen = parsed(hooks(grid_chart.objects(FULL))["Pod/demo-test"])
    assert (chosen.size, chosen.map) == (3, "-m b")
    assert sorted(chosen.off) == ["CLUSTER_WRITE", "CP", "PERSISTENCE", "WAN"]
    assert chosen.url == [
        "https://demo-{ordinal}.demo-members.grids.svc:5701",
        "https://demo.grids.svc:5701",
    ]
    unknown = parsed(hooks(grid_chart.objects(CASES["one-with-clients"]))["Pod/demo-test"])
    assert (unknown.off, unknown.map) == ([], None)
    protected = parsed(hooks(grid_chart.objects(CASES["advanced"]))["Pod/demo-test"])
    assert protected.map is None


def test_there_is_no_test_where_there_is_nothing_to_test(grid_chart: Helm) -> None:
    for values in ({"test": {"enabled": False}}, {"runState": "Stopped"}):
        assert "Pod/demo-test" not in hooks(grid_chart.objects(values))


def test_the_operator_needs_none_of_it(grid_chart: Helm) -> None:
    assert hooks(grid_chart.objects({"mode": "GridCluster"})) == {}


def test_backups_are_made_at_the_times_of_the_spec(grid_chart: Helm) -> None:
    job = hooks(grid_chart.objects(FULL))["CronJob/demo-backup"]
    spec = job["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 3 * * *", "Europe/Berlin")
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Forbid", False)
    # The same for all attempts of one Job.
    assert parsed(job).key == "$(JOB_NAME)"
    (variable,) = pod_spec(job)["containers"][0]["env"]
    assert "batch.kubernetes.io/job-name" in variable["valueFrom"]["fieldRef"]["fieldPath"]
    stopped = hooks(grid_chart.objects({**FULL, "runState": "Stopped"}))["CronJob/demo-backup"]
    assert stopped["spec"]["suspend"] is True


def test_backups_are_begun_where_they_can_be(grid_chart: Helm) -> None:
    chosen = parsed(hooks(grid_chart.objects(CASES["open"]))["CronJob/demo-backup"])
    assert (chosen.credentials, chosen.cluster_name) == (None, "orders")
    for values in (
        {"persistence": BACKUP},
        {**CASES["open"], "security": {"enabled": True}},
    ):
        told = grid_chart.refusal(values)
        assert "set management.enabled and management.existingSecret" in told


def test_where_helm_sees_no_members_the_job_asks_them(grid_chart: Helm) -> None:
    job = hooks(grid_chart.objects({"size": 3}))["Job/demo-shrink-1"]
    chosen = parsed(job)
    assert (chosen.size, chosen.refuse, chosen.allow_silence) == (3, True, True)
    assert chosen.url == ["http://demo-{ordinal}.demo-members.grids.svc:5701"]
    managed = parsed(hooks(grid_chart.objects({**MANAGED, "size": 3}))["Job/demo-shrink-1"])
    assert (managed.refuse, managed.allow_silence) == (False, True)
    assert managed.url == ["http://demo-{ordinal}.demo-members.grids.svc:5702"]
    assert managed.rest_url == "http://demo-{ordinal}.demo-members.grids.svc:5701"
    hidden = {"rest": {"endpointGroups": [{"name": "ClusterRead", "enabled": False}]}}
    assert "Job/demo-shrink-1" not in hooks(grid_chart.objects(hidden))


def test_notes_say_what_members_without_an_operator_need(grid_chart: Helm) -> None:
    usual = grid_chart.notes({"size": 3})
    managed = grid_chart.notes({**MANAGED, "size": 3, "persistence": {"enabled": True}})
    alone = grid_chart.notes({"tls": {"secretName": "t"}, "test": {"enabled": False}})

    assert "helm test -n grids --logs demo" in usual
    assert "what all of them held in memory is lost" in usual
    assert "for which management.enabled has to be true" in usual
    assert "their claims are kept" in managed
    assert "a Job has them leave before their pods go" in managed
    assert "curl --insecure https://localhost:5701/grid/rest/cluster" in alone
    assert not re.search("helm test|kubectl scale", alone)


PLAIN_BETWEEN: Final[Tree] = {
    "size": 3,
    "tls": {"secretName": "demo-tls", "members": False},
    "update": {"waitForSafeSeconds": 0},
}


@pytest.mark.parametrize("values", [*CASES.values(), PLAIN_BETWEEN], ids=[*CASES, "plain-between"])
def test_no_job_waits_for_a_secret_that_members_do_not_need(grid_chart: Helm, values: Tree) -> None:
    """A pod waits for ever for a Secret that is missing, or a key of it; the client says so."""
    objects = grid_chart.objects(values)
    (members,) = (one for one in objects if one["kind"] == "StatefulSet")
    needed = {key for key in secret_keys(members) if "tls" in values}
    for one in hooks(objects).values():
        if one["kind"] == "ConfigMap":
            continue
        volumes = pod_spec(one).get("volumes", ())
        assert all(v["secret"]["optional"] for v in volumes if "secret" in v)
        assert secret_keys(one) <= needed


def secret_keys(found: Tree) -> set[str]:
    volumes = pod_spec(found).get("volumes", ())
    items = [item for v in volumes for item in v.get("secret", {}).get("items", ())]
    return {item["key"] for item in items}
