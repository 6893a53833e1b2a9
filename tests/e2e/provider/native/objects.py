"""The objects that a new native cluster starts with: DNS and storage classes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.layout import DNS_SERVICE_IP

if TYPE_CHECKING:
    from tests.e2e.provider.layout import Layout

PROVISIONER: Final = "grid.test/directory"
DNS_LABELS: Final = {"k8s-app": "kube-dns"}
RBAC: Final = "rbac.authorization.k8s.io"
COREDNS: Final = "system:coredns"
DNS_PORTS: Final = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
]


def first_objects(layout: Layout) -> str:
    """Return the objects as one JSON document for `kubectl apply`."""
    items = [
        *_coredns_access(),
        *_dns_service(layout),
        _storage_class("standard", {}, {"storageclass.kubernetes.io/is-default-class": "true"}),
        # Like a network disk: the data stays within reach when the node is lost.
        _storage_class("shared", {"shared": "true"}, {}),
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _coredns_access() -> list[dict[str, object]]:
    reads = ["list", "watch"]
    core = ["endpoints", "services", "pods", "namespaces"]
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": COREDNS},
            "rules": [
                {"apiGroups": [""], "resources": core, "verbs": reads},
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": reads,
                },
            ],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": COREDNS},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": COREDNS},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": COREDNS}],
        },
    ]


def _dns_service(layout: Layout) -> list[dict[str, object]]:
    # CoreDNS runs beside the API server and not as a pod: it needs no image and is up at once.
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": DNS_LABELS},
            "spec": {"clusterIP": DNS_SERVICE_IP, "ports": DNS_PORTS},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "ports": DNS_PORTS,
            "endpoints": [
                {"addresses": [layout.control_plane.address], "conditions": {"ready": True}}
            ],
        },
    ]


def _storage_class(
    name: str, parameters: dict[str, str], annotations: dict[str, str]
) -> dict[str, object]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": PROVISIONER,
        "parameters": parameters,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
