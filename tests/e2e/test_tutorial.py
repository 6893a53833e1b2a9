"""docs/tutorial-kubernetes.md, block by block, as its readers paste it.

The tests are the sections of the page. They share one shell on a Kubernetes of their own, and run
in the order of the page.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.conftest import a_cluster, images_in, shown_on_failure
from tests.e2e.installation import ROOT
from tests.e2e.pages import Section, fits, sections
from tests.e2e.terminal import Terminal, open_terminal
from tests.helm.program import helm_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Images, Kube
    from tests.e2e.provider.base import Provider

# The page's own names of the images are those that the cluster has.
pytestmark = [pytest.mark.timeout(400, func_only=True), pytest.mark.capability("load-image")]

PAGE: Final = ROOT / "docs" / "tutorial-kubernetes.md"
SECTIONS: Final = sections(PAGE)
BLOCK_LIMIT_S: Final = 180.0


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    yield from a_cluster(1)


@pytest.fixture(scope="module")
def kube(provider: Provider, pytestconfig: pytest.Config) -> Iterator[Kube]:
    yield from shown_on_failure(provider, pytestconfig)


@pytest.fixture(scope="module")
def images(provider: Provider) -> Images:
    return images_in(provider)


@pytest.fixture(scope="module")
def terminal(
    kube: Kube, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """A shell in the checkout that finds kubectl and helm, and by them the cluster."""
    home = tmp_path_factory.mktemp("home")
    assert (images.member, images.operator) == ("grid-member:0.2.0", "grid-operator:0.2.0")
    environment = {
        "HOME": str(home),
        "PATH": f"{_programs(home / 'bin', kube)}:{os.environ['PATH']}",
        "KUBECONFIG": str(kube.kubeconfig),
    }
    with open_terminal(ROOT, environment) as shell:
        yield shell


def _programs(directory: Path, kube: Kube) -> Path:
    """Make a directory with kubectl and helm."""
    directory.mkdir()
    (directory / "helm").symlink_to(helm_program())
    kubectl = directory / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {shlex.join(kube.provider.kubectl)} "$@"\n')
    kubectl.chmod(0o755)
    return directory


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_the_blocks_do_what_the_page_says(terminal: Terminal, section: Section) -> None:
    for block in section.blocks:
        if block.needs_engine:
            continue
        ran = terminal.run(block.text, BLOCK_LIMIT_S)
        assert len(ran.failed) == block.refusals, f"{ran.failed} failed:\n{ran.output}"
        if block.output is not None:
            assert fits(ran.output, block.output), f"{block.text}\nanswered:\n{ran.output}"
