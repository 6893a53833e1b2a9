"""`gridctl plan`: what applying a file would do, told by the operator's own rendering."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.gridcluster import GridCluster
from grid_operator.render import RenderContext, desired_state, read_record
from gridctl.differences import Difference, differences, with_unit
from gridctl.plan import Effect, planned
from tests.unit.gridctl.fake_api import NAMESPACE, cluster_object
from tests.unit.operator.api.pods import container, pod

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from tests.unit.gridctl.conftest import Console

LIVE: dict[str, Any] = {
    "maps": [{"name": "orders"}, {"name": "old"}],
    "persistence": {"enabled": True, "backup": {"volume": {"size": "1Gi"}}},
    "pod": {"env": [{"name": "TOKEN", "value": "topsecret"}]},
}


def manifest(**spec: Any) -> KubeObject:
    found = cluster_object(**spec)
    del found["status"]
    return found


def kept(size: str, cron: str) -> dict[str, Any]:
    backup = {"volume": {"size": size}, "schedule": {"cron": cron}}
    return {"persistence": {"enabled": True, "backup": backup}}


def effects(new: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Effect]:
    base = LIVE if old is None else old
    changes = planned(cluster_object(**base), None, manifest(**base | new))
    return {change.field: change.effect for change in changes}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({}, {}),
        ({"image": "other:1"}, {"image": Effect.RESTART}),
        ({"clusterName": "other"}, {"clusterName": Effect.RESTART}),
        ({"logging": {"level": "Debug"}}, {"logging.level": Effect.LIVE}),
        ({"logging": {"format": "Text"}}, {"logging.format": Effect.RESTART}),
        (
            {"maps": [*LIVE["maps"], {"name": "new"}]},
            {"maps[new]": Effect.LIVE},
        ),
        (
            {"maps": [{"name": "orders", "maxIdleSeconds": 5}, {"name": "old"}]},
            {"maps[orders].maxIdleSeconds": Effect.RESTART},
        ),
        ({"maps": [{"name": "orders"}]}, {"maps[old]": Effect.KEPT}),
        ({"queues": [{"name": "jobs"}]}, {"queues[jobs]": Effect.LIVE}),
        ({"runState": "Stopped"}, {"runState": Effect.OPERATION}),
        ({"clusterState": "Passive"}, {"clusterState": Effect.OPERATION}),
        ({"clusterStateDriftPolicy": "Adopt"}, {"clusterStateDriftPolicy": Effect.NONE}),
        ({"paused": True}, {"paused": Effect.NONE}),
        ({"deletionProtection": True}, {"deletionProtection": Effect.NONE}),
        (
            {"exposure": {"type": "NodePort"}},
            {"exposure.type": Effect.OBJECTS},
        ),
        (
            {
                "maps": [
                    {"name": "orders", "eviction": {"policy": "Lru", "size": 7}},
                    {"name": "old"},
                ]
            },
            {
                "maps[orders].eviction.policy": Effect.RESTART,
                "maps[orders].eviction.size": Effect.RESTART,
            },
        ),
        (
            {"security": {"enabled": True, "users": [{"name": "ada", "secretName": "ada"}]}},
            {"security.enabled": Effect.RESTART, "security.users[ada]": Effect.RESTART},
        ),
        ({"license": {"secretName": "key"}}, {"license": Effect.LIVE}),
        ({"tls": {"secretName": "certificate"}}, {"tls": Effect.RESTART}),
        (
            {"pod": {"env": [{"name": "TOKEN", "value": "another"}]}},
            {"pod.env[TOKEN].value": Effect.RESTART},
        ),
        (
            pod(volumes=[{"name": "v"}], volumeMounts=[{"name": "v", "mountPath": "/srv/v"}]),
            {
                "pod.env[TOKEN]": Effect.RESTART,
                "pod.volumes[v]": Effect.RESTART,
                "pod.volumeMounts[v]": Effect.RESTART,
            },
        ),
        (
            pod(sidecars=[container("a")]),
            {"pod.env[TOKEN]": Effect.RESTART, "pod.sidecars[a]": Effect.RESTART},
        ),
    ],
)
def test_what_a_change_does(new: dict[str, Any], expected: dict[str, Effect]) -> None:
    assert effects(new) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            {"license": {"secretName": "key"}},
            {"license": {"secretName": "other"}},
            {"license.secretName": Effect.LIVE},
        ),
        (
            {"license": {"secretName": "key"}},
            {"license": {"secretName": "key", "key": "other"}},
            {"license.key": Effect.LIVE},
        ),
        ({"clusterState": "Passive"}, {"clusterState": None}, {"clusterState": Effect.NONE}),
        (
            kept("1Gi", "1 * * * *"),
            kept("2Gi", "2 * * * *"),
            {
                "persistence.backup.volume.size": Effect.OBJECTS,
                "persistence.backup.schedule.cron": Effect.NONE,
            },
        ),
        ({"size": 3}, {"size": 5}, {"size": Effect.RESTART}),
        ({"size": 5}, {"size": 3}, {"size": Effect.OPERATION}),
        ({"size": 3}, {"size": 1}, {"size": Effect.REFUSED}),
        (
            {"exposure": {"type": "ClusterIP"}},
            {"exposure": {"type": "NodePort", "nodePort": 30001}},
            {"exposure.type": Effect.OBJECTS, "exposure.nodePort": Effect.OBJECTS},
        ),
    ],
)
def test_what_a_changed_or_removed_field_does(
    before: dict[str, Any], after: dict[str, Any], expected: dict[str, Effect]
) -> None:
    assert effects(after, before) == expected


def test_a_refusal_is_put_to_the_field_that_it_names_and_to_no_other() -> None:
    reason = "spec.persistence: Invalid value: persistence.size cannot change"
    wanted = manifest(
        **LIVE | {"persistence": {**LIVE["persistence"], "size": "2Gi"}, "paused": True}
    )
    changes = planned(cluster_object(**LIVE), None, wanted, reason)
    assert [c.field for c in changes if c.effect is Effect.REFUSED] == ["persistence.size"]
    reason = "spec.imagePullPolicy: Unsupported value: supported values: Always"
    changes = planned(cluster_object(**LIVE), None, manifest(**LIVE | {"image": "x:1"}), reason)
    assert [c.field for c in changes if c.effect is Effect.REFUSED] == ["spec"]


def test_running_members_of_several_get_no_other_name() -> None:
    live = cluster_object(size=3)
    live["status"]["size"] = 3
    (change,) = planned(live, None, manifest(size=3, clusterName="other"))
    assert (change.field, change.effect) == ("clusterName", Effect.REFUSED)


def test_each_change_is_judged_alone() -> None:
    new = {"logging": {"level": "Debug"}, "image": "other:1", "paused": True}
    assert effects(new) == {
        "logging.level": Effect.LIVE,
        "image": Effect.RESTART,
        "paused": Effect.NONE,
    }


def statefulset(spec: dict[str, Any], before: KubeObject | None) -> KubeObject:
    """Return the live StatefulSet of a spec that members took while they ran on another one."""
    recorded = None if before is None else read_record(before)
    cluster = GridCluster.from_kube(cluster_object(**spec))
    desired = desired_state(cluster, RenderContext("o", "user", "password", recorded))
    return next(child for child in desired.children if child["kind"] == "StatefulSet")


def test_what_members_were_given_while_they_ran_is_known_from_the_live_set() -> None:
    first = {"maps": [{"name": "orders"}]}
    old = {"maps": [{"name": "orders"}, {"name": "given"}]}
    live_set = statefulset(old, statefulset(first, None))
    for changed, expected in (
        ({"name": "third"}, ("maps[third]", Effect.LIVE)),
        ({"name": "given", "maxIdleSeconds": 3}, ("maps[given].maxIdleSeconds", Effect.RESTART)),
    ):
        others = [one for one in old["maps"] if one["name"] != changed["name"]]
        changes = planned(cluster_object(**old), live_set, manifest(maps=[*others, changed]))
        assert [(c.field, c.effect) for c in changes] == [expected]


def test_no_value_is_shown() -> None:
    new = {"pod": {"env": [{"name": "TOKEN", "value": "another"}]}, "image": "secret.example/x:1"}
    changes = planned(cluster_object(**LIVE), None, manifest(**LIVE | new))
    text = repr(changes)
    for word in ("topsecret", "another", "secret.example"):
        assert word not in text


def test_requests_in_the_file() -> None:
    wanted = manifest(**LIVE)
    wanted["metadata"]["annotations"] = {"gridcluster.io/backup": "a", "other/x": "y"}
    changes = planned(cluster_object(**LIVE), None, wanted)
    assert [(c.field, c.effect) for c in changes] == [
        ("metadata.annotations[gridcluster.io/backup]", Effect.OPERATION)
    ]


def test_a_spec_that_cannot_work_is_refused_by_name() -> None:
    new = {"pod": {"labels": {"bad key!": "x"}}}
    changes = planned(cluster_object(), None, manifest(**new))
    assert changes[0].effect is Effect.REFUSED
    assert "bad key!" in changes[0].text


async def test_the_api_server_is_asked_and_nothing_is_written(console: Console) -> None:
    console.api.add(cluster_object(**LIVE))
    file = console.write(yaml.safe_dump(manifest(**LIVE | {"image": "other:1"})))
    shown = await console.run("plan", "-f", file)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (
        "demo in namespace grids:\n"
        "  image  restart    member pods are replaced, one at a time, when that is safe\n"
    )
    assert console.api.writes == []
    (patch,) = console.api.dry_runs
    assert patch == [{"op": "add", "path": "/spec", "value": LIVE | {"image": "other:1"}}]


async def test_a_refusal_of_the_api_server_names_its_field(console: Console) -> None:
    console.api.add(cluster_object(**LIVE))
    reason = "spec: Invalid value: persistence.size cannot change on an existing one"
    console.api.refusal = f'GridCluster.gridcluster.io "demo" is invalid: {reason}'
    bigger = {"persistence": {**LIVE["persistence"], "size": "2Gi"}, "paused": True}
    file = console.write(yaml.safe_dump(manifest(**LIVE | bigger)))
    shown = await console.run("plan", "-f", file, "--output", "json")
    assert shown.code == 1
    plan = json.loads(shown.out)
    assert plan["refused"] is True
    assert reason in {change["message"] for change in plan["changes"]}
    assert {c["field"]: c["effect"] for c in plan["changes"]} == {
        "persistence.size": "refused",
        "paused": "none",
    }
    assert console.api.writes == []


async def test_a_refusal_that_names_no_field(console: Console) -> None:
    console.api.add(cluster_object())
    console.api.refusal = "exceeded quota"
    shown = await console.run("plan", "-f", console.write(yaml.safe_dump(manifest())))
    assert (shown.code, "refused    exceeded quota" in shown.out) == (1, True)


@pytest.mark.parametrize("verb", ["patch", "create"])
async def test_who_may_not_ask_is_told_so_and_nothing_is_called_refused(
    console: Console, verb: str
) -> None:
    if verb == "patch":
        console.api.add(cluster_object())
    reason = f'User "ada" cannot {verb} resource "gridclusters" in API group "gridcluster.io"'
    console.api.refusal = f'gridclusters.gridcluster.io "demo" is forbidden: {reason}'
    console.api.refusal_code = 403
    shown = await console.run("plan", "-f", console.write(yaml.safe_dump(manifest())))
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("gridctl: ")
    assert reason in shown.err


async def test_what_a_quota_forbids_is_refused(console: Console) -> None:
    console.api.refusal = 'gridclusters.gridcluster.io "demo" is forbidden: exceeded quota: few'
    console.api.refusal_code = 403
    shown = await console.run("plan", "-f", console.write(yaml.safe_dump(manifest())))
    assert (shown.code, "exceeded quota: few" in shown.out) == (1, True)


@pytest.mark.parametrize(
    "told",
    [
        r'spec.pod.env[0].value: Invalid value: "top\"secret": should be shorter',
        'spec.pod: Unsupported value: "secret": should be shorter',
        'spec.pod.env[0]: Invalid value: {"name":"TOKEN","value":"secret"}: should be shorter',
    ],
)
async def test_a_refusal_does_not_quote_the_value(console: Console, told: str) -> None:
    console.api.add(cluster_object(**LIVE))
    console.api.refusal = told
    env = {"pod": {"env": [{"name": "TOKEN", "value": "another"}]}}
    file = console.write(yaml.safe_dump(manifest(**LIVE | env)))
    shown = await console.run("plan", "-f", file)
    assert (shown.code, "should be shorter" in shown.out) == (1, True)
    assert "secret" not in shown.out


async def test_nothing_changes(console: Console) -> None:
    console.api.add(cluster_object())
    spelled_out = {"size": 1, "paused": False, "clusterName": "dev", "logging": {"level": "Info"}}
    file = console.write(yaml.safe_dump(manifest(**spelled_out)))
    shown = await console.run("plan", "-f", file)
    assert (shown.code, shown.out) == (0, "demo in namespace grids: nothing would change\n")


async def test_a_cluster_that_is_not_there_would_be_created(console: Console) -> None:
    shown = await console.run("plan", "-f", console.write(yaml.safe_dump(manifest(**LIVE))))
    assert shown.code == 0
    assert "does not exist and would be created" in shown.out
    for made in ("StatefulSet demo", "PersistentVolumeClaim demo-backup", "Service demo-members"):
        assert made in shown.out
    kinds = [line.split()[0] for line in shown.out.splitlines() if "where there is none" in line]
    assert set(kinds) == {"Secret", "PersistentVolumeClaim"}
    assert [body["metadata"]["namespace"] for body in console.api.dry_runs] == [NAMESPACE]
    assert console.api.writes == []


@pytest.mark.parametrize("written", [{}, {"namespace": ""}, {"namespace": None}])
async def test_a_file_without_a_namespace_is_about_that_of_the_context_or_of_n(
    console: Console, written: dict[str, Any]
) -> None:
    wanted = manifest()
    del wanted["metadata"]["namespace"]
    wanted["metadata"] |= written
    file = console.write(yaml.safe_dump(wanted))
    shown = await console.run("plan", "-f", file)
    assert (shown.code, shown.out.split(":")[0]) == (
        0,
        f"demo in namespace {NAMESPACE} does not exist and would be created",
    )
    shown = await console.run("plan", "-f", file, "-n", "others")
    assert (shown.code, "demo in namespace others" in shown.out) == (0, True)
    assert [body["metadata"]["namespace"] for body in console.api.dry_runs] == [NAMESPACE, "others"]


async def test_a_file_of_another_namespace_than_n_says_is_refused(console: Console) -> None:
    file = console.write(yaml.safe_dump(manifest()))
    shown = await console.run("plan", "-f", file, "-n", "others")
    assert (shown.code, shown.out) == (2, "")
    assert f"metadata.namespace is {NAMESPACE}, and -n says others" in shown.err
    assert console.api.dry_runs == []
    assert (await console.run("plan", "-f", file, "-n", NAMESPACE)).code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\n", "expected apiVersion"),
        (yaml.safe_dump(manifest(size="one")), "spec.size"),
        (yaml.safe_dump(manifest(size=10)), "size above 9"),
    ],
)
async def test_a_file_that_is_wrong_exits_2(console: Console, text: str, words: str) -> None:
    shown = await console.run("plan", "-f", console.write(text))
    assert (shown.code, shown.out, words in shown.err) == (2, "", True)
    assert console.api.dry_runs == []


def test_a_list_whose_names_repeat_differs_as_a_whole() -> None:
    old = {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}
    new = {"volumeMounts": [{"name": "v", "mountPath": "/c"}, {"name": "v", "mountPath": "/b"}]}

    assert [d.field for d in differences(old, new)] == ["volumeMounts"]
    assert with_unit(old, new, ("volumeMounts",)) == new


def test_differences_go_by_name() -> None:
    old = {"a": 1, "maps": [{"name": "x", "n": 1}, {"name": "y"}], "l": [1], "o": None, "d": {}}
    new = {"b": 1, "maps": [{"name": "y"}, {"name": "x", "n": 2}, {"name": "z"}], "l": [2],
           "o": {"k": 1}, "d": {"k.x": 1}}  # fmt: skip
    found = {(d.field, d.kind) for d in differences(old, new)}
    assert found == {
        ("b", "added"), ("a", "removed"), ("maps[x].n", "changed"), ("maps[z]", "added"),
        ("l", "changed"), ("o", "added"), ("d.k.x", "added"),
    }  # fmt: skip
    assert differences(old, old) == []


def test_one_unit_at_a_time() -> None:
    old = {"maps": [{"name": "x", "n": 1}, {"name": "y"}], "p": {"q": {"r": 1}, "s": 1}}
    new = {"maps": [{"name": "x", "n": 2}, {"name": "z"}], "p": {"q": {"r": 2}, "s": 2}, "t": 1}
    assert with_unit(old, new, ("maps", "[x]"))["maps"] == [{"name": "x", "n": 2}, {"name": "y"}]
    assert with_unit(old, new, ("maps", "[y]"))["maps"] == [{"name": "x", "n": 1}]
    assert with_unit(old, new, ("maps", "[z]"))["maps"] == [*old["maps"], {"name": "z"}]
    assert with_unit(old, new, ("p", "q"))["p"] == {"q": {"r": 2}, "s": 1}
    assert with_unit(old, new, ("t",))["t"] == 1
    assert "t" not in with_unit(new, old, ("t",))
    assert Difference(("p", "q"), "changed").units == (("p", "q"), ("p",))
