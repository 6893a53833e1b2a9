"""One row per line of the specification, against `grid-member` in four configurations."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.conformance.configurations import NETWORKS, SYNTAXES
from tests.unit.member.conformance.language import Role
from tests.unit.member.conformance.run import Play
from tests.unit.member.conformance.table import TABLE
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.conformance.conftest import Subject
    from tests.unit.member.conformance.language import Row

    Subjects = Callable[..., Subject]

SLOW = [(number, row) for number, row in enumerate(TABLE) if row.slow]
SECTIONS = sorted({row.section for row in TABLE if not row.slow})

syntaxes = pytest.mark.parametrize("syntax", SYNTAXES)
networks = pytest.mark.parametrize("network", NETWORKS)


async def play(subjects: Subjects, syntax: str, network: str, number: int, row: Row) -> None:
    subject = subjects(row.role, syntax, network)
    names = {"map": f"m{number}", "queue": f"q{number}"}
    await Play(subject.port(row.role), names, subject.wait).row(row)


@networks
@syntaxes
@pytest.mark.parametrize("section", SECTIONS)
async def test_rows(subjects: Subjects, syntax: str, network: str, section: str) -> None:
    problems: list[str] = []
    for number, row in enumerate(TABLE):
        if row.section == section and not row.slow:
            try:
                await play(subjects, syntax, network, number, row)
            except (AssertionError, TimeoutError) as problem:
                problems.append(f"row {number}: {problem!r}")
    assert problems == []


async def test_rows_that_take_time(subjects: Subjects) -> None:
    await asyncio.gather(
        *(
            play(subjects, syntax, network, number, row)
            for syntax, network in product(SYNTAXES, NETWORKS)
            for number, row in SLOW
        )
    )


@networks
@syntaxes
async def test_disabled_there_is_no_port(subjects: Subjects, syntax: str, network: str) -> None:
    assert set(subjects(Role.DISABLED, syntax, network).ports) == {"management"}


@networks
@syntaxes
async def test_the_log_names_the_setting_of_a_disabled_group(
    subjects: Subjects, syntax: str, network: str
) -> None:
    subject = subjects(Role.DEFAULTS, syntax, network)
    assert (await once(subject.port(Role.DEFAULTS), "GET", "/grid/rest/maps/m/k")).status == 403
    above = {
        "network": "network.rest-api",
        "advanced-network": "advanced-network.rest-server-socket-endpoint-config",
    }
    settings = {entry.get("setting") for entry in subject.log()}
    assert f"{above[network]}.endpoint-groups.DATA.enabled" in settings
