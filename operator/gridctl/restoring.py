"""`gridctl restore`: the manifest of a new cluster whose data begins as a backup of another one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.lifecycle import RunState
from grid_operator.api.names import (
    API_VERSION,
    KIND,
    client_service_name,
    headless_service_name,
    statefulset_name,
)

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

_LEFT_OUT: Final = {
    "runState": RunState.RUNNING.value,
    "clusterState": None,
    "paused": False,
    "pausedUntil": None,
    "restoreFrom": None,
}
"""What is about the life of the source, not about what it is; and what it is by default."""


class CannotRestoreError(Exception):
    """No manifest can be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The new cluster, and what a person should know of it."""

    manifest: KubeObject
    notes: tuple[str, ...] = ()


def restored_manifest(
    source: KubeObject, name: str, backup: int | None, member: str | None
) -> Restoration:
    """Return the new cluster: the source's spec, with its data from the source's backups.

    Args:
        source: The GridCluster whose backups are used, live or from a file.
        name: The new cluster's name.
        backup: The backup's number, None: the newest.
        member: The pod whose backups are used, None: the first.

    Raises:
        CannotRestoreError: The source has no backups, or the new cluster would be no valid one.
    """
    meta, spec = source["metadata"], copy.deepcopy(source.get("spec") or {})
    origin = _restore_from(meta["name"], spec, backup, member)
    notes = [
        f"spec.{field} of {meta['name']} is left out"
        for field, default in _LEFT_OUT.items()
        if spec.pop(field, default) != default
    ]
    notes += _without_node_port(spec)
    notes += _shared_secrets(spec, meta["name"])
    notes += _shared_claims(spec)
    notes += _certificate(spec, name, meta.get("namespace", "default"))
    spec = _without_empty_lists(spec) | {"restoreFrom": origin}
    manifest: KubeObject = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": meta.get("namespace", "default")},
        "spec": spec,
    }
    if name == meta["name"]:
        raise CannotRestoreError(
            f"{name} is the source itself: a backup becomes a new cluster, choose another name"
        )
    try:
        GridCluster.from_kube(manifest)
    except InvalidClusterError as error:
        raise CannotRestoreError("\n".join(error.problems)) from error
    return Restoration(manifest, tuple(notes))


def _without_empty_lists(value: Any) -> Any:
    """Return what says the same: the API server spells lists out that nobody wrote."""
    if isinstance(value, dict):
        return {k: _without_empty_lists(v) for k, v in value.items() if v != []}
    if isinstance(value, list):
        return [_without_empty_lists(item) for item in value]
    return value


def _restore_from(
    source: str, spec: dict[str, Any], backup: int | None, member: str | None
) -> dict[str, Any]:
    kept = (spec.get("persistence") or {}).get("backup")
    if not kept:
        raise CannotRestoreError(f"{source} has no spec.persistence.backup: it makes no backups")
    found: dict[str, Any] = {}
    if kept.get("claimName"):
        found = {"claimName": kept["claimName"], "member": f"{statefulset_name(source)}-0"}
    else:
        found = {"cluster": source}
    if member is not None:
        found["member"] = member
    if backup is not None:
        found["backup"] = backup
    return found


def _without_node_port(spec: dict[str, Any]) -> list[str]:
    exposure = spec.get("exposure") or {}
    if "nodePort" not in exposure:
        return []
    port = exposure.pop("nodePort")
    return [f"spec.exposure.nodePort {port} is left out: two Services cannot have one"]


def _certificate(spec: dict[str, Any], name: str, namespace: str) -> list[str]:
    secret = (spec.get("tls") or {}).get("secretName")
    if secret is None:
        return []
    notes = [
        f"spec.tls.secretName {secret}: its certificate has to be for {name} as well, that is "
        f"{client_service_name(name)}.{namespace}.svc and "
        f"*.{headless_service_name(name)}.{namespace}.svc; name another Secret if it is not"
    ]
    if spec.get("size", 1) > 1 and spec["tls"].get("members") is None:
        notes.append(
            "spec.tls.members is not set: members of a new cluster speak TLS with each other, so "
            "the certificate has to be for servers and for clients, and the Secret needs ca.crt"
        )
    return notes


def _shared_secrets(spec: dict[str, Any], source: str) -> list[str]:
    users = (spec.get("security") or {}).get("users") or ()
    names = [user["secretName"] for user in users if "secretName" in user]
    if not names:
        return []
    return [
        f"both clusters use the Secrets {', '.join(names)}: what the operator made for {source} "
        "goes with it"
    ]


def _shared_claims(spec: dict[str, Any]) -> list[str]:
    volumes = (spec.get("pod") or {}).get("volumes") or ()
    claims = [
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    ]
    if not claims:
        return []
    return [
        f"both clusters mount the claims {', '.join(claims)} of spec.pod.volumes: name others, or "
        "take them out, if they are not meant to be shared"
    ]
