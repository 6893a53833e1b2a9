"""Fixtures of the end-to-end tests: one cluster per run, the images in it, evidence on failure."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.provider.base import Capability, ProviderError, missing_capabilities
from tests.e2e.provider.choice import NATIVE, chosen_kind, provider_for_tests
from tests.e2e.provider.images import built_images, python_image
from tests.e2e.provider.kube import Images, Kube

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.e2e.provider.base import Provider

__all__ = ["Images", "Kube"]

TEST_TIMEOUT_S: Final = 300
NODES: Final = 1
PUBLIC_PYTHON_IMAGE: Final = "python:3.12-slim"
MEMBER_IMAGE_VARIABLE: Final = "GRID_E2E_MEMBER_IMAGE"
OPERATOR_IMAGE_VARIABLE: Final = "GRID_E2E_OPERATOR_IMAGE"
CLUSTER: Final = pytest.StashKey[Kube]()
Report = pytest.TestReport


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Keep the order in which the tests stand, and give them their time.

    Tests build on what those before them in their module leave, so that no plugin may shuffle them.
    Bringing up the cluster has a time of its own.
    """
    if any(Path(__file__).parent in item.path.parents for item in items):
        config.option.randomly_reorganize = False
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S, func_only=True))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Report, Report]:
    """Put the state of the cluster into the report of a failure."""
    report = yield
    kube = item.config.stash.get(CLUSTER, None)
    if report.failed and kube is not None:
        try:
            report.sections.extend(kube.evidence())
        except (ProviderError, OSError) as error:
            report.sections.append(("no evidence", str(error)))
    return report


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    """The cluster of this run; it is gone when the run ends, however it ends."""
    yield from a_cluster(NODES)


def a_cluster(nodes: int) -> Iterator[Provider]:
    """Yield a cluster of so many nodes, for as long as somebody needs it."""
    cluster = provider_for_tests(f"t{uuid.uuid4().hex[:8]}")
    cluster.up(nodes)
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="session")
def kube(provider: Provider, pytestconfig: pytest.Config) -> Iterator[Kube]:
    yield from shown_on_failure(provider, pytestconfig)


def shown_on_failure(provider: Provider, config: pytest.Config) -> Iterator[Kube]:
    """Yield the way to a cluster; meanwhile failures are reported with its state."""
    before = config.stash.get(CLUSTER, None)
    config.stash[CLUSTER] = cluster = Kube(provider)
    yield cluster
    del config.stash[CLUSTER]
    if before is not None:
        config.stash[CLUSTER] = before


@pytest.fixture(scope="session")
def images(provider: Provider) -> Images:
    """The member's and the operator's image, built from this checkout and loaded."""
    return images_in(provider)


def images_in(provider: Provider) -> Images:
    """Return the names of the images that the provider's cluster has by then."""
    named = os.environ.get(MEMBER_IMAGE_VARIABLE), os.environ.get(OPERATOR_IMAGE_VARIABLE)
    if named[0] and named[1]:
        return Images(named[0], named[1])
    built = built_images()
    provider.load_image(built.member.archive)
    provider.load_image(built.operator.archive)
    return Images(built.member.name, built.operator.name)


@pytest.fixture(scope="session")
def python_pod_image(provider: Provider) -> str:
    """A loaded image with Python in it, for pods that test the cluster itself."""
    if chosen_kind() != NATIVE:
        return PUBLIC_PYTHON_IMAGE
    image = python_image()
    provider.load_image(image.archive)
    return image.name


@pytest.fixture(autouse=True)
def _capabilities(request: pytest.FixtureRequest) -> None:
    """Fail cases that the provider cannot do: only the caller leaves anything out, by name."""
    markers = request.node.iter_markers("capability")
    wanted = {Capability(name) for marker in markers for name in marker.args}
    if not wanted:
        return
    provider: Provider = request.getfixturevalue("provider")
    if message := missing_capabilities(provider, wanted):
        pytest.fail(message, pytrace=False)
