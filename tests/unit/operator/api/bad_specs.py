"""Specs that must be refused, and a part of the reason."""

from __future__ import annotations

from typing import Any, Final

import pytest

from grid_operator.api.base import SpecModel
from grid_operator.api.gridcluster import InvalidClusterError
from tests.unit.operator.api.clusters import make_cluster

ADVANCED = {"advancedNetwork": {"enabled": True}}
ADA = {"name": "ada", "secretName": "ada"}
CRON = {"cron": "* * * * *"}
TARGET = {"id": "p", "targetCluster": "b", "secretName": "s"}
LISTENER = {"enabled": True}


def all_models(model: type[SpecModel]) -> list[type[SpecModel]]:
    return [model, *(deep for sub in model.__subclasses__() for deep in all_models(sub))]


RULES: Final = tuple(
    rule.message
    for model in all_models(SpecModel)
    for rule in model.rules
    if rule.holds is not None
)
"""What spans several fields, and does not compare with the GridCluster before."""


def broken_rules(spec: dict[str, Any]) -> list[str]:
    """Return the words of each rule that a bad spec breaks."""
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster(spec)
    return [rule for rule in RULES if any(rule in problem for problem in caught.value.problems)]


def maps(**fields: Any) -> dict[str, Any]:
    return {"maps": [{"name": "m", **fields}]}


def security(**fields: Any) -> dict[str, Any]:
    return {"security": fields}


def backup(**fields: Any) -> dict[str, Any]:
    return {"persistence": {"enabled": True, "backup": fields}}


def restore(**source: Any) -> dict[str, Any]:
    return {"persistence": {"enabled": True}, "restoreFrom": source}


def wan(*publishers: dict[str, Any]) -> dict[str, Any]:
    return {"wan": [{"name": "r", "publishers": list(publishers)}]}


def listener(**fields: Any) -> dict[str, Any]:
    return {"wanListener": {"enabled": True, **fields}}


