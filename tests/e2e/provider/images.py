"""The member's and the operator's image, built from their Containerfiles and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.binaries import cache_root, go_root
from tests.e2e.provider.commands import run, succeeds, together
from tests.e2e.provider.debian import BUILD_IMAGE, RUNTIME_IMAGE, base_images
from tests.e2e.provider.host import IMAGE_PROGRAMS, require_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.provider.debian import BaseImages

REPOSITORY: Final = Path(__file__).resolve().parents[3]
BUILD_TIMEOUT_S: Final = 900.0
VERSION: Final = "0.2.0"
BASE_IMAGE_VARIABLE: Final = "GRID_E2E_BASE_IMAGE"
GO_IMAGE_VARIABLE: Final = "GRID_E2E_GO_IMAGE"
PUBLIC_REGISTRY: Final = "docker.io/library"
COMMON_INPUTS: Final = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "member/build.lock",
    "member/compile.lock",
)
MADE_HERE: Final = ("__pycache__", "built", ".built*")
"""Names of what this machine's Python made of the sources."""
# Let pip inside a build reach what pip outside it reaches.
BOUND_INTO_BUILDS: Final = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
GO_PLACE: Final = "/usr/local/go"
"""Where builds look for Go; the bases that are made here have none."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image and what goes into it, as paths below the repository's root."""

    component: str
    inputs: tuple[str, ...]

    @property
    def image(self) -> str:
        return f"grid-{self.component}:{VERSION}"

    @property
    def containerfile(self) -> str:
        return f"{self.component}/Containerfile"

    def files(self) -> list[str]:
        """Return every input file, sorted."""
        lock = f"{self.component}/requirements.lock"
        names = [*COMMON_INPUTS, self.containerfile, lock]
        for directory in self.inputs:
            found = (REPOSITORY / directory).rglob("*")
            names += [
                str(path.relative_to(REPOSITORY))
                for path in found
                if path.is_file() and not _made_here(path)
            ]
        return sorted(names)


def _made_here(path: Path) -> bool:
    parts = path.relative_to(REPOSITORY).parts
    return any(fnmatch(part, pattern) for part in parts for pattern in MADE_HERE)


