"""The test clusters and images, by hand.

up       bring a native cluster up with the project's images in it; prints its kubeconfig
down     take it away without a trace
status   show its nodes
images   build the project's images; prints their archives and sizes
check    prepare whatever the end-to-end tests need here, or say what is missing
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tests.e2e.provider.base import ProviderError
from tests.e2e.provider.binaries import built_binaries
from tests.e2e.provider.choice import EXISTING, NATIVE, chosen_kind
from tests.e2e.provider.existing import ExistingProvider
from tests.e2e.provider.host import RUN_PROGRAMS, require_programs, require_root
from tests.e2e.provider.images import built_images
from tests.e2e.provider.native.cluster import NativeProvider
from tests.helm.program import HELM_VERSIONS, helm_program

DEFAULT_NAME: Final = "dev"
BYTES_PER_MB: Final = 1_000_000


def main(arguments: list[str]) -> int:
    """Return the exit code of one command."""
    options = _parser().parse_args(arguments)
    try:
        _perform(options)
    except ProviderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.provider",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status"):
        command = commands.add_parser(name)
        command.add_argument("--name", default=DEFAULT_NAME, help="which cluster")
        if name == "up":
            command.add_argument("--nodes", type=int, default=1)
            command.add_argument("--no-images", action="store_true", help="an empty cluster")
    commands.add_parser("images")
    commands.add_parser("check")
    return parser


def _perform(options: argparse.Namespace) -> None:
    match options.command:
        case "up":
            _up(NativeProvider(options.name), options.nodes, with_images=not options.no_images)
        case "down":
            NativeProvider(options.name).down()
        case "status":
            sys.stdout.write(NativeProvider(options.name).status())
        case "images":
            _print_images()
        case "check":
            _prepare()


def _up(provider: NativeProvider, nodes: int, *, with_images: bool) -> None:
    images = built_images() if with_images else None
    provider.up(nodes)
    if images is not None:
        for image in (images.member, images.operator):
            provider.load_image(image.archive)
    sys.stdout.write(f"{provider.kubeconfig}\n")


def _print_images() -> None:
    images = built_images()
    for image in (images.member, images.operator):
        size_mb = image.archive.stat().st_size / BYTES_PER_MB
        sys.stdout.write(f"{image.name}  {size_mb:.1f} MB  {image.archive}\n")


def _prepare() -> None:
    kind = chosen_kind()
    for major in HELM_VERSIONS:
        helm_program(major)
    if kind == EXISTING:
        ExistingProvider().up()
        return
    if kind == NATIVE:
        require_root()
        require_programs(RUN_PROGRAMS)
        built_binaries()
    built_images()
    sys.stdout.write(f"ready: {kind}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
