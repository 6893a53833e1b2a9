"""Kubernetes objects as they travel between packages: plain JSON, with typed references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from grid_operator.api.names import MANAGED_BY_LABEL, OPERATOR_NAME

KubeObject: TypeAlias = dict[str, Any]
"""One Kubernetes object as JSON: apiVersion, kind, metadata and the kind's own fields.

The one place where `Any` crosses package borders: Kubernetes' own schemas type the content.
"""


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """Names one namespaced object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: KubeObject) -> ObjectRef:
        """Return the reference of a whole object."""
        meta = obj["metadata"]
        return cls(obj["apiVersion"], obj["kind"], meta["namespace"], meta["name"])

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def other_manager(obj: KubeObject) -> str:
    """Return which tool manages an object, empty when its labels name none but the operator.

    Such as Helm, whose release has members of a cluster of the same name, and removes them when
    they are handed over to the operator: until then two would write to them.
    """
    labels = obj["metadata"].get("labels") or {}
    manager = str(labels.get(MANAGED_BY_LABEL) or "")
    return "" if manager == OPERATOR_NAME else manager
