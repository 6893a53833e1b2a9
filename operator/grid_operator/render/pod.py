"""The template of a member pod. It meets the restricted Pod Security Standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    CONFIG_HASH_ANNOTATION,
    CONFIG_KEY,
    DATA_VOLUME,
    MANAGEMENT_PORT,
    MANAGEMENT_PORT_NAME,
    MEMBER_CONTAINER,
    PASSWORD_KEY,
    REST_PORT,
    REST_PORT_NAME,
    USERNAME_KEY,
    child_labels,
    config_map_name,
    headless_service_name,
    management_secret_name,
)
from grid_operator.render.config import (
    DATA_DIR_VARIABLE,
    PASSWORD_VARIABLE,
    PUBLIC_ADDRESS_VARIABLE,
    USERNAME_VARIABLE,
    configuration_yaml,
)
from grid_operator.render.metadata import digest

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.render.context import RenderContext

USER_ID: Final = 10001
"""User and group of the member process; owner of its data."""
CONFIG_DIR: Final = "/etc/grid"
DATA_DIR: Final = "/data"
TMP_SIZE: Final = "64Mi"
TERMINATION_GRACE_S: Final = 60
"""For finishing what was begun and closing the store."""
STARTUP_LIMIT_S: Final = 600
"""For reading a large store before the first answer."""

_LIVENESS_PATH: Final = "/grid/health/node-state"
_READINESS_PATH: Final = "/grid/health/ready"


def pod_template(cluster: GridCluster, context: RenderContext) -> dict[str, Any]:
    """Return the pod template of the members."""
    pod = cluster.spec.pod
    config_hash = digest(
        configuration_yaml(cluster), context.management_username, context.management_password
    )
    return {
        "metadata": {
            "labels": {**pod.labels, **child_labels(cluster.metadata.name)},
            "annotations": {**pod.annotations, CONFIG_HASH_ANNOTATION: config_hash},
        },
        "spec": _pod_spec(cluster),
    }


def _pod_spec(cluster: GridCluster) -> dict[str, Any]:
    pod = cluster.spec.pod
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            # Not on every start: a large volume would take long to walk.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_member_container(cluster)],
        "volumes": [
            {"name": "config", "configMap": {"name": config_map_name(cluster.metadata.name)}},
            {"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}},
        ],
    }
    optional: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [
            t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in pod.tolerations
        ],
        "imagePullSecrets": [{"name": secret.name} for secret in pod.image_pull_secrets],
    }
    return spec | {key: value for key, value in optional.items() if value}


def _member_container(cluster: GridCluster) -> dict[str, Any]:
    spec = cluster.spec
    return {
        "name": MEMBER_CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy.value,
        "args": ["--config", f"{CONFIG_DIR}/{CONFIG_KEY}"],
        "env": _environment(cluster),
        "ports": [
            {"name": REST_PORT_NAME, "containerPort": REST_PORT, "protocol": "TCP"},
            {"name": MANAGEMENT_PORT_NAME, "containerPort": MANAGEMENT_PORT, "protocol": "TCP"},
        ],
        "startupProbe": _probe(_LIVENESS_PATH, period_s=1, timeout_s=2, failures=STARTUP_LIMIT_S),
        "livenessProbe": _probe(_LIVENESS_PATH, period_s=10, timeout_s=5, failures=6),
        "readinessProbe": _probe(_READINESS_PATH, period_s=2, timeout_s=2, failures=2),
        "resources": _resources(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _volume_mounts(spec),
    }


def _environment(cluster: GridCluster) -> list[dict[str, Any]]:
    secret = management_secret_name(cluster.metadata.name)
    service = headless_service_name(cluster.metadata.name)
    return [
        _from_field("POD_NAME", "metadata.name"),
        _from_field("POD_NAMESPACE", "metadata.namespace"),
        _from_field("POD_IP", "status.podIP"),
        _from_secret(USERNAME_VARIABLE, secret, USERNAME_KEY),
        _from_secret(PASSWORD_VARIABLE, secret, PASSWORD_KEY),
        {"name": DATA_DIR_VARIABLE, "value": DATA_DIR},
        # Kubernetes expands variables that stand above it in the list.
        {"name": PUBLIC_ADDRESS_VARIABLE, "value": f"$(POD_NAME).{service}.$(POD_NAMESPACE).svc"},
        *({"name": var.name, "value": var.value} for var in cluster.spec.pod.env),
    ]


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _from_secret(name: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _probe(path: str, *, period_s: int, timeout_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": REST_PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": failures,
    }


def _resources(spec: GridClusterSpec) -> dict[str, Any]:
    amounts = {"requests": spec.pod.resources.requests, "limits": spec.pod.resources.limits}
    return {kind: dict(values) for kind, values in amounts.items() if values}


def _volume_mounts(spec: GridClusterSpec) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own volume
    ]
    if spec.persistence.enabled:
        mounts.append({"name": DATA_VOLUME, "mountPath": DATA_DIR})
    return mounts