RECIPES: Final = (
    Recipe("member", ("member/grid_member", "member/nats-server")),
    Recipe("operator", ("operator/grid_operator", "operator/gridctl")),
)


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: the name that pods use and the docker archive that holds it."""

    name: str
    archive: Path


@dataclass(frozen=True, slots=True)
class Images:
    """Both images of the project."""

    member: Image
    operator: Image


def built_images(cache: Path | None = None) -> Images:
    """Return the images of the present sources, building those that the cache lacks.

    Raises:
        MissingPartError: There is no tool or no base image to build with.
        CommandError: A build failed.
    """
    root = (cache or cache_root()) / "images"
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builder = _builder(root)
        archives: dict[str, Path] = {}
        together(_step(builder, recipe, root, archives) for recipe in RECIPES)
        member, operator = (Image(r.image, archives[r.component]) for r in RECIPES)
    return Images(member, operator)


def python_image(cache: Path | None = None) -> Image:
    """Return a small image with Python in it, for pods that test the cluster itself."""
    root = (cache or cache_root()) / "images"
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Image(RUNTIME_IMAGE, base_images(root).runtime)


@dataclass(frozen=True, slots=True)
class Builder:
    """How to build here: the tool, and the bases when they are made locally."""

    tool: str
    public_base: str | None
    local_bases: BaseImages | None
    go_image: str | None = field(default_factory=lambda: os.environ.get(GO_IMAGE_VARIABLE))

    @property
    def digest(self) -> str:
        local = self.local_bases.digest if self.local_bases else ""
        return f"{self.tool} {self.public_base} {self.go_image} {local}"

    def base_arguments(self) -> Iterator[str]:
        if self.local_bases is not None:
            yield from ("--build-arg", f"BASE_IMAGE={RUNTIME_IMAGE}")
            yield from ("--build-arg", f"BUILD_IMAGE={BUILD_IMAGE}")
            yield from ("--build-arg", f"GO_IMAGE={BUILD_IMAGE}")
        elif self.public_base is not None:
            yield from ("--build-arg", f"BASE_IMAGE={self.public_base}")
        if self.local_bases is None and self.go_image is not None:
            yield from ("--build-arg", f"GO_IMAGE={self.go_image}")


def _builder(root: Path) -> Builder:
    public_base = os.environ.get(BASE_IMAGE_VARIABLE)
    if shutil.which("docker") and succeeds("docker", "info"):
        return Builder("docker", public_base, None)
    if public_base is not None and shutil.which("podman"):
        return Builder("podman", public_base, None)
    require_programs(IMAGE_PROGRAMS)
    return Builder("buildah", public_base, None if public_base else base_images(root))


def _step(
    builder: Builder, recipe: Recipe, root: Path, archives: dict[str, Path]
) -> Callable[[], None]:
    def build() -> None:
        with tempfile.TemporaryDirectory(dir=root) as scratch:
            # The copy is what gets both hashed and built: the sources may change meanwhile.
            digest = _stage(builder, recipe, Path(scratch) / "context")
            archive = root / f"{recipe.component}-{digest}.tar"
            if not archive.exists():
                _build(builder, recipe, Path(scratch))
                (Path(scratch) / "image.tar").rename(archive)
        _forget_older(root, recipe, archive)
        archives[recipe.component] = archive

    return build


def _stage(builder: Builder, recipe: Recipe, context: Path) -> str:
    digest = hashlib.sha256(f"{builder.digest} {Path(__file__).read_text()}".encode())
    for name in recipe.files():
        content = (REPOSITORY / name).read_bytes()
        digest.update(f"{name}\0".encode() + content)
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_bytes(content)
    return digest.hexdigest()[:20]


def _forget_older(root: Path, recipe: Recipe, newest: Path) -> None:
    for path in root.glob(f"{recipe.component}-*.tar"):
        if path != newest:
            path.unlink()


def _build(builder: Builder, recipe: Recipe, scratch: Path) -> None:
    context = scratch / "context"
    words = ["-f", str(context / recipe.containerfile), *builder.base_arguments()]
    archive = scratch / "image.tar"
    if builder.tool == "buildah":
        _build_with_buildah(builder, recipe.image, words, scratch)
        return
    words += ["-t", recipe.image, str(context)]
    run(builder.tool, "build", *words, timeout_s=BUILD_TIMEOUT_S)
    run(builder.tool, "save", "-o", archive, recipe.image, timeout_s=BUILD_TIMEOUT_S)


def _build_with_buildah(builder: Builder, image: str, words: list[str], scratch: Path) -> None:
    storage = ("--root", str(scratch / "store"), "--runroot", str(scratch / "run"))
    buildah = ("buildah", *storage)
    bound = {path: path for path in BOUND_INTO_BUILDS if Path(path).exists()}
    if builder.local_bases is not None:
        for base in (builder.local_bases.runtime, builder.local_bases.build):
            run(*buildah, "pull", "-q", f"docker-archive:{base}")
        bound[str(go_root())] = GO_PLACE
    # The chroot isolation needs neither a network namespace nor control groups.
    options = ["--isolation", "chroot", "--network", "host", "--layers=false"]
    for path, place in bound.items():
        options += ["-v", f"{path}:{place}:ro"]
    local = f"localhost/{image}"
    context = str(scratch / "context")
    run(*buildah, "build", *options, *words, "-t", local, context, timeout_s=BUILD_TIMEOUT_S)
    archive = f"docker-archive:{scratch / 'image.tar'}:{PUBLIC_REGISTRY}/{image}"
    run(*buildah, "push", "-q", local, archive, timeout_s=BUILD_TIMEOUT_S)