BAD_SPECS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"size": 10}, "size above 9 is not supported"),
    ({"size": 3, "rest": {"port": 5704}}, "port 5704 belongs to the members themselves"),
    ({"size": 3, "advancedNetwork": {"enabled": True, "restPort": 5704}}, "port 5704"),
    ({"size": 3, "metrics": {"port": 5704}}, "choose another metrics.port"),
    ({"size": 3, **backup(volume={})}, "needs accessMode ReadWriteMany"),
    ({"size": 3, "engine": "Embedded"}, "several need JetStream, or Auto"),
    ({"size": 1, "engine": "JetStream"}, "one needs Embedded, or Auto"),
    ({"size": 0}, "greater than or equal to 1"),
    ({"size": "1"}, "spec.size"),
    ({"unknown": 1}, "spec.unknown"),
    ({"rest": {"endpointGroups": [{"name": "HealthCheck", "enabled": False}]}}, "HealthCheck"),
    (
        {"rest": {"endpointGroups": [{"name": "DATA", "enabled": True}]}},
        "endpointGroups.0.name",
    ),
    ({"maps": [{"name": "a"}, {"name": "a"}]}, "maps: duplicate a"),
    ({"maps": [{"name": "${HOME}"}]}, "spec.maps.0.name"),
    ({"persistence": {"size": "lots"}}, "spec.persistence.size"),
    ({"pod": {"resources": {"limits": {"cpu": "-1"}}}}, "limits.cpu"),
    ({"pod": {"resources": {"limits": {"cpu": True}}}}, "limits.cpu"),
    ({"image": "two words"}, "spec.image"),
    ({"clusterState": "InTransition"}, "spec.clusterState"),
    ({"runState": "Paused"}, "spec.runState"),
    ({"pausedUntil": "tomorrow"}, "a time with its zone"),
    ({"pausedUntil": "2030-01-01T00:00:00"}, "a time with its zone"),
    ({"rest": {"port": 80}}, "spec.rest.port"),
    ({"rest": {"port": 5702}}, "belongs to the management listener"),
    ({"rest": {"port": 6000}, **ADVANCED}, "with advancedNetwork set restPort"),
    ({"advancedNetwork": {"enabled": True, "restPort": 5702}}, "management listener"),
    ({"metrics": {"port": 80}}, "spec.metrics.port"),
    ({"metrics": {"port": 5702}}, "metrics.port: port 5702 belongs to the management"),
    ({"metrics": {"port": 5701}}, "metrics.port is the REST port: choose another one"),
    ({"rest": {"port": 5703}}, "metrics.port is the REST port: choose another one"),
    ({"advancedNetwork": {"enabled": True, "restPort": 5703}}, "metrics.port is the REST port"),
    ({"advancedNetwork": {"restPort": 6000}}, "no effect while advancedNetwork.enabled"),
    (maps(eviction={"policy": "Lru"}), "both a policy other than None and a size"),
    (maps(eviction={"size": 1}), "both a policy other than None and a size"),
    (maps(dataPersistence={}), "needs persistence.enabled"),
    ({"queues": [{"name": "q", "dataPersistence": {}}]}, "needs persistence.enabled"),
    (maps(maxIdleSeconds=-1), "maps.0.maxIdleSeconds"),
    (security(enabled=False, users=[ADA]), "no effect while security.enabled"),
    (security(enabled=False, protected=["Data"]), "no effect while security.enabled"),
    (security(enabled=True, users=[ADA, ADA]), "users: duplicate ada"),
    (security(enabled=True, users=[{"name": "a:b", "secretName": "s"}]), "users.0.name"),
    (security(enabled=True, protected=["DATA"]), "security.protected.0"),
    ({"tls": {}}, "tls.secretName"),
    ({"tls": {"secretName": "No_Name"}}, "tls.secretName"),
    ({"size": 3, "tls": {"members": True}}, "tls.secretName"),
    ({"size": 3, "tls": {"secretName": "s", "members": "sometimes"}}, "tls.members"),
    ({"license": {"secretName": "s", "key": "a b"}}, "license.key"),
    ({"persistence": {"backup": {"volume": {}}}}, "needs persistence.enabled"),
    (backup(), "exactly one of volume and claimName"),
    (backup(volume={}, claimName="c"), "exactly one of volume and claimName"),
    (backup(claimName="c", schedule={}), "schedule.cron"),
    (backup(claimName="c", schedule={"cron": "@daily"}), "schedule.cron"),
    (backup(claimName="c", schedule={"cron": "* * * * * *"}), "schedule.cron"),
    (backup(claimName="c", schedule={**CRON, "startingDeadlineSeconds": 1}), "Seconds"),
    (backup(claimName="c", schedule={**CRON, "concurrencyPolicy": "Allow"}), "Policy"),
    ({"persistence": {"enabled": True, "validationTimeoutSeconds": 0}}, "Timeout"),
    ({"restoreFrom": {"cluster": "old"}}, "restoreFrom needs persistence.enabled"),
    (restore(), "exactly one of cluster and claimName"),
    (restore(cluster="a", claimName="b"), "exactly one of cluster and claimName"),
    (restore(claimName="b"), "restoreFrom.claimName needs member"),
    (restore(cluster="a", backup=0), "restoreFrom.backup"),
    ({"exposure": {"nodePort": 30000}}, "nodePort needs type"),
    ({"exposure": {"type": "NodePort", "loadBalancerClass": "x"}}, "needs type LoadBalancer"),
    ({"exposure": {"allowedCidrs": ["host/8"]}}, "allowedCidrs.0"),
    ({"pod": {"terminationGracePeriodSeconds": 29}}, "terminationGracePeriodSeconds"),
    ({"shutdown": {"drainSeconds": 61}}, "shutdown.drainSeconds"),
    ({"shutdown": {"drainSeconds": -1}}, "shutdown.drainSeconds"),
    ({"pod": {"securityContext": {"runAsUser": 0}}}, "runAsUser"),
    ({"pod": {"securityContext": {"privileged": True}}}, "privileged"),
    ({"pod": {"affinity": "none"}}, "pod.affinity"),
    (wan(TARGET), "exactly one of endpoints and target"),
    (wan({**TARGET, "endpoints": ["h"], "target": {"name": "b"}}), "exactly one of endpoints"),
    (wan({"id": "p", "targetCluster": "b", "endpoints": ["h"]}), "publishers.0.secretName"),
    (wan({**TARGET, "endpoints": ["h"], "id": "a&b"}), "publishers.0.id"),
    (wan(*[{**TARGET, "endpoints": ["h"]}] * 2), "publishers: duplicate p"),
    ({"wan": [{"name": "r"}, {"name": "r"}]}, "wan: duplicate r"),
    (maps(wan={"replication": "r"}), "must be the name of one of spec.wan"),
    (maps(wan={"replication": "r", "mergePolicy": "HigherHits"}), "maps.0.wan.mergePolicy"),
    (listener(port=5701), "wanListener.port is the REST port or metrics.port"),
    (listener(port=5703), "wanListener.port is the REST port or metrics.port"),
    ({"wanListener": {"port": 5704}}, "5702 and 5704 belong to other listeners"),
    ({"wanListener": {"secretName": "s"}}, "no effect while wanListener.enabled is false"),
    (listener(**{"from": [{}]}), "needs name, perhaps with namespace, or cidr"),
    (listener(**{"from": [{"name": "a", "cidr": "::/0"}]}), "needs name, perhaps with namespace"),
    (listener(**{"from": [{"namespace": "a", "cidr": "::/0"}]}), "needs name, perhaps with"),
    (listener(service={"nodePort": 30000}), "wanListener.service.nodePort needs type"),
    (
        {**listener(), "pod": {"sidecars": [{"name": "a", "ports": [{"containerPort": 5705}]}]}},
        "the WAN port",
    ),
]
