"""The member configuration of a cluster, as one tree and as the file that members read.

Values that differ per pod, and credentials, are variables that the member resolves from its
environment: the ConfigMap is the same for all members and holds no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from grid_operator.api.lifecycle import ConfigFormat
from grid_operator.api.names import (
    CONFIG_KEY,
    MANAGEMENT_PORT,
    MEMBERS_PORT,
    TLS_AUTHORITY_KEY,
    TLS_CERTIFICATE_KEY,
    TLS_KEY_KEY,
    XML_CONFIG_KEY,
    statefulset_name,
)
from grid_operator.api.network import EndpointGroupName
from grid_operator.api.persistence import RecoveryPolicy
from grid_operator.api.security import ClientCertificates
from grid_operator.render.configuration.structures import structure_trees
from grid_operator.render.configuration.wan import (
    publisher_realms,
    wan_listener,
    wan_realms,
    wan_sections,
)
from grid_operator.render.configuration.xml import configuration_xml

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.security import TlsSpec

MANAGEMENT_REALM: Final = "management"
MEMBER_REALM: Final = "members"
USERNAME_VARIABLE: Final = "GRID_MANAGEMENT_USERNAME"
PASSWORD_VARIABLE: Final = "GRID_MANAGEMENT_PASSWORD"  # noqa: S105 - the variable's name
IDENTITY_USERNAME_VARIABLE: Final = "GRID_IDENTITY_USERNAME"
IDENTITY_PASSWORD_VARIABLE: Final = "GRID_IDENTITY_PASSWORD"  # noqa: S105 - the variable's name
DATA_DIR_VARIABLE: Final = "GRID_DATA_DIR"
BACKUP_DIR_VARIABLE: Final = "GRID_BACKUP_DIR"
TLS_DIR_VARIABLE: Final = "GRID_TLS_DIR"
PARKED_FILE_VARIABLE: Final = "GRID_PARKED_FILE"
BIND_ADDRESS_VARIABLE: Final = "GRID_BIND_ADDRESS"
"""Unset in pods: members listen on every address. `gridctl up` sets it to a loopback one."""
PUBLIC_ADDRESS_VARIABLE: Final = "GRID_PUBLIC_ADDRESS"
MEMBER_VARIABLE_PREFIX: Final = "GRID_MEMBER_"
"""With an ordinal behind it: the host of that member, where there are several. `gridctl up` sets
them to loopback addresses."""
PERSISTENCE_DIR: Final = "persistence"
"""Below the data volume."""
RESTORE_FROM: Final = "restore-from"
AWAITED_BACKUP: Final = "that-the-first-member-imports"
"""Below the data volume, where it never is: all members but one wait for the one that has it."""

_GROUP_ELEMENTS: Final = {
    EndpointGroupName.CLUSTER_READ: "CLUSTER_READ",
    EndpointGroupName.CLUSTER_WRITE: "CLUSTER_WRITE",
    EndpointGroupName.HEALTH_CHECK: "HEALTH_CHECK",
    EndpointGroupName.PERSISTENCE: "PERSISTENCE",
    EndpointGroupName.WAN: "WAN",
    EndpointGroupName.DATA: "DATA",
    EndpointGroupName.CP: "CP",
}
_RECOVERY_POLICIES: Final = {
    RecoveryPolicy.FULL_RECOVERY_ONLY: "FULL_RECOVERY_ONLY",
    RecoveryPolicy.PARTIAL_RECOVERY_MOST_RECENT: "PARTIAL_RECOVERY_MOST_RECENT",
    RecoveryPolicy.PARTIAL_RECOVERY_MOST_COMPLETE: "PARTIAL_RECOVERY_MOST_COMPLETE",
}


def configuration_tree(cluster: GridCluster) -> dict[str, Any]:
    """Return the member configuration, from its top element `grid` down."""
    spec = cluster.spec
    tree: dict[str, Any] = {"cluster-name": spec.cluster_name, "instance-name": "${POD_NAME}"}
    if spec.advanced_network.enabled:
        tree["advanced-network"] = _advanced_network(spec)
    else:
        tree["network"] = _network(spec)
    tree["security"] = _security(spec)
    if spec.persistence.enabled:
        tree["persistence"] = _persistence(cluster)
    # On a volume that lives as long as the pod: a new pod starts normally.
    tree["shutdown"] = {"parked-file": f"${{{PARKED_FILE_VARIABLE}}}"}
    if spec.drain_seconds:
        tree["shutdown"]["drain-seconds"] = spec.drain_seconds
    tree |= wan_sections(cluster)
    tree |= structure_trees(spec)
    if spec.metrics_port is not None:
        tree["metrics"] = _metrics(spec.metrics_port)
    tree["logging"] = {
        "format": spec.logging.format.value.lower(),
        "level": spec.logging.level.value.lower(),
    }
    return {"grid": tree}


def configuration_yaml(cluster: GridCluster) -> str:
    """Return the configuration as the text of `grid.yaml`."""
    return yaml_text(configuration_tree(cluster))


def configuration_file(cluster: GridCluster) -> tuple[str, str]:
    """Return name and text of the file that members read, in the format that the spec wants."""
    if cluster.spec.config_format is ConfigFormat.XML:
        return XML_CONFIG_KEY, configuration_xml(configuration_tree(cluster))
    return CONFIG_KEY, configuration_yaml(cluster)


def yaml_text(tree: dict[str, Any]) -> str:
    """Return a configuration as YAML."""
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes what is not plain ASCII: other styles break lines at characters that look like it."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return the node of a text, or of a name."""
        style = None if text.isascii() and text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out: members refuse anchors."""
        return True


_Dumper.add_representer(str, _Dumper.represent_text)


def user_variable(index: int) -> str:
    """Return the environment variable with the password of a user, counted by their names."""
    return f"GRID_USER_{index}_PASSWORD"


def member_variable(ordinal: int) -> str:
    """Return the environment variable with the host of a member of several."""
    return f"{MEMBER_VARIABLE_PREFIX}{ordinal}"


def _network(spec: GridClusterSpec) -> dict[str, Any]:
    element: dict[str, Any] = {
        "port": _port(spec.rest_port),
        "public-address": f"${{{PUBLIC_ADDRESS_VARIABLE}}}",
        "interfaces": _interfaces(),
        "rest-api": {"enabled": True, **_endpoint_groups(spec)},
        "management": {
            "enabled": True,
            "port": _port(MANAGEMENT_PORT),
            "realm": MANAGEMENT_REALM,
        },
    }
    if spec.tls is not None:
        element["ssl"] = _ssl(spec.tls)
        element["management"]["ssl"] = _ssl(spec.tls)
    if not spec.is_alone:
        element |= {"join": _join(spec), "cluster": {"port": {"port": MEMBERS_PORT}}}
    if spec.encrypts_members:
        element["cluster"]["ssl"] = _members_ssl()
    wan = wan_listener(spec)
    if wan is not None:
        element["wan"] = {"enabled": spec.wan_listener.enabled, **wan}
    return element


def _advanced_network(spec: GridClusterSpec) -> dict[str, Any]:
    rest: dict[str, Any] = {
        "port": _port(spec.rest_port),
        "public-address": f"${{{PUBLIC_ADDRESS_VARIABLE}}}",
        "interfaces": _interfaces(),
        **_endpoint_groups(spec),
    }
    management: dict[str, Any] = {
        "port": _port(MANAGEMENT_PORT),
        "interfaces": _interfaces(),
        "realm": MANAGEMENT_REALM,
    }
    if spec.tls is not None:
        rest["ssl"] = _ssl(spec.tls)
        management["ssl"] = _ssl(spec.tls)
    element: dict[str, Any] = {
        "enabled": True,
        "rest-server-socket-endpoint-config": rest,
        "management-server-socket-endpoint-config": management,
    }
    if not spec.is_alone:
        members = {"port": {"port": MEMBERS_PORT}, "interfaces": _interfaces()}
        if spec.encrypts_members:
            members["ssl"] = _members_ssl()
        element |= {"join": _join(spec), "member-server-socket-endpoint-config": members}
    wan = wan_listener(spec) if spec.wan_listener.enabled else None
    if wan is not None:
        element["wan-server-socket-endpoint-config"] = {**wan, "interfaces": _interfaces()}
    return element


def _join(spec: GridClusterSpec) -> dict[str, Any]:
    """Return the list of all members, each by a name of its own.

    With one name for all of them some might find each other and not the rest.
    """
    hosts = [f"${{{member_variable(ordinal)}}}" for ordinal in range(spec.size)]
    return {"tcp-ip": {"enabled": True, "member-list": hosts}}


def _port(port: int) -> dict[str, Any]:
    return {"port": port, "auto-increment": False}


def _metrics(port: int) -> dict[str, Any]:
    return {"enabled": True, "port": _port(port), "interfaces": _interfaces()}


def _interfaces() -> dict[str, Any]:
    return {"enabled": True, "interfaces": [f"${{{BIND_ADDRESS_VARIABLE}:*}}"]}


def _ssl(tls: TlsSpec) -> dict[str, Any]:
    element = _key_pair()
    if tls.client_certificates is not ClientCertificates.NONE:
        element["client-certificates"] = tls.client_certificates.value.lower()
        element["client-ca-file"] = _tls_file(TLS_AUTHORITY_KEY)
    return element


def _members_ssl() -> dict[str, Any]:
    return _key_pair() | {"ca-file": _tls_file(TLS_AUTHORITY_KEY)}


def _key_pair() -> dict[str, Any]:
    return {
        "enabled": True,
        "certificate-file": _tls_file(TLS_CERTIFICATE_KEY),
        "key-file": _tls_file(TLS_KEY_KEY),
    }


def _tls_file(key: str) -> str:
    return f"${{{TLS_DIR_VARIABLE}}}/{key}"


def _endpoint_groups(spec: GridClusterSpec) -> dict[str, Any]:
    groups = {
        _GROUP_ELEMENTS[group.name]: {"enabled": group.enabled}
        for group in spec.rest.endpoint_groups
    }
    return {"endpoint-groups": groups} if groups else {}


def _security(spec: GridClusterSpec) -> dict[str, Any]:
    realms = [_management_realm(), *wan_realms(spec), *publisher_realms(spec)]
    if not spec.security.enabled:
        return {"realms": realms}
    element: dict[str, Any] = {
        "enabled": True,
        "member-authentication": {"realm": MEMBER_REALM},
    }
    if spec.security.protected:
        groups = sorted({_GROUP_ELEMENTS[name] for name in spec.security.protected})
        element["rest"] = {"protected": groups}
    return {**element, "realms": [*realms, _member_realm(spec)]}


def _management_realm() -> dict[str, Any]:
    user = _account(f"${{{USERNAME_VARIABLE}}}", PASSWORD_VARIABLE)
    return {"name": MANAGEMENT_REALM, "authentication": {"simple": {"users": [user]}}}


def _member_realm(spec: GridClusterSpec) -> dict[str, Any]:
    identity = _account(f"${{{IDENTITY_USERNAME_VARIABLE}}}", IDENTITY_PASSWORD_VARIABLE)
    realm: dict[str, Any] = {
        "name": MEMBER_REALM,
        "identity": {"username-password": identity},
    }
    users = [
        _account(name, user_variable(index))
        for index, name in enumerate(sorted(user.name for user in spec.security.users))
    ]
    if users:
        realm["authentication"] = {"simple": {"users": users}}
    return realm


def _account(username: str, variable: str) -> dict[str, Any]:
    return {"username": username, "password": f"${{{variable}}}"}


def _persistence(cluster: GridCluster) -> dict[str, Any]:
    persistence = cluster.spec.persistence
    element: dict[str, Any] = {
        "enabled": True,
        "base-dir": f"${{{DATA_DIR_VARIABLE}}}/{PERSISTENCE_DIR}",
        "cluster-data-recovery-policy": _RECOVERY_POLICIES[persistence.recovery_policy],
        "validation-timeout-seconds": persistence.validation_timeout_seconds,
    }
    if persistence.backup is not None:
        # A directory for each cluster: the claim may be shared. Of several members any makes a
        # backup of all data, and the newest is to be found whoever made it.
        first = f"{statefulset_name(cluster.metadata.name)}-0"
        name = "${POD_NAME}" if cluster.spec.is_alone else first
        element["backup-dir"] = f"${{{BACKUP_DIR_VARIABLE}}}/{name}"
    if cluster.status.importing:
        # Only the first has a copy, from the Job; there is nothing here for the others.
        element[RESTORE_FROM] = f"${{{DATA_DIR_VARIABLE}}}/{AWAITED_BACKUP}"
    return element
