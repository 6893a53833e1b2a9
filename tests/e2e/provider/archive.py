"""Writing a directory tree as a one-layer image in the docker archive format."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.commands import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(
    archive: Path, name: str, tree: Path, settings: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Write an archive that containerd and buildah read; the same tree gives the same bytes."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        layer = Path(scratch) / "layer.tar"
        fixed = ("--numeric-owner", "--owner=0", "--group=0", "--sort=name", "--mtime=@0")
        run("tar", *fixed, "-C", tree, "-cf", layer, ".")
        with layer.open("rb") as stream:
            layer_digest = hashlib.file_digest(stream, "sha256").hexdigest()
        config = json.dumps(
            {
                "architecture": ARCHITECTURES[run("uname", "-m").strip()],
                "os": "linux",
                "config": {"Env": [DEFAULT_PATH], **(settings or {})},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
            }
        ).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        layer_name = f"{layer_digest}/layer.tar"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]
        with tarfile.open(archive, "w") as out:
            _add(out, config_name, config)
            out.add(layer, arcname=layer_name)
            _add(out, "manifest.json", json.dumps(manifest).encode())


def _add(out: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    out.addfile(member, io.BytesIO(content))
