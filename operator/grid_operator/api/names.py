"""Names that users, clients and members see: the API group, labels, annotations, object names."""

from __future__ import annotations

from typing import Final

GROUP: Final = "gridcluster.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "GridCluster"
PLURAL: Final = "gridclusters"
SINGULAR: Final = "gridcluster"
SHORT_NAME: Final = "gc"

FIELD_MANAGER: Final = "grid-operator"
"""Owner of every field that the operator applies (server-side apply)."""

NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
VERSION_LABEL: Final = "app.kubernetes.io/version"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
"""On every child and pod: the name of the GridCluster that it belongs to."""
CLIENT_LABEL: Final = f"{GROUP}/client"
"""A pod that carries it with the value `true` may reach the members' REST port."""
METRICS_LABEL: Final = f"{GROUP}/metrics"
"""A pod of any namespace that carries it with the value `true` may read metrics."""
REVISION_LABEL: Final = "controller-revision-hash"
"""Set by the StatefulSet controller: the template revision that a pod was made from."""

GRID_NAME: Final = "grid"
MEMBER_COMPONENT: Final = "member"
RESTORE_COMPONENT: Final = "restore"
OPERATOR_NAME: Final = "grid-operator"

RENDERED_HASH_ANNOTATION: Final = f"{GROUP}/rendered-hash"
"""On every child: digest of the object as it was rendered, without this annotation."""
STRUCTURES_ANNOTATION: Final = f"{GROUP}/structures"
"""On the StatefulSet: digests of what members read at their start, and of what they were given
since, as JSON."""
TEMPLATE_HASH_ANNOTATION: Final = f"{GROUP}/template-hash"
"""On the StatefulSet: digest of the pod template as it was rendered. It tells that an
annotation left the template: one that is not rendered may be somebody else's."""
CONFIG_HASH_ANNOTATION: Final = f"{GROUP}/config-hash"
"""On the pod template: digest of what a member reads at start, so that a change rolls it."""

NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""On every namespace, set by the API server: its own name."""

SHUTDOWN_FINALIZER: Final = f"{GROUP}/shutdown"
"""On a GridCluster whose members the operator stops gently before it goes."""

REST_PORT: Final = 5701
REST_PORT_NAME: Final = "rest"
MANAGEMENT_PORT: Final = 5702
MANAGEMENT_PORT_NAME: Final = "management"
METRICS_PORT: Final = 5703
METRICS_PORT_NAME: Final = "metrics"
MEMBERS_PORT: Final = 5704
"""Where members talk to each other; of a single member nobody listens there."""
MEMBERS_PORT_NAME: Final = "members"
WAN_PORT: Final = 5705
"""Where members take changes of other clusters, and the port of the Service NAME-wan."""
WAN_PORT_NAME: Final = "wan"

MEMBER_CONTAINER: Final = "member"
RESTORE_CONTAINER: Final = "restore"
CONFIG_KEY: Final = "grid.yaml"
XML_CONFIG_KEY: Final = "grid.xml"
CONFIG_VOLUME: Final = "config"
TMP_VOLUME: Final = "tmp"
BACKUP_VOLUME: Final = "backup"
TLS_VOLUME: Final = "tls"
WAN_TLS_VOLUME: Final = "grid-wan-tls"
TLS_CERTIFICATE_KEY: Final = "tls.crt"
TLS_KEY_KEY: Final = "tls.key"
TLS_AUTHORITY_KEY: Final = "ca.crt"
DATA_VOLUME: Final = "data"
CONFIG_DIR: Final = "/etc/grid"
TLS_DIR: Final = "/etc/grid-tls"
WAN_TLS_DIR: Final = "/etc/grid-wan-tls"
DATA_DIR: Final = "/data"
BACKUP_DIR: Final = "/backup"
TMP_DIR: Final = "/tmp"  # noqa: S108 - the pod's own volume
PROGRAM_DIR: Final = "/opt/grid"
"""Where the image has the member."""
USERNAME_KEY: Final = "username"
PASSWORD_KEY: Final = "password"  # noqa: S105 - the key's name, not a password

MAX_NAME_LENGTH: Final = 45
"""Longest GridCluster name, in characters: with suffixes and the revision hash that the
StatefulSet controller appends, every derived name and label value stays within 63."""


def statefulset_name(cluster: str) -> str:
    """Return the name of the members' StatefulSet."""
    return cluster


def client_service_name(cluster: str) -> str:
    """Return the name of the Service that clients use."""
    return cluster


def headless_service_name(cluster: str) -> str:
    """Return the name of the Service that gives every member its own DNS name."""
    return f"{cluster}-members"


def wan_service_name(cluster: str) -> str:
    """Return the name of the Service that takes changes of other clusters."""
    return f"{cluster}-wan"


def wan_secret_name(cluster: str) -> str:
    """Return the name of the Secret that other clusters show, unless the spec names one."""
    return f"{cluster}-wan"


def config_map_name(cluster: str) -> str:
    """Return the name of the ConfigMap with the member configuration."""
    return f"{cluster}-config"


def management_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the management listener's credentials."""
    return f"{cluster}-management"


def identity_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the name and password of the members themselves."""
    return f"{cluster}-identity"


def backup_claim_name(cluster: str) -> str:
    """Return the name of the volume claim that the operator makes for backups."""
    return f"{cluster}-backup"


def data_claim_name(cluster: str, ordinal: int) -> str:
    """Return the name of a member's volume claim, as the StatefulSet controller makes it."""
    return f"{DATA_VOLUME}-{statefulset_name(cluster)}-{ordinal}"


def restore_job_name(cluster: str) -> str:
    """Return the name of the Job that fills the volume of a new cluster from a backup."""
    return f"{cluster}-restore"


def member_host(cluster: str, ordinal: int) -> str:
    """Return the host of a member in DNS, without its namespace."""
    return f"{statefulset_name(cluster)}-{ordinal}.{headless_service_name(cluster)}"


def disruption_budget_name(cluster: str) -> str:
    """Return the name of the PodDisruptionBudget of several members."""
    return cluster


def network_policy_name(cluster: str) -> str:
    """Return the name of the members' NetworkPolicy."""
    return cluster


def selector_labels(cluster: str) -> dict[str, str]:
    """Return the labels that select exactly the member pods of one cluster."""
    return {
        NAME_LABEL: GRID_NAME,
        INSTANCE_LABEL: cluster,
        COMPONENT_LABEL: MEMBER_COMPONENT,
    }


def child_labels(cluster: str) -> dict[str, str]:
    """Return the labels that every child of a cluster carries."""
    return {
        **selector_labels(cluster),
        MANAGED_BY_LABEL: OPERATOR_NAME,
        CLUSTER_LABEL: cluster,
    }


def restore_labels(cluster: str) -> dict[str, str]:
    """Return the labels of the restoring Job and its pod: those of a child, but no member's."""
    return {**child_labels(cluster), COMPONENT_LABEL: RESTORE_COMPONENT}


def pod_labels(cluster: str) -> dict[str, str]:
    """Return the labels that select all pods of one cluster, members or not."""
    return {NAME_LABEL: GRID_NAME, INSTANCE_LABEL: cluster}
