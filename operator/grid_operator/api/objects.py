"""Kubernetes objects as they travel between packages: plain JSON, with typed references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

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
