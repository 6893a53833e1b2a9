"""What an API server makes of a write: server-side apply, JSON patches, and the defaults it adds.

As far as the children of a GridCluster need it, written from the API's schema and not from the
operator's own tables.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_operator.api.objects import KubeObject

ATOMIC_MAPS: Final = frozenset(
    {
        *("selector", "podSelector", "namespaceSelector", "labelSelector", "nodeSelector"),
        *("fieldRef", "secretKeyRef"),
    }
)
"""`x-kubernetes-map-type: atomic`."""
LIST_KEYS: Final = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""`x-kubernetes-list-type: map`; all other lists are atomic, but for ports."""
KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""`default` of a key that an item lacks; one that is there and empty is another key."""
POD_DEFAULTS: Final = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
CONTAINER_DEFAULTS: Final = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
SERVICE_DEFAULTS: Final = {
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "clusterIP": "10.96.0.17",
    "clusterIPs": ["10.96.0.17"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
JOB_DEFAULTS: Final = {
    "completionMode": "NonIndexed",
    "completions": 1,
    "parallelism": 1,
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
    "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
}


def applied(live: Any, wanted: Any, before: Any = None, field: str = "") -> Any:
    """Return live with what is wanted, and without what the same manager wanted before."""
    if isinstance(live, dict) and isinstance(wanted, dict) and field not in ATOMIC_MAPS:
        had = before if isinstance(before, dict) else {}
        kept = {k: v for k, v in live.items() if k in wanted or k not in had}
        return kept | {k: applied(live.get(k), v, had.get(k), k) for k, v in wanted.items()}
    if isinstance(live, list) and isinstance(wanted, list) and _keys(field, wanted + live):
        return _joined(live, wanted, before if isinstance(before, list) else [], field)
    return copy.deepcopy(wanted)


def patched(obj: KubeObject, operations: Sequence[KubeObject]) -> KubeObject:
    """Return the object after a JSON patch: `add`, `replace` and `remove`."""
    changed = copy.deepcopy(obj)
    for operation in operations:
        parts = operation["path"].split("/")[1:]
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in parts]
        holder: Any = changed
        for part in parents:
            holder = holder[int(part)] if isinstance(holder, list) else holder[part]
        _change(holder, last, operation)
    return changed


def _change(holder: Any, last: str, operation: KubeObject) -> None:
    value = copy.deepcopy(operation.get("value"))
    if isinstance(holder, list) and operation["op"] == "add":
        holder.insert(len(holder) if last == "-" else int(last), value)
        return
    key: Any = int(last) if isinstance(holder, list) else last
    if operation["op"] == "add":
        holder[key] = value
        return
    assert key in holder or isinstance(holder, list), f"nothing at {operation['path']}"
    if operation["op"] == "remove":
        del holder[key]
    else:
        holder[key] = value


def stored(obj: KubeObject) -> KubeObject:
    """Return the object as it is stored: without what is empty, and with what is defaulted."""
    kept: KubeObject = _without_empty(obj)
    spec = kept.get("spec", {})
    if kept["kind"] == "Service":
        _fill(spec, SERVICE_DEFAULTS)
        if spec.get("type") != "ClusterIP":
            _fill(spec, {"externalTrafficPolicy": "Cluster"})
            for port in spec.get("ports", ()):
                _fill(port, {"nodePort": 30123})
    if kept["kind"] == "Job":
        _fill(spec, JOB_DEFAULTS)
        labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
        _fill(labels, {"batch.kubernetes.io/job-name": "j"})
    for template in spec.get("volumeClaimTemplates", ()):
        _fill(template, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {}})
    pod = spec.get("template", {}).get("spec")
    if pod is not None:
        _fill_pod(pod)
    return kept


def _fill_pod(spec: dict[str, Any]) -> None:
    _fill(spec, POD_DEFAULTS)
    if "serviceAccountName" in spec:
        _fill(spec, {"serviceAccount": spec["serviceAccountName"]})
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _fill_container(container)
    for volume in spec.get("volumes", ()):
        _fill_volume(volume)


def _fill_container(container: dict[str, Any]) -> None:
    _fill(container, CONTAINER_DEFAULTS)
    _fill(container, {"imagePullPolicy": _pull_policy(container.get("image", ""))})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            _leave_out(container[probe], *PROBE_DEFAULTS)
            _fill(container[probe], PROBE_DEFAULTS)
            _fill_handler(container[probe])
    for event in ("postStart", "preStop"):
        _fill_handler(container.get("lifecycle", {}).get(event, {}))
    for port in container.get("ports", ()):
        _leave_out(port, "hostPort")
        _fill(port, {"protocol": "TCP"})
    for variable in container.get("env", ()):
        _fill_reference(variable.get("valueFrom", {}))
    for mount in container.get("volumeMounts", ()):
        _leave_out(mount, "readOnly")
    _leave_out(container, "stdin", "stdinOnce", "tty")


def _fill_handler(handler: dict[str, Any]) -> None:
    _leave_out(handler, "initialDelaySeconds")
    if "httpGet" in handler:
        _fill(handler["httpGet"], {"path": "/", "scheme": "HTTP"})


def _fill_reference(source: dict[str, Any]) -> None:
    if "fieldRef" in source:
        _fill(source["fieldRef"], {"apiVersion": "v1"})
    if "resourceFieldRef" in source:
        _fill(source["resourceFieldRef"], {"divisor": "0"})


def _fill_volume(volume: dict[str, Any]) -> None:
    if volume.keys() == {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            _fill(volume[source], {"defaultMode": 420})
    sources = volume.get("projected", {}).get("sources", ())
    for source in (volume, *sources):
        for item in source.get("downwardAPI", {}).get("items", ()):
            _fill_reference(item)
        if "serviceAccountToken" in source:
            _fill(source["serviceAccountToken"], {"expirationSeconds": 3600})
    if "image" in volume:
        _fill(volume["image"], {"pullPolicy": _pull_policy(volume["image"].get("reference", ""))})
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        _fill(template, {"metadata": {}, "spec": {}})
        _fill(template["spec"], {"volumeMode": "Filesystem", "resources": {}})
    _leave_out(volume.get("persistentVolumeClaim", {}), "readOnly")
    _leave_out(volume.get("iscsi", {}), "chapAuthDiscovery", "chapAuthSession")
    _leave_out(volume.get("scaleIO", {}), "sslEnabled")
    _leave_out(volume.get("gcePersistentDisk", {}), "partition")
    _leave_out(volume.get("awsElasticBlockStore", {}), "partition")


def _pull_policy(image: str) -> str:
    if "@" in image or (":" in image.split("/")[-1] and not image.endswith(":latest")):
        return "IfNotPresent"
    return "Always"


def _leave_out(holder: dict[str, Any], *fields: str) -> None:
    for field in fields:
        if not holder.get(field):
            holder.pop(field, None)


def _fill(holder: dict[str, Any], defaults: dict[str, Any]) -> None:
    for key, value in defaults.items():
        holder.setdefault(key, copy.deepcopy(value))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: _without_empty(v) for k, v in value.items() if v is not None and v not in ("", [])
        }
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _joined(live: list[Any], wanted: list[Any], before: list[Any], field: str) -> list[Any]:
    keys = _keys(field, wanted + live)

    def by_key(items: list[Any]) -> dict[tuple[Any, ...], Any]:
        return {tuple(item.get(key, KEY_DEFAULTS.get(key)) for key in keys): item for item in items}

    old, new, had = by_key(live), by_key(wanted), by_key(before)
    # In the order in which they are applied.
    kept = [key for key in old if key not in new and key not in had]
    return [
        applied(old.get(key), new[key], had.get(key)) if key in new else old[key]
        for key in dict.fromkeys([*kept, *new])
    ]


def _keys(field: str, items: list[Any]) -> tuple[str, ...]:
    if field != "ports":
        return LIST_KEYS.get(field, ())
    if any("containerPort" in item for item in items):
        return ("containerPort", "protocol")
    # Of a NetworkPolicy's ports, too: they are in lists that are atomic.
    return ("port", "protocol")
