"""Base images with Debian's own Python, made by unpacking packages of this machine's release.

For machines that reach Debian's packages but no image registry. No maintainer script runs and
nothing is installed here.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.archive import write_image
from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.commands import run

if TYPE_CHECKING:
    from collections.abc import Sequence

DOWNLOAD_TIMEOUT_S: Final = 300.0
RELEASE: Final = "bookworm"
RUNTIME_IMAGE: Final = "localhost/grid-python:3.11"
BUILD_IMAGE: Final = "localhost/grid-python-build:3.11"
RUNTIME_PACKAGES: Final = (
    "base-files",
    "ca-certificates",
    "coreutils",
    "dash",
    "libacl1",
    "libattr1",
    "libbz2-1.0",
    "libc6",
    "libcom-err2",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libgmp10",
    "libgssapi-krb5-2",
    "libk5crypto3",
    "libkeyutils1",
    "libkrb5-3",
    "libkrb5support0",
    "liblzma5",
    "libncursesw6",
    "libnsl2",
    "libpcre2-8-0",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libreadline8",
    "libselinux1",
    "libsqlite3-0",
    "libssl3",
    "libtinfo6",
    "libtirpc3",
    "libuuid1",
    "media-types",
    "netbase",
    "python3.11",
    "python3.11-minimal",
    "tzdata",
    "zlib1g",
)
PIP_PACKAGES: Final = ("python3-pip", "python3-setuptools", "python3-wheel", "python3-distutils")
COMPILER_PACKAGES: Final = (
    "binutils",
    "binutils-common",
    f"binutils-{platform.machine().replace('_', '-')}-linux-gnu",
    "cpp",
    "cpp-12",
    "gcc",
    "gcc-12",
    "libbinutils",
    "libc6-dev",
    "libcrypt-dev",
    "libctf-nobfd0",
    "libctf0",
    "libgcc-12-dev",
    "libgprofng0",
    "libisl23",
    "libjansson4",
    "libmpc3",
    "libmpfr6",
    "libpython3.11-dev",
    "libstdc++6",
    "libzstd1",
    "linux-libc-dev",
)
DOCUMENTS: Final = ("bug", "doc", "info", "lintian", "locale", "man")
DIRECTORIES: Final = ("dev", "etc/ssl/certs", "proc", "root", "run", "sys", "tmp", "var/tmp")
USERS: Final = (
    "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
    "grid:x:10001:10001:grid:/tmp:/bin/sh\n"
)
GROUPS: Final = "root:x:0:\nnogroup:x:65534:\ngrid:x:10001:\n"


@dataclass(frozen=True, slots=True)
class BaseImages:
    """The archives of both bases and what tells their content apart."""

    runtime: Path
    build: Path
    digest: str


def base_images(cache: Path) -> BaseImages:
    """Return the base images, making them when the cache has none.

    Raises:
        MissingPartError: This machine is not of the release whose packages are known.
    """
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:20]
    directory = cache / "bases" / digest
    images = BaseImages(directory / "runtime.tar", directory / "build.tar", digest)
    if directory.exists():
        return images
    found = platform.freedesktop_os_release().get("VERSION_CODENAME")
    if found != RELEASE or shutil.which("dpkg-deb") is None:
        raise MissingPartError(
            f"base images are made from Debian {RELEASE}'s packages and this is {found}; "
            "set GRID_E2E_BASE_IMAGE to a Python image that can be pulled"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        _make_images(Path(scratch))
        (Path(scratch) / "out").rename(directory)
    return images


def _make_images(scratch: Path) -> None:
    tree, out = scratch / "tree", scratch / "out"
    tree.mkdir()
    tree.chmod(0o755)
    out.mkdir()
    _unpack(RUNTIME_PACKAGES, scratch, tree)
    _complete(tree)
    write_image(out / "runtime.tar", RUNTIME_IMAGE, tree)
    _unpack(PIP_PACKAGES + COMPILER_PACKAGES, scratch, tree)
    write_image(out / "build.tar", BUILD_IMAGE, tree)


def _unpack(packages: Sequence[str], scratch: Path, tree: Path) -> None:
    with tempfile.TemporaryDirectory(dir=scratch) as downloads:
        # As root, apt downloads with an unprivileged user of its own, who may not write here.
        options = ("-o", "APT::Sandbox::User=root", "-qq")
        command = ("apt-get", *options, "download", *packages)
        run(*command, cwd=Path(downloads), timeout_s=DOWNLOAD_TIMEOUT_S)
        for package in sorted(Path(downloads).glob("*.deb")):
            run("dpkg-deb", "-x", package, tree)
    for name in DOCUMENTS:
        shutil.rmtree(tree / "usr/share" / name, ignore_errors=True)


def _complete(tree: Path) -> None:
    """Do what the packages' maintainer scripts would have done."""
    for name in DIRECTORIES:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (tree / name).chmod(0o1777)
    for name, target in (("python3", "python3.11"), ("python", "python3")):
        (tree / "usr/bin" / name).symlink_to(target)
    if not (tree / "bin/sh").exists():
        (tree / "bin/sh").symlink_to("dash")
    (tree / "etc/passwd").write_text(USERS)
    (tree / "etc/group").write_text(GROUPS)
    authorities = sorted((tree / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = b"".join(path.read_bytes() for path in authorities)
    (tree / "etc/ssl/certs/ca-certificates.crt").write_bytes(bundle)
