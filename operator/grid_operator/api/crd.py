"""Writes the CustomResourceDefinition of GridCluster from the models.

`python -m grid_operator.api.crd [FILE]` writes `crds/gridcluster.yaml`.
"""

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from grid_operator.api.base import ApiModel, Rule
from grid_operator.api.gridcluster import GridCluster, ObjectMeta
from grid_operator.api.names import GROUP, KIND, PLURAL, SHORT_NAME, SINGULAR, VERSION
from grid_operator.api.objects import KubeObject
from grid_operator.api.status import UNOBSERVED

DEFAULT_PATH: Final = Path("crds/gridcluster.yaml")

_KEPT_KEYWORDS: Final = (
    "type",
    "description",
    "enum",
    "default",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
_PRINTER_COLUMNS: Final = (
    ("Size", "integer", ".spec.size", "Number of members wanted."),
    (
        "Ready",
        "string",
        '.status.conditions[?(@.type=="Ready")].status',
        "Whether every member is ready.",
    ),
    ("State", "string", ".status.clusterState", "Cluster state."),
    ("Version", "string", ".status.clusterVersion", "Cluster version."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
)


def custom_resource_definition() -> KubeObject:
    """Return the CustomResourceDefinition as JSON."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def cluster_schema() -> dict[str, Any]:
    """Return the structural OpenAPI v3 schema of a whole GridCluster."""
    schema = _structural(GridCluster)
    name = _structural(ObjectMeta)["properties"]["name"]
    schema["properties"]["apiVersion"] = {"type": "string"}
    schema["properties"]["kind"] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object", "properties": {"name": name}}
    status = schema["properties"]["status"]
    status["default"] = {"observedGeneration": UNOBSERVED}
    status["properties"]["observedGeneration"]["minimum"] = UNOBSERVED
    schema.pop("required", None)
    return schema


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": cluster_schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": text}
            for name, kind, path, text in _PRINTER_COLUMNS
        ],
    }


def _structural(model: type[ApiModel]) -> dict[str, Any]:
    raw = model.model_json_schema()
    rules = {m.__name__: m for m in _all_subclasses(ApiModel)}
    return _SchemaWriter(raw.get("$defs", {}), rules).convert(raw, model.__name__)


def _all_subclasses(model: type[ApiModel]) -> list[type[ApiModel]]:
    direct = model.__subclasses__()
    return [*direct, *(deep for sub in direct for deep in _all_subclasses(sub))]


class _SchemaWriter:
    """Turns pydantic's JSON schema into the structural form that Kubernetes accepts."""

    def __init__(self, defs: dict[str, Any], models: dict[str, type[ApiModel]]) -> None:
        self._defs = defs
        self._models = models

    def convert(self, node: dict[str, Any], model_name: str | None = None) -> dict[str, Any]:
        node, model_name = self._resolve(node, model_name)
        out: dict[str, Any] = {key: node[key] for key in _KEPT_KEYWORDS if key in node}
        if node.get("x-kubernetes-int-or-string"):
            out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if "properties" in node:
            out["properties"] = {k: self.convert(v) for k, v in node["properties"].items()}
        elif isinstance(node.get("additionalProperties"), dict):
            out["additionalProperties"] = self.convert(node["additionalProperties"])
        if "items" in node:
            out["items"] = self.convert(node["items"])
        if model_name is not None:
            self._finish_object(out, model_name)
        return out

    def _resolve(
        self, node: dict[str, Any], model_name: str | None
    ) -> tuple[dict[str, Any], str | None]:
        """Follow a reference and drop the `null` alternative of optional fields."""
        choices = [c for c in node.get("anyOf", ()) if c.get("type") != "null"]
        if "x-kubernetes-int-or-string" not in node and len(choices) == 1:
            rest = {k: v for k, v in node.items() if k not in ("anyOf", "default")}
            node = {**choices[0], **rest}
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[-1]
            own = {k: v for k, v in node.items() if k != "$ref"}
            target = self._defs[name]
            node, model_name = {**target, **own}, name if "properties" in target else None
        return node, model_name

    def _finish_object(self, out: dict[str, Any], model_name: str) -> None:
        """Add the model's rules; spell its default out, since the API server checks it by them."""
        if "default" in out:
            out["default"] = _without_null(out["default"])
        model = self._models[model_name]
        if model.rules:
            out["x-kubernetes-validations"] = [_validation(rule) for rule in model.rules]


def _validation(rule: Rule) -> dict[str, str]:
    found = {"rule": rule.cel, "message": rule.message}
    return {**found, "fieldPath": rule.field} if rule.field else found


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(v) for key, v in value.items() if v is not None}
    return value


def main(argv: list[str]) -> None:
    """Write the definition to the file named first, `crds/gridcluster.yaml` without one."""
    path = Path(argv[0]) if argv else DEFAULT_PATH
    path.write_text(to_yaml(custom_resource_definition()), encoding="utf-8")


def to_yaml(obj: KubeObject) -> str:
    """Return the object as YAML, keys in the order given."""
    text: str = yaml.safe_dump(obj, sort_keys=False, width=100, allow_unicode=True)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
