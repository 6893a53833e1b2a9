from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.member.conformance.configurations import SETUPS, Setup
from tests.unit.member.conformance.subjects import Nursery, Subjects
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def new_subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Subjects]]:
    """Give a function that returns members under test of its own; whoever has them ends them."""
    nurseries = {compiled: Nursery(compiled=compiled) for compiled in (True, False)}
    authority = Authority(tmp_path_factory.mktemp("authority"))
    yield lambda: Subjects(nurseries, authority, tmp_path_factory)
    for nursery in nurseries.values():
        nursery.end()


@pytest.fixture(scope="module", params=SETUPS, ids=str)
def setup(request: pytest.FixtureRequest) -> Setup:
    """Each of the ways to configure members; all tests of one are run before the next."""
    return cast("Setup", request.param)


@pytest.fixture(scope="module")
def subjects(setup: Setup, new_subjects: Callable[[], Subjects]) -> Iterator[Subjects]:
    """The members of one way, which end with its last test."""
    assert setup in SETUPS
    made = new_subjects()
    yield made
    made.end()
