"""GridClusters for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.names import API_VERSION, KIND
from grid_operator.render import RenderContext, SecretContent, render_children

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

SECRETS = {
    "demo-identity": SecretContent({"username": "member", "password": "member-password"}, True),
    "ada": SecretContent({"username": "ada", "password": "ada-password"}, True),
    "bob": SecretContent({"password": "bob-password"}),
    "member-tls": SecretContent({"tls.crt": "cert", "tls.key": "key", "ca.crt": "ca"}),
    "license": SecretContent({"license": "a-license\n"}),
}
CONTEXT = RenderContext("grid-system", "grid-operator", "a-password", secrets=SECRETS)
WAN_SECRETS = {
    "demo-wan": SecretContent({"username": "wan", "password": "listener-password"}, True),
    "london-wan": SecretContent({"username": "wan", "password": "london-password"}),
    "wan-tls": SecretContent({"tls.crt": "cert", "tls.key": "key", "ca.crt": "ca"}),
}
WAN_CONTEXT = replace(CONTEXT, secrets=WAN_SECRETS)

EXTRA_VOLUMES: list[dict[str, Any]] = [
    {"name": "settings", "configMap": {"name": "extra"}},
    {"name": "keys", "secret": {"secretName": "extra", "optional": True}},
    {"name": "scratch"},
    {"name": "room", "emptyDir": {"sizeLimit": "0.5Gi"}},
    {"name": "shared", "persistentVolumeClaim": {"claimName": "shared", "readOnly": False}},
    {"name": "told", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "m"}}]}},
    {
        "name": "all",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                {"downwardAPI": {"items": [{"path": "c", "resourceFieldRef": {"resource": "r"}}]}},
                {"configMap": {"name": "extra"}},
            ]
        },
    },
    {
        "name": "short",
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1024Mi"}},
                }
            }
        },
    },
    {"name": "plugins", "image": {"reference": "registry.example/plugins"}},
]
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
FIRST: dict[str, Any] = {
    "name": "first",
    "image": "registry.example/first:2",
    "command": ["true"],
    "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "securityContext": RESTRICTED,
}
GOES_ON: dict[str, Any] = {
    "name": "goes-on",
    "image": "registry.example/goes-on@sha256:" + "0" * 64,
    "restartPolicy": "Always",
    "ports": [{"containerPort": 9000, "hostPort": 0}],
    "startupProbe": {"httpGet": {"port": 9000}, "initialDelaySeconds": 0},
    "lifecycle": {"preStop": {"httpGet": {"port": 9000}}},
    "securityContext": RESTRICTED,
}
BESIDE: dict[str, Any] = {
    "name": "beside",
    "image": "registry.example:5000/beside",
    "args": ["--to", "vault.example"],
    "stdin": False,
    "ports": [{"name": "health", "containerPort": 9001}, {"containerPort": 9002}],
    "livenessProbe": {"exec": {"command": ["true"]}},
    "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "securityContext": RESTRICTED,
}

FULL_SPEC: dict[str, Any] = {
    "image": "registry.example/grid-member:1",
    "imagePullPolicy": "Always",
    "clusterName": "orders",
    "clusterState": "Active",
    "clusterStateDriftPolicy": "Correct",
    "runState": "Running",
    "rest": {
        "port": 5801,
        "endpointGroups": [
            {"name": "Data", "enabled": True},
            {"name": "ClusterRead", "enabled": False},
        ],
    },
    "metrics": {"port": 9100},
    "maps": [
        {"name": "default"},
        {"name": "session-*", "timeToLiveSeconds": 60, "maxIdleSeconds": 30},
        {
            "name": "hot",
            "eviction": {"policy": "Lru", "maxSizePolicy": "UsedHeapSize", "size": 64},
            "dataPersistence": {"enabled": False},
        },
    ],
    "queues": [{"name": "jobs", "maxSize": 10, "dataPersistence": {"fsync": False}}],
    "persistence": {
        "enabled": True,
        "size": "2Gi",
        "storageClassName": "fast",
        "recoveryPolicy": "PartialRecoveryMostRecent",
        "validationTimeoutSeconds": 600,
        "backup": {
            "volume": {"size": "4Gi", "storageClassName": "slow", "accessMode": "ReadWriteMany"},
            "schedule": {
                "cron": "30 2 * * *",
                "timeZone": "Europe/Zurich",
                "missedRunPolicy": "Skip",
                "startingDeadlineSeconds": 600,
            },
        },
    },
    "logging": {"format": "Text", "level": "Debug"},
    "exposure": {
        "type": "LoadBalancer",
        "nodePort": 30801,
        "annotations": {"example.org/lb": "internal"},
        "loadBalancerClass": "example.org/lb",
        "allowedCidrs": ["192.0.2.0/24", "2001:db8::/32"],
    },
    "shutdown": {"drainSeconds": 20},
    "pod": {
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 2}},
        "env": [
            {"name": "TZ", "value": "UTC"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "extra", "key": "token"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {
                "name": "CPUS",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}},
            },
        ],
        "envFrom": [{"configMapRef": {"name": "extra", "optional": True}, "prefix": "EXTRA_"}],
        "volumes": EXTRA_VOLUMES,
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/extra", "readOnly": True},
            {"name": "settings", "mountPath": "/srv/one", "subPath": "one", "readOnly": False},
            {"name": "scratch", "mountPath": "/srv/scratch"},
        ],
        "initContainers": [FIRST, GOES_ON],
        "sidecars": [BESIDE],
        "runtimeClassName": "sandboxed",
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["vault.example"]}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "grid", "operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        ],
        "annotations": {"example.org/team": "grid"},
        "labels": {"team": "grid"},
        "imagePullSecrets": [{"name": "registry"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "high",
        "serviceAccountName": "members",
        "terminationGracePeriodSeconds": 120,
        "securityContext": {"runAsUser": 2000, "runAsGroup": 2001, "fsGroup": 2002},
    },
    "deletionPolicy": "Delete",
    "deletionProtection": True,
}
SECURE_SPEC: dict[str, Any] = {
    "configFormat": "Xml",
    "advancedNetwork": {"enabled": True, "restPort": 5711},
    "rest": {"endpointGroups": [{"name": "ClusterWrite", "enabled": True}]},
    "metrics": {"enabled": False},
    "tls": {"secretName": "member-tls", "clientCertificates": "Optional"},
    "security": {
        "enabled": True,
        "users": [{"name": "bob", "secretName": "bob"}, {"name": "ada", "secretName": "ada"}],
        "protected": ["Data", "ClusterRead"],
    },
    "license": {"secretName": "license"},
    "exposure": {"type": "NodePort"},
    "persistence": {"enabled": True, "backup": {"claimName": "shared"}},
    "maps": [{"name": "a & <b> \"c\" 'd' é"}],
}
SEVERAL_SPEC: dict[str, Any] = {"size": 3, "tls": {"secretName": "member-tls"}}
WAN_SPEC: dict[str, Any] = {
    "clusterName": "tokyo",
    "wanListener": {
        "enabled": True,
        "port": 5805,
        "tls": {"secretName": "wan-tls", "clientCertificates": "Optional"},
        "acceptedClusters": ["london", "paris"],
        "from": [
            {"name": "london"},
            {"name": "paris", "namespace": "eu"},
            {"cidr": "192.0.2.0/24"},
        ],
        "service": {
            "type": "LoadBalancer",
            "nodePort": 30805,
            "annotations": {"example.org/lb": "internal"},
        },
    },
    "wan": [
        {
            "name": "everywhere",
            "publishers": [
                {
                    "id": "london",
                    "targetCluster": "london",
                    "target": {"name": "london", "port": 5905},
                    "secretName": "london-wan",
                    "state": "Paused",
                    "queueCapacity": 1000,
                    "queueFullBehavior": "ThrowException",
                    "batchSize": 50,
                },
                {
                    "id": "paris",
                    "targetCluster": "paris",
                    "endpoints": ["paris.example", "[2001:db8::1]:5706"],
                    "secretName": "london-wan",
                    "state": "Manual",
                },
            ],
        },
        {"name": "empty"},
    ],
    "maps": [
        {
            "name": "orders",
            "wan": {
                "replication": "everywhere",
                "mergePolicy": "PassThrough",
                "republishing": False,
                "includeKeys": ["a*", "<b>"],
                "excludeKeys": ["*tmp"],
            },
        },
        {"name": "local"},
    ],
}
SPECS: dict[str, dict[str, Any]] = {
    "minimal": {},
    "full": FULL_SPEC,
    "secure": SECURE_SPEC,
    "several": SEVERAL_SPEC,
}


def make_cluster(
    spec: dict[str, Any] | None = None,
    name: str = "demo",
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> GridCluster:
    """Return a GridCluster as the API server would hand it out."""
    meta = {"name": name, "namespace": "default", "uid": "uid-1", "generation": 1, **metadata}
    return GridCluster.from_kube(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": meta,
            "spec": spec or {},
            "status": status or {},
        }
    )


def render(spec: dict[str, Any] | None = None) -> tuple[KubeObject, ...]:
    """Return the children of a cluster with this spec."""
    return render_children(make_cluster(spec), CONTEXT)
