"""Reads a file with one GridCluster, with errors that name the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.names import API_VERSION, KIND

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

FILE_LIMIT_BYTES: Final = 1024 * 1024
DEFAULT_NAMESPACE: Final = "default"


class ManifestError(Exception):
    """The file cannot be used; the message has one line for each problem."""


def read_manifest(path: Path, namespace: str | None = DEFAULT_NAMESPACE) -> KubeObject:
    """Return the one GridCluster in the file, checked.

    Args:
        path: The file.
        namespace: That of a file that names none; None: it is left without.

    Raises:
        ManifestError: The file cannot be read, is no YAML, or is no valid GridCluster.
    """
    document = _read_document(path)
    if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
        raise ManifestError(f"{path}: expected apiVersion {API_VERSION} and kind {KIND}")
    if not isinstance(document.get("metadata"), dict):
        raise ManifestError(f"{path}: metadata: a mapping with a name is required")
    named = document["metadata"].get("namespace") or namespace
    meta = {k: v for k, v in document["metadata"].items() if k != "namespace"}
    manifest = {**document, "metadata": meta | ({"namespace": named} if named else {})}
    manifest.pop("status", None)
    try:
        GridCluster.from_kube(manifest)
    except InvalidClusterError as error:
        raise ManifestError("\n".join(f"{path}: {p}" for p in error.problems)) from error
    return manifest


def yaml_problem(error: Exception) -> str:
    """Return where a text stops being YAML. What stands there is not quoted: it may be a secret."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "is no YAML"
    return f"is no YAML at line {mark.line + 1}, column {mark.column + 1}"


def _read_document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT_BYTES + 1)
        if len(content) > FILE_LIMIT_BYTES:
            raise ManifestError(f"{path}: longer than {FILE_LIMIT_BYTES} bytes")
        documents = [d for d in yaml.safe_load_all(content) if d is not None]
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: {yaml_problem(error)}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ManifestError(f"{path}: expected exactly one object, a {KIND}")
    return documents[0]
