"""The template of a member pod. It meets the restricted Pod Security Standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    BACKUP_VOLUME,
    CONFIG_HASH_ANNOTATION,
    CONFIG_VOLUME,
    TLS_VOLUME,
    TMP_VOLUME,
    WAN_TLS_VOLUME,
    backup_claim_name,
    child_labels,
    config_map_name,
    selector_labels,
)
from grid_operator.render.container import member_container
from grid_operator.render.secrets import WAN_TLS_KEYS, tls_keys

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.pod import PodSpec
    from grid_operator.render.record import StartRecord

USER_ID: Final = 10001
"""User and group of the member process, and owner of its data, unless the spec says otherwise."""
TMP_SIZE: Final = "64Mi"
TLS_FILE_MODE: Final = 0o440
HOST_NAME_LABEL: Final = "kubernetes.io/hostname"
STOP_S: Final = 42
"""A member's stop without a drain takes 37 seconds at most; the kubelet gets the rest."""
MAX_WEIGHT: Final = 100
"""Of a preference, as Kubernetes has it."""


def pod_template(cluster: GridCluster, record: StartRecord) -> dict[str, Any]:
    """Return the pod template of the members."""
    pod = cluster.spec.pod
    return {
        "metadata": {
            "labels": {**pod.labels, **child_labels(cluster.metadata.name)},
            "annotations": {**pod.annotations, CONFIG_HASH_ANNOTATION: record.start_hash},
        },
        "spec": _pod_spec(cluster, record),
    }


def _pod_spec(cluster: GridCluster, record: StartRecord) -> dict[str, Any]:
    pod = cluster.spec.pod
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Else the member is process 1, to which a signal that it does not handle yet does not
        # happen: told to end while it starts, it would be waited for all of the grace period.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": _grace_s(cluster.spec),
        "securityContext": pod_security_context(pod),
        "containers": [
            member_container(cluster, record.wan_secrets),
            *(c.as_kube() for c in pod.sidecars),
        ],
        "volumes": [*_volumes(cluster), *(volume.as_kube() for volume in pod.volumes)],
        **scheduling(pod),
        **_names_and_first_containers(pod),
    }
    if not cluster.spec.is_alone and pod.affinity is None:
        spec["affinity"] = _apart(cluster)
    if pod.topology_spread_constraints:
        spec["topologySpreadConstraints"] = [dict(c) for c in pod.topology_spread_constraints]
    return spec


def _names_and_first_containers(pod: PodSpec) -> dict[str, Any]:
    """Return what of the spec's additions is a field of its own: not there unless it is wanted."""
    fields: dict[str, Any] = {
        "initContainers": [container.as_kube() for container in pod.init_containers],
        "dnsConfig": pod.dns_config,
        "hostAliases": [dict(alias) for alias in pod.host_aliases],
    }
    return {key: value for key, value in fields.items() if value}


def _grace_s(spec: GridClusterSpec) -> int:
    """Return the seconds from SIGTERM to SIGKILL, in which a drain leaves room for the stop."""
    wanted, drain_s = spec.pod.termination_grace_period_seconds, spec.drain_seconds
    return max(wanted, drain_s + STOP_S) if drain_s else wanted


def _apart(cluster: GridCluster) -> dict[str, Any]:
    """Return the affinity of members that rather run on nodes of their own."""
    term = {
        "labelSelector": {"matchLabels": selector_labels(cluster.metadata.name)},
        "topologyKey": HOST_NAME_LABEL,
    }
    preferred = [{"weight": MAX_WEIGHT, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def pod_security_context(pod: PodSpec) -> dict[str, Any]:
    """Return the security context of a pod that works on members' volumes."""
    wanted = pod.security_context
    return {
        "runAsNonRoot": True,
        "runAsUser": wanted.run_as_user or USER_ID,
        "runAsGroup": wanted.run_as_group or USER_ID,
        "fsGroup": wanted.fs_group or USER_ID,
        # Not on every start: a large volume would take long to walk.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def scheduling(pod: PodSpec) -> dict[str, Any]:
    """Return where a pod may run and by whose right: the same for all that use the volumes."""
    fields: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [
            t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in pod.tolerations
        ],
        "affinity": pod.affinity,
        "priorityClassName": pod.priority_class_name,
        "runtimeClassName": pod.runtime_class_name,
        "serviceAccountName": pod.service_account_name,
        "imagePullSecrets": [{"name": secret.name} for secret in pod.image_pull_secrets],
    }
    return {key: value for key, value in fields.items() if value}


def tmp_volume() -> dict[str, Any]:
    """Return a scratch volume that lives as long as the pod."""
    return {"name": TMP_VOLUME, "emptyDir": {"sizeLimit": TMP_SIZE}}


def claim_volume(name: str, claim: str) -> dict[str, Any]:
    """Return a volume of this name that is on a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _volumes(cluster: GridCluster) -> list[dict[str, Any]]:
    spec, name = cluster.spec, cluster.metadata.name
    volumes = [
        {"name": CONFIG_VOLUME, "configMap": {"name": config_map_name(name)}},
        tmp_volume(),
    ]
    if spec.tls is not None:
        volumes.append(_tls_volume(TLS_VOLUME, spec.tls.secret_name, tls_keys(spec)))
    wan_tls = spec.wan_listener.tls
    if wan_tls is not None:
        volumes.append(_tls_volume(WAN_TLS_VOLUME, wan_tls.secret_name, WAN_TLS_KEYS))
    backup = spec.persistence.backup
    if backup is not None:
        volumes.append(claim_volume(BACKUP_VOLUME, backup.claim_name or backup_claim_name(name)))
    return volumes


def _tls_volume(name: str, secret: str, keys: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": name,
        "secret": {
            "secretName": secret,
            "items": [{"key": key, "path": key} for key in keys],
            "defaultMode": TLS_FILE_MODE,
        },
    }
