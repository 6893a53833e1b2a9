from __future__ import annotations

from typing import Any

import pytest

from grid_operator.api.quantity import parse_quantity
from grid_operator.decide.validate import find_problem
from tests.unit.operator.api.clusters import SPECS, make_cluster


def pod(**fields: Any) -> dict[str, Any]:
    return {"pod": fields}


def maps(*names: str) -> dict[str, Any]:
    return {"maps": [{"name": name} for name in names]}


def schedule(cron: str = "* * * * *", zone: str = "UTC") -> dict[str, Any]:
    backup = {"claimName": "backups", "schedule": {"cron": cron, "timeZone": zone}}
    return {"persistence": {"enabled": True, "backup": backup}}


def volume(size: str) -> dict[str, Any]:
    return {"persistence": {"enabled": True, "backup": {"volume": {"size": size}}}}


def sender(cidr: str) -> dict[str, Any]:
    return {"wanListener": {"enabled": True, "from": [{"cidr": cidr}]}}


def endpoint(text: str) -> dict[str, Any]:
    publisher = {"id": "p", "targetCluster": "b", "secretName": "s", "endpoints": [text]}
    return {"wan": [{"name": "r", "publishers": [publisher]}]}


def replicated(pattern: str) -> dict[str, Any]:
    wan = {"replication": "r", "includeKeys": [pattern]}
    return {**endpoint("b.example"), "maps": [{"name": "m", "wan": wan}]}


@pytest.mark.parametrize(
    ("spec", "reason", "told"),
    [
        (maps("é" * 200), "InvalidStructureName", "255 bytes"),
        (maps("a*b*"), "InvalidStructureName", "more than one *"),
        (maps(" a"), "InvalidStructureName", "space"),
        (maps("a\ufffe"), "InvalidStructureName", "no text may hold"),
        (schedule("61 * * * *"), "InvalidSchedule", "bad minute"),
        (schedule("0 0 30 2 *"), "InvalidSchedule", "bad day-of-month"),
        (schedule("0 0 * * MAN"), "InvalidSchedule", "bad day-of-week"),
        (schedule(zone="Nowhere/Land"), "InvalidSchedule", "'Nowhere/Land' is no time zone"),
        (schedule(zone="/etc/passwd"), "InvalidSchedule", "is no time zone"),
        (schedule(zone="Europe"), "InvalidSchedule", "is no time zone"),
        (volume("0"), "InvalidQuantity", "persistence.backup.volume.size"),
        ({"exposure": {"allowedCidrs": ["10.0.0.1/8"]}}, "InvalidNetwork", "10.0.0.1/8"),
        ({"exposure": {"allowedCidrs": ["10.0.0.0/33"]}}, "InvalidNetwork", "10.0.0.0/33"),
        (sender("10.0.0.1/8"), "InvalidNetwork", "spec.wanListener.from: '10.0.0.1/8'"),
        (endpoint("http://b.example"), "InvalidWan", "spec.wan[r].publishers[p].endpoints"),
        (endpoint("b.example:70000"), "InvalidWan", "one is written host, host:port"),
        (replicated("a*b*"), "InvalidWan", "spec.maps: 'm': wan: 'a*b*' has more than one *"),
        (replicated("a\ufffe"), "InvalidWan", "no text may hold"),
        (
            {**replicated("a"), "wan": [{"name": "r"}]},
            "InvalidWan",
            "spec.maps: 'm': wan.replication: spec.wan[r] has no publisher: add one to it, or "
            "remove wan from the map",
        ),
        (
            {"wanListener": {"service": {"annotations": {"a b": ""}}}},
            "InvalidLabel",
            "spec.wanListener.service.annotations",
        ),
        ({"exposure": {"annotations": {"a b": ""}}}, "InvalidLabel", "exposure.annotations"),
        (
            {"exposure": {"annotations": {"gridcluster.io/rendered-hash": "x"}}},
            "InvalidLabel",
            "belongs to the operator",
        ),
        (maps("a*", "*b"), "AmbiguousWildcard", "'*b' and 'a*'"),
        ({"queues": [{"name": "*1"}, {"name": "1*"}]}, "AmbiguousWildcard", "spec.queues"),
        (
            pod(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1024Mi"}}),
            "InvalidQuantity",
            "request memory=2Gi exceeds its limit 1024Mi",
        ),
        (pod(resources={"limits": {"c p u": "1"}}), "InvalidQuantity", "'c p u'"),
        ({"persistence": {"enabled": True, "size": "0"}}, "InvalidQuantity", "persistence.size"),
        (pod(labels={"gridcluster.io/cluster": "x"}), "InvalidLabel", "belongs to"),
        (pod(labels={"app.kubernetes.io/name": "x"}), "InvalidLabel", "belongs to"),
        (pod(labels={"a": "not valid"}), "InvalidLabel", "not a valid value"),
        (pod(annotations={"a b": ""}), "InvalidLabel", "not a valid key"),
        (pod(nodeSelector={"/x": "y"}), "InvalidLabel", "not a valid key"),
        (pod(tolerations=[{}]), "InvalidToleration", "must be Exists"),
        (
            pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            "InvalidToleration",
            "takes no value",
        ),
        (pod(tolerations=[{"key": "a b"}]), "InvalidToleration", "not a valid key"),
        (pod(tolerations=[{"key": "a", "value": "b c"}]), "InvalidToleration", "value"),
        (
            pod(tolerations=[{"key": "a", "tolerationSeconds": 1}]),
            "InvalidToleration",
            "needs effect NoExecute",
        ),
    ],
)
def test_value_that_cannot_work_is_found(spec: dict[str, Any], reason: str, told: str) -> None:
    problem = find_problem(make_cluster(spec).spec)

    assert problem is not None
    assert problem.reason == reason
    assert told in problem.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        *SPECS.values(),
        schedule("30 2 29 2 *", "America/New_York"),
        schedule("*/5 8-18 * JAN-NOV MON-FRI", "Asia/Kolkata"),
        {"exposure": {"allowedCidrs": ["0.0.0.0/0", "::/0", "192.0.2.7"]}},
        maps("a*", "b*", "a*c", "default", "*"),
        pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        pod(tolerations=[{"operator": "Exists"}]),
        pod(resources={"requests": {"cpu": "1000m"}, "limits": {"cpu": 1}}),
    ],
)
def test_value_that_works_is_let_through(spec: dict[str, Any]) -> None:
    assert find_problem(make_cluster(spec).spec) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [("0.5", "500m"), ("1024Mi", "1Gi"), ("1e3", "1k"), ("1000", "1k"), ("1.5Gi", "1536Mi")],
)
def test_quantities_compare_by_value(one: str, other: str) -> None:
    assert parse_quantity(one) == parse_quantity(other) is not None


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1GiB", "--1", "1e"])
def test_what_is_no_quantity_has_no_value(text: str) -> None:
    assert parse_quantity(text) is None
