"""WAN replication in the member configuration: publishers, references of maps, the listener."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.desired import WanPublisher
from grid_operator.api.names import (
    TLS_AUTHORITY_KEY,
    TLS_CERTIFICATE_KEY,
    TLS_KEY_KEY,
    WAN_PORT,
    wan_service_name,
)
from grid_operator.api.wan import (
    MergePolicy,
    PublisherState,
    QueueFullBehavior,
    WanClientCertificates,
)
from grid_operator.render.metadata import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.wan import MapWanSpec, WanPublisherSpec, WanTlsSpec

WAN_REALM: Final = "wan"
"""Its users are what clusters show that send changes."""
WAN_USERNAME_VARIABLE: Final = "GRID_WAN_USERNAME"
WAN_PASSWORD_VARIABLE: Final = "GRID_WAN_PASSWORD"  # noqa: S105 - the variable's name
WAN_TLS_DIR_VARIABLE: Final = "GRID_WAN_TLS_DIR"
INITIAL_STATE: Final = "initial-publisher-state"
_MERGE_POLICIES: Final = {policy: f"{policy.value}MergePolicy" for policy in MergePolicy}
_BEHAVIORS: Final = {
    QueueFullBehavior.DISCARD_AFTER_MUTATION: "DISCARD_AFTER_MUTATION",
    QueueFullBehavior.THROW_EXCEPTION: "THROW_EXCEPTION",
    QueueFullBehavior.THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE: (
        "THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE"
    ),
}
"""In the order of their numbers in the JSON of `addWanConfig`."""
_STATES: Final = (PublisherState.REPLICATING, PublisherState.PAUSED, PublisherState.STOPPED)
"""The same."""


def publisher_realm(secret: str) -> str:
    """Return the name of the realm with what members show by this Secret."""
    return f"{WAN_REALM}-{secret}"


def publisher_variables(secret: str) -> tuple[str, str]:
    """Return the environment variables with user name and password of this Secret.

    Their names depend on no other Secret, so that one that comes or goes renames none.
    """
    name = f"GRID_WAN_{digest(secret).upper()}"
    return f"{name}_USERNAME", f"{name}_PASSWORD"


def publisher_secrets(spec: GridClusterSpec) -> tuple[str, ...]:
    """Return the names of the Secrets that publishers show."""
    return tuple(sorted({p.secret_name for r in spec.wan for p in r.publishers}))


def wan_realms(spec: GridClusterSpec) -> list[dict[str, Any]]:
    """Return the realm of the listener."""
    if not spec.wan_listener.enabled:
        return []
    users = [_account(WAN_USERNAME_VARIABLE, WAN_PASSWORD_VARIABLE)]
    return [{"name": WAN_REALM, "authentication": {"simple": {"users": users}}}]


def publisher_realms(spec: GridClusterSpec) -> list[dict[str, Any]]:
    """Return a realm for each Secret that publishers show."""
    return [
        {
            "name": publisher_realm(secret),
            "identity": {"username-password": _account(*publisher_variables(secret))},
        }
        for secret in publisher_secrets(spec)
    ]


def _account(username: str, password: str) -> dict[str, Any]:
    return {"username": f"${{{username}}}", "password": f"${{{password}}}"}


def wan_listener(spec: GridClusterSpec) -> dict[str, Any] | None:
    """Return the listener without its interfaces, None when there is nothing to say of it."""
    listener = spec.wan_listener
    element: dict[str, Any] = {}
    if listener.enabled:
        element = {
            "port": {"port": listener.port, "auto-increment": False},
            "realm": WAN_REALM,
        }
    if listener.tls is not None:
        element["ssl"] = _ssl(listener.tls)
    return element or None


def _ssl(tls: WanTlsSpec) -> dict[str, Any]:
    element: dict[str, Any] = {
        "enabled": True,
        "certificate-file": _tls_file(TLS_CERTIFICATE_KEY),
        "key-file": _tls_file(TLS_KEY_KEY),
        "ca-file": _tls_file(TLS_AUTHORITY_KEY),
    }
    if tls.client_certificates is not WanClientCertificates.NONE:
        element["client-certificates"] = tls.client_certificates.value.lower()
        element["client-ca-file"] = _tls_file(TLS_AUTHORITY_KEY)
    return element


def _tls_file(key: str) -> str:
    return f"${{{WAN_TLS_DIR_VARIABLE}}}/{key}"


def wan_sections(cluster: GridCluster) -> dict[str, Any]:
    """Return the elements `wan` and `wan-replication`, left out where there is nothing in them."""
    spec = cluster.spec
    sections: dict[str, Any] = {}
    if spec.wan_listener.accepted_clusters:
        sections["wan"] = {"accepted-clusters": list(spec.wan_listener.accepted_clusters)}
    if spec.wan:
        sections["wan-replication"] = {
            replication.name: _replication(cluster, replication.publishers)
            for replication in spec.wan
        }
    return sections


def _replication(cluster: GridCluster, publishers: tuple[WanPublisherSpec, ...]) -> dict[str, Any]:
    if not publishers:
        return {}
    return {"batch-publisher": {p.id: _publisher(cluster, p) for p in publishers}}


def _publisher(cluster: GridCluster, publisher: WanPublisherSpec) -> dict[str, Any]:
    return {
        "cluster-name": publisher.target_cluster,
        "target-endpoints": _endpoints(cluster, publisher),
        "realm": publisher_realm(publisher.secret_name),
        "batch-size": publisher.batch_size,
        "queue-capacity": publisher.queue_capacity,
        "queue-full-behavior": _BEHAVIORS[publisher.queue_full_behavior],
        INITIAL_STATE: initial_state(publisher.state).value.upper(),
    }


def initial_state(state: PublisherState) -> PublisherState:
    """Return the state that a member begins with which has none stored."""
    return PublisherState.REPLICATING if state is PublisherState.MANUAL else state


def _endpoints(cluster: GridCluster, publisher: WanPublisherSpec) -> str:
    target = publisher.target
    if target is None:
        return ", ".join(publisher.endpoints)
    namespace = target.namespace or cluster.metadata.namespace
    return f"{wan_service_name(target.name)}.{namespace}.svc:{WAN_PORT}"


def wished_publishers(cluster: GridCluster) -> Iterator[WanPublisher]:
    """Return all publishers of the spec."""
    for replication in cluster.spec.wan:
        for publisher in replication.publishers:
            definition = _added(cluster, replication.name, publisher)
            yield WanPublisher(replication.name, publisher.id, publisher.state, definition)


def _added(cluster: GridCluster, replication: str, publisher: WanPublisherSpec) -> str:
    """Return the JSON by which `addWanConfig` adds the same publisher that the file has."""
    content = {
        "clusterName": publisher.target_cluster,
        "publisherId": publisher.id,
        "targetEndpoints": _endpoints(cluster, publisher),
        "batchSize": publisher.batch_size,
        "queueCapacity": publisher.queue_capacity,
        "queueFullBehavior": list(_BEHAVIORS).index(publisher.queue_full_behavior),
        "initialPublisherState": _STATES.index(initial_state(publisher.state)),
        "properties": {"realm": publisher_realm(publisher.secret_name)},
    }
    return json.dumps({"name": replication, "batchPublishers": [content]})


def map_reference(wan: MapWanSpec | None) -> dict[str, Any]:
    """Return what an element `map` has of WAN replication."""
    if wan is None:
        return {}
    element: dict[str, Any] = {
        "merge-policy-class-name": _MERGE_POLICIES[wan.merge_policy],
        "republishing-enabled": wan.republishing,
    }
    keys = {"include": list(wan.include_keys), "exclude": list(wan.exclude_keys)}
    named = {name: patterns for name, patterns in keys.items() if patterns}
    if named:
        element["key-filter"] = named
    return {"wan-replication-ref": {wan.replication: element}}
