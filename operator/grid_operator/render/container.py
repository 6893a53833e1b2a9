"""The member container: its arguments, environment, probes and mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.lifecycle import ConfigFormat
from grid_operator.api.names import (
    BACKUP_DIR,
    BACKUP_VOLUME,
    CONFIG_DIR,
    CONFIG_KEY,
    CONFIG_VOLUME,
    DATA_DIR,
    DATA_VOLUME,
    MANAGEMENT_PORT,
    MANAGEMENT_PORT_NAME,
    MEMBER_CONTAINER,
    MEMBERS_PORT,
    MEMBERS_PORT_NAME,
    METRICS_PORT_NAME,
    PASSWORD_KEY,
    REST_PORT_NAME,
    TLS_DIR,
    TLS_VOLUME,
    TMP_DIR,
    TMP_VOLUME,
    USERNAME_KEY,
    WAN_PORT_NAME,
    WAN_TLS_DIR,
    WAN_TLS_VOLUME,
    XML_CONFIG_KEY,
    headless_service_name,
    identity_secret_name,
    management_secret_name,
    member_host,
)
from grid_operator.render.configuration.tree import (
    BACKUP_DIR_VARIABLE,
    DATA_DIR_VARIABLE,
    IDENTITY_PASSWORD_VARIABLE,
    IDENTITY_USERNAME_VARIABLE,
    PARKED_FILE_VARIABLE,
    PASSWORD_VARIABLE,
    PUBLIC_ADDRESS_VARIABLE,
    TLS_DIR_VARIABLE,
    USERNAME_VARIABLE,
    member_variable,
    user_variable,
)
from grid_operator.render.configuration.wan import (
    WAN_PASSWORD_VARIABLE,
    WAN_TLS_DIR_VARIABLE,
    WAN_USERNAME_VARIABLE,
    publisher_variables,
)
from grid_operator.render.secrets import listener_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.containers import EnvVar
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.pod import PodSpec

PARKED_FILE: Final = f"{TMP_DIR}/parked"
STARTUP_LIMIT_S: Final = 600
"""For reading a large store before the first answer."""

_LIVENESS_PATH: Final = "/grid/health/node-state"
_READINESS_PATH: Final = "/grid/health/ready"


def member_container(cluster: GridCluster, wan_secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Return the container of a member pod.

    Args:
        cluster: The cluster.
        wan_secrets: The Secrets that publishers show, or have shown since the members' start.
    """
    spec = cluster.spec
    file = XML_CONFIG_KEY if spec.config_format is ConfigFormat.XML else CONFIG_KEY
    scheme = "HTTP" if spec.tls is None else "HTTPS"
    container: dict[str, Any] = {
        "name": MEMBER_CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy.value,
        "args": ["--config", f"{CONFIG_DIR}/{file}"],
        "env": _environment(cluster, wan_secrets),
        "ports": _ports(spec),
        "startupProbe": {
            **_probe(_LIVENESS_PATH, scheme),
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": STARTUP_LIMIT_S,
        },
        "livenessProbe": {
            **_probe(_LIVENESS_PATH, scheme),
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            **_probe(_READINESS_PATH, scheme),
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "resources": resources(spec.pod),
        "securityContext": container_security_context(),
        # What a start that fails says is the last line of the log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _volume_mounts(spec),
    }
    sources = [source.as_kube() for source in spec.pod.env_from]
    return {**container, "envFrom": sources} if sources else container


def _ports(spec: GridClusterSpec) -> list[dict[str, Any]]:
    ports = {REST_PORT_NAME: spec.rest_port, MANAGEMENT_PORT_NAME: MANAGEMENT_PORT}
    if spec.metrics_port is not None:
        ports[METRICS_PORT_NAME] = spec.metrics_port
    if not spec.is_alone:
        ports[MEMBERS_PORT_NAME] = MEMBERS_PORT
    if spec.wan_port is not None:
        ports[WAN_PORT_NAME] = spec.wan_port
    return [
        {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()
    ]


def container_security_context() -> dict[str, Any]:
    """Return what the restricted standard asks of a container, and a read-only root."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def resources(pod: PodSpec) -> dict[str, Any]:
    """Return the compute resources of a container."""
    amounts = {"requests": pod.resources.requests, "limits": pod.resources.limits}
    return {kind: dict(values) for kind, values in amounts.items() if values}


def mount(volume: str, path: str, *, read_only: bool = False) -> dict[str, Any]:
    """Return one mount of a volume."""
    found: dict[str, Any] = {"name": volume, "mountPath": path}
    return {**found, "readOnly": True} if read_only else found


def _environment(cluster: GridCluster, wan_secrets: Iterable[str]) -> list[dict[str, Any]]:
    spec, name = cluster.spec, cluster.metadata.name
    secret = management_secret_name(name)
    variables = [
        _from_field("POD_NAME", "metadata.name"),
        _from_field("POD_NAMESPACE", "metadata.namespace"),
        _from_field("POD_IP", "status.podIP"),
        _from_secret(USERNAME_VARIABLE, secret, USERNAME_KEY),
        _from_secret(PASSWORD_VARIABLE, secret, PASSWORD_KEY),
        *_security_environment(cluster),
        *_wan_environment(cluster, wan_secrets),
        _literal(DATA_DIR_VARIABLE, DATA_DIR),
        _literal(PARKED_FILE_VARIABLE, PARKED_FILE),
        # Kubernetes expands variables that stand above it in the list.
        _literal(
            PUBLIC_ADDRESS_VARIABLE,
            f"$(POD_NAME).{headless_service_name(name)}.$(POD_NAMESPACE).svc",
        ),
        *_member_hosts(cluster),
    ]
    if spec.persistence.backup is not None:
        variables.append(_literal(BACKUP_DIR_VARIABLE, BACKUP_DIR))
    if spec.tls is not None:
        variables.append(_literal(TLS_DIR_VARIABLE, TLS_DIR))
    if spec.wan_listener.tls is not None:
        variables.append(_literal(WAN_TLS_DIR_VARIABLE, WAN_TLS_DIR))
    return [*variables, *map(_own_variable, spec.pod.env)]


def _own_variable(variable: EnvVar) -> dict[str, Any]:
    if variable.value_from is None:
        return _literal(variable.name, variable.value)
    return {"name": variable.name, "valueFrom": dict(variable.value_from)}


def _member_hosts(cluster: GridCluster) -> list[dict[str, Any]]:
    spec, name = cluster.spec, cluster.metadata.name
    if spec.is_alone:
        return []
    return [
        _literal(member_variable(ordinal), f"{member_host(name, ordinal)}.$(POD_NAMESPACE).svc")
        for ordinal in range(spec.size)
    ]


def _security_environment(cluster: GridCluster) -> list[dict[str, Any]]:
    security = cluster.spec.security
    if not security.enabled:
        return []
    identity = identity_secret_name(cluster.metadata.name)
    users = sorted(security.users, key=lambda user: user.name)
    return [
        _from_secret(IDENTITY_USERNAME_VARIABLE, identity, USERNAME_KEY),
        _from_secret(IDENTITY_PASSWORD_VARIABLE, identity, PASSWORD_KEY),
        *(
            _from_secret(user_variable(index), user.secret_name, PASSWORD_KEY)
            for index, user in enumerate(users)
        ),
    ]


def _wan_environment(cluster: GridCluster, secrets: Iterable[str]) -> list[dict[str, Any]]:
    asked = listener_secret(cluster)
    found: list[dict[str, Any]] = []
    if asked is not None:
        found += [
            _from_secret(WAN_USERNAME_VARIABLE, asked, USERNAME_KEY),
            _from_secret(WAN_PASSWORD_VARIABLE, asked, PASSWORD_KEY),
        ]
    for secret in sorted(secrets):
        variables = zip(publisher_variables(secret), (USERNAME_KEY, PASSWORD_KEY), strict=True)
        # The Secret of a publisher that left the spec may be deleted before the next restart.
        found += (_from_secret(name, secret, key, optional=True) for name, key in variables)
    return found


def _literal(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _from_secret(name: str, secret: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _probe(path: str, scheme: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": REST_PORT_NAME, "scheme": scheme}}


def _volume_mounts(spec: GridClusterSpec) -> list[dict[str, Any]]:
    mounts = [mount(CONFIG_VOLUME, CONFIG_DIR, read_only=True), mount(TMP_VOLUME, TMP_DIR)]
    if spec.tls is not None:
        mounts.append(mount(TLS_VOLUME, TLS_DIR, read_only=True))
    if spec.wan_listener.tls is not None:
        mounts.append(mount(WAN_TLS_VOLUME, WAN_TLS_DIR, read_only=True))
    if spec.persistence.enabled:
        mounts.append(mount(DATA_VOLUME, DATA_DIR))
    if spec.persistence.backup is not None:
        mounts.append(mount(BACKUP_VOLUME, BACKUP_DIR))
    return [*mounts, *(wanted.as_kube() for wanted in spec.pod.volume_mounts)]
