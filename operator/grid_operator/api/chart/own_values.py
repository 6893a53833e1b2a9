"""The values of the chart `grid` that are no fields of a GridCluster's spec."""

from __future__ import annotations

from typing import Any, Final

from grid_operator.api.pod import MAX_GRACE_S

Schema = dict[str, Any]

GRID_CLUSTER_MODE: Final = "GridCluster"
STATEFUL_SET_MODE: Final = "StatefulSet"

_TEXT: Final[Schema] = {"type": "string"}
_OBJECT_NAME: Final[Schema] = {
    "type": "string",
    "maxLength": 253,
    "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
}
_LABELS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "type": "string",
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    },
}
_OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_IMAGE_PARTS: Final[Schema] = {
    "registry": {"type": "string", "pattern": r"^\S*$"},
    "repository": {"type": "string", "pattern": r"^\S+$"},
    "tag": {"type": "string", "pattern": "^([A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
}


def _section(description: str, **fields: Schema) -> Schema:
    """Return an object of known fields, whose default is made of theirs."""
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": fields,
        "default": {name: field["default"] for name, field in fields.items()},
    }


def _switch(description: str, default: bool) -> Schema:
    return {"description": description, "type": "boolean", "default": default}


OF_BOTH_MODES: Final[dict[str, Schema]] = {
    "mode": {
        "description": "How the members are run. StatefulSet: by the chart itself, without an "
        "operator. GridCluster: as one GridCluster, by an operator.",
        "enum": [STATEFUL_SET_MODE, GRID_CLUSTER_MODE],
        "default": STATEFUL_SET_MODE,
    },
    "nameOverride": {
        "description": "Name of the cluster, in place of the release's.",
        "type": "string",
        "default": "",
    },
    "global": {
        "description": "Shared with other charts of one release.",
        "type": "object",
        "properties": {"imageRegistry": _TEXT},
        "default": {"imageRegistry": ""},
    },
    "image": {
        "description": "Container image of the members: its parts, or one string that is taken as "
        "it is. registry may hold a path; global.imageRegistry takes its place. tag: the chart's "
        "appVersion when empty. digest, as sha256:..., takes the place of the tag.",
        "oneOf": [
            {"type": "string", "maxLength": 512, "pattern": r"^\S+$"},
            {
                "type": "object",
                "properties": _IMAGE_PARTS,
                "additionalProperties": False,
                "required": ["repository"],
            },
        ],
        "default": {"registry": "", "repository": "grid-member", "tag": "", "digest": ""},
    },
    "commonLabels": {
        "description": "Labels of every object of the release; pod.labels are those of the pods.",
        **_LABELS,
        "default": {},
    },
    "commonAnnotations": {
        "description": "Annotations of every object of the release.",
        "type": "object",
        "additionalProperties": _TEXT,
        "default": {},
    },
    "extraObjects": {
        "description": "Further objects of the release. Each is a template: an object, or the text "
        "of one.",
        "type": "array",
        "items": {"type": ["object", "string"]},
        "default": [],
    },
}
"""In the order of the values; `image` is a string in the spec."""
OF_STATEFUL_SET: Final[dict[str, Schema]] = {
    "management": _section(
        "The members' management listener, port 5702, which Jobs of the release alone may call.",
        enabled=_switch("Whether members listen there.", default=False),
        existingSecret={
            "description": "Secret with the keys username and password, which callers show.",
            **_OBJECT_NAME,
            "default": "",
        },
    ),
    "networkPolicy": _section(
        "The NetworkPolicy of the members.",
        enabled=_switch("Whether there is one; without it every pod reaches them.", default=True),
    ),
    "disruption": _section(
        "The PodDisruptionBudget of several members: one at a time.",
        enabled=_switch("Whether there is one.", default=True),
    ),
    "update": _section(
        "How members are replaced: one at a time, the highest ordinal first.",
        partition={
            "description": "Pods of lower ordinals are not replaced. A member of them that is "
            "started again for another reason reads the new configuration all the same.",
            "type": "integer",
            "minimum": 0,
            "maximum": 1000,
            "default": 0,
        },
        waitForSafeSeconds={
            "description": "How long one of several members waits at most, before it stops, until "
            "the others have what it holds; added to the grace period of its pod. 0: not at all.",
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_GRACE_S,
            "default": 60,
        },
    ),
    "podMonitor": _section(
        "A PodMonitor of the Prometheus operator, for the members' metrics.",
        enabled=_switch("Whether there is one.", default=False),
        labels={
            "description": "Its labels, by which Prometheus finds it.",
            **_LABELS,
            "default": {},
        },
        interval={
            "description": "How often metrics are read, such as 30s; empty: as Prometheus does.",
            "type": "string",
            "pattern": "^([0-9]+(ms|s|m|h))*$",
            "default": "",
        },
        relabelings={
            "description": "Further relabelings of the target.",
            **_OBJECTS,
            "default": [],
        },
        metricRelabelings={
            "description": "Relabelings of the series.",
            **_OBJECTS,
            "default": [],
        },
    ),
    "rules": _section(
        "A PrometheusRule of the Prometheus operator, with the alerts about members, of this "
        "cluster alone.",
        enabled=_switch("Whether there is one.", default=False),
        labels={
            "description": "Its labels, by which Prometheus finds it.",
            **_LABELS,
            "default": {},
        },
        disabled={
            "description": "Names of alerts to leave out, such as GridCommitsSlow.",
            "type": "array",
            "items": _TEXT,
            "uniqueItems": True,
            "default": [],
        },
        alertLabels={
            "description": "Labels of every alert, such as a team, by which Alertmanager chooses a "
            "receiver.",
            "type": "object",
            "patternProperties": {"^[a-zA-Z_][a-zA-Z0-9_]*$": _TEXT},
            "additionalProperties": False,
            "default": {},
        },
        runbookUrl={
            "description": "Where the pages of docs/runbooks are served; empty: alerts name the "
            "page's path in the sources.",
            "type": "string",
            "pattern": r"^(https?://\S+)?$",
            "default": "",
        },
    ),
    "dashboard": _section(
        "A ConfigMap with a dashboard of this cluster, for the sidecar of Grafana's chart.",
        enabled=_switch("Whether there is one.", default=False),
        labels={
            "description": "Its labels, by which the sidecar finds it.",
            **_LABELS,
            "default": {"grafana_dashboard": "1"},
        },
        annotations={
            "description": "Its annotations, such as grafana_folder: Grid.",
            "type": "object",
            "additionalProperties": _TEXT,
            "default": {},
        },
    ),
    "config": {
        "description": "More of the members' configuration, in its own language, from below `grid` "
        "on. What the chart sets itself cannot be set here.",
        "type": "object",
        "default": {},
    },
    "existingConfigMap": {
        "description": "ConfigMap with the key grid.yaml, in place of the whole configuration that "
        "the chart makes; ports, TLS, persistence and security of the values have to fit it. "
        "Members read a change of it at their next start.",
        **_OBJECT_NAME,
        "default": "",
    },
    "test": _section(
        "The pod of `helm test`.",
        enabled=_switch("Whether there is one.", default=True),
    ),
}
"""What says how members are run without an operator."""
CONDITION: Final[Schema] = {
    "description": "For a chart that has this one as a dependency: its condition.",
    "type": "boolean",
}
CERT_MANAGER: Final[Schema] = {
    "description": "Let cert-manager write the Secret of tls.secretName, for exactly the names by "
    "which members and clients are called.",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "issuerRef": {
            "description": "Who signs: a name, and perhaps kind and group, as cert-manager has it. "
            "Of several members, or with clientCertificates, it has to be an issuer that puts "
            "ca.crt into its Secrets.",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 253},
                "kind": {"type": "string", "minLength": 1},
                "group": {"type": "string", "minLength": 1},
            },
            "required": ["name"],
        }
    },
    "required": ["issuerRef"],
}
"""`tls.certManager`, beside the fields of the spec."""
OWN_VALUES: Final[dict[str, Schema]] = OF_BOTH_MODES | OF_STATEFUL_SET
