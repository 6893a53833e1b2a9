"""What the ConfigMaps and Secrets of the local mode hold, as a kubelet would read it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, Protocol

from grid_operator.ports.errors import Rejected

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject


_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class LocalObjects(Protocol):
    """Finds the ConfigMaps and Secrets that a pod refers to."""

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """Return the object, None when there is none."""


class Texts:
    """Reads the ConfigMaps and Secrets of one namespace.

    A reference is Kubernetes' own: `name`, and `optional` for what may be missing.
    """

    def __init__(self, objects: LocalObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def keys(self, kind: str, reference: KubeObject) -> tuple[str, ...]:
        """Return the keys of an object, none when it may be missing and is.

        Raises:
            Rejected: It is missing.
        """
        found = self._find(kind, reference)
        return () if found is None else (*found.get("data", {}), *found.get("stringData", {}))

    def value(self, kind: str, reference: KubeObject, key: str) -> str | None:
        """Return the text under a key, None when it may be missing and is.

        Raises:
            Rejected: It is missing.
        """
        found = self._find(kind, reference)
        if found is None:
            return None
        if key in found.get("stringData", {}):
            return str(found["stringData"][key])
        if key in found.get("data", {}):
            return self._text(kind, reference, key, str(found["data"][key]))
        if reference.get("optional"):
            return None
        raise Rejected(f"{kind} {reference['name']} has no key {key}")

    @staticmethod
    def _text(kind: str, reference: KubeObject, key: str, held: str) -> str:
        if kind != "Secret":
            return held
        try:
            return base64.b64decode(held).decode()
        except ValueError:
            raise Rejected(f"Secret {reference['name']}: {key} is not text") from None

    def _find(self, kind: str, reference: KubeObject) -> KubeObject | None:
        name = object_name(kind, reference["name"])
        found = self._objects.find(kind, self._namespace, name)
        if found is None and not reference.get("optional"):
            raise Rejected(f"{kind} {name} is not there")
        return found


def object_name(kind: str, name: str) -> str:
    """Return the name of an object if it is one: here it becomes a part of a path.

    Raises:
        Rejected: Kubernetes gives no object such a name.
    """
    if not _OBJECT_NAME.fullmatch(name):
        raise Rejected(f"{kind} {name!r} is not the name of an object")
    return name
