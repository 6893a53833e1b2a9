"""Reads GridClusters with their status from files, and writes manifests."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import yaml

from grid_operator.api.names import GROUP, KIND
from gridctl.manifest import FILE_LIMIT_BYTES, ManifestError, yaml_problem

if TYPE_CHECKING:
    from typing import BinaryIO

    from grid_operator.api.objects import KubeObject

STDIN: Final = "-"


def read_clusters(stream: BinaryIO, name: str) -> list[KubeObject]:
    """Return the GridClusters in a stream: YAML or JSON, several documents, or a list.

    Raises:
        ManifestError: It is neither, or holds no GridCluster.
    """
    content = stream.read(FILE_LIMIT_BYTES + 1)
    if len(content) > FILE_LIMIT_BYTES:
        raise ManifestError(f"{name}: longer than {FILE_LIMIT_BYTES} bytes")
    try:
        documents = list(yaml.safe_load_all(content))  # JSON is YAML as well
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{name}: neither YAML nor JSON: {yaml_problem(error)}") from None
    found = [one for document in documents for one in _items(document)]
    clusters = [_plain(one) for one in found if _is_cluster(one)]
    if not clusters:
        raise ManifestError(f"{name}: holds no {KIND}; kubectl get gc NAME -o yaml writes one")
    return clusters


def manifest_yaml(manifest: KubeObject) -> str:
    """Return a manifest as a file holds it."""
    text: str = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=100)
    return text


def _plain(cluster: KubeObject) -> KubeObject:
    """Return it as JSON has it: YAML takes a time without quotation marks for more than text."""
    plain: KubeObject = json.loads(json.dumps(cluster, default=_text))
    return plain


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _items(document: Any) -> list[Any]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        return list(document["items"])
    return [document]


def _is_cluster(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and one.get("kind") == KIND
        and str(one.get("apiVersion", "")).startswith(f"{GROUP}/")
        and isinstance(one.get("metadata"), dict)
    )
