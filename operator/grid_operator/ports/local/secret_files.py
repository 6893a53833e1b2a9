"""The Secrets of the local mode that somebody besides the operator uses: files of this user.

A Secret is a directory, `DATA-DIR/<namespace>/.secrets/<name>`, with a file for each key. What is
put there by hand is a Secret of the user's; what the operator makes is written there, so that its
passwords can be read, and are the same the next time.
"""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import CLUSTER_LABEL, management_secret_name

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

SECRETS_DIRECTORY: Final = ".secrets"
MAX_VALUE_BYTES: Final = 1024 * 1024
"""As Kubernetes has it, for a whole Secret."""


def secret_directory(data_dir: Path, namespace: str, name: str) -> Path:
    """Return the directory that stands for a Secret."""
    return data_dir / namespace / SECRETS_DIRECTORY / name


def read_secret(data_dir: Path, namespace: str, name: str) -> KubeObject | None:
    """Return the Secret in its directory, None when there is none or it cannot be read."""
    directory = secret_directory(data_dir, namespace, name)
    try:
        files = [path for path in sorted(directory.iterdir()) if path.is_file()]
        data = {path.name: _encoded(path) for path in files}
    except OSError:
        return None
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def write_secret(data_dir: Path, secret: KubeObject) -> None:
    """Write a Secret that the operator has made; the one that opens members is nobody else's."""
    meta = secret["metadata"]
    if meta["name"] == management_secret_name(meta.get("labels", {}).get(CLUSTER_LABEL, "")):
        return
    directory = secret_directory(data_dir, meta["namespace"], meta["name"])
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for key, value in secret.get("data", {}).items():
        path = directory / key
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(value))


def remove_secret(data_dir: Path, namespace: str, name: str) -> None:
    """Remove a Secret that the operator has made."""
    shutil.rmtree(secret_directory(data_dir, namespace, name), ignore_errors=True)


def _encoded(path: Path) -> str:
    with path.open("rb") as file:
        return base64.b64encode(file.read(MAX_VALUE_BYTES)).decode()
