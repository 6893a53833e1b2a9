"""One row per line of the specification, against `grid-member` in several configurations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.member.conformance.configurations import SETUPS
from tests.unit.member.conformance.language import Role, Security, Transport
from tests.unit.member.conformance.rows.rows_security import IN_BODY
from tests.unit.member.conformance.run import Play
from tests.unit.member.conformance.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.conformance.configurations import Setup
    from tests.unit.member.conformance.language import Row
    from tests.unit.member.conformance.subjects import Subjects
    from tests.unit.member.wire import Wire

LOGGED_TIMEOUT_S: Final = 10.0
LOG_PERIOD_S: Final = 0.02
SLOW = [(number, row) for number, row in enumerate(TABLE) if row.slow]
SECTIONS = sorted({row.section for row in TABLE if not row.slow})


def holds(row: Row, setup: Setup) -> bool:
    """Tell whether the row is one of those for members in this setup."""
    other = Security.OFF if setup.security else Security.ON
    return row.security is not other and not (setup.tls and row.transport is Transport.PLAIN)


async def play(subjects: Subjects, setup: Setup, number: int, row: Row) -> None:
    subject = subjects.subject(row.role, setup)
    names = {"map": f"m{number}", "queue": f"q{number}"}
    # An address of its own, so that no row's wrong credentials slow down another.
    source = f"127.1.{number >> 8}.{number & 255}"

    async def connect() -> Wire:
        return await subject.connect(row.role, source)

    replaced = setup.security and row.security is Security.BOTH
    await Play(connect, names, subject.wait, IN_BODY if replaced else None).row(row)


@pytest.mark.parametrize("section", SECTIONS)
async def test_rows(subjects: Subjects, setup: Setup, section: str) -> None:
    problems: list[str] = []
    for number, row in enumerate(TABLE):
        if row.section == section and not row.slow and holds(row, setup):
            try:
                await play(subjects, setup, number, row)
            except (AssertionError, TimeoutError) as problem:
                problems.append(f"row {number}: {problem!r}")
    assert problems == []


async def test_rows_that_take_time(new_subjects: Callable[[], Subjects]) -> None:
    subjects = new_subjects()
    rows = [(setup, number, row) for setup in SETUPS for number, row in SLOW if holds(row, setup)]
    results = await asyncio.gather(
        *(play(subjects, setup, number, row) for setup, number, row in rows),
        return_exceptions=True,
    )
    subjects.end()
    found = zip(rows, results, strict=True)
    assert [f"{s}, row {n}: {r!r}" for (s, n, _), r in found if r is not None] == []


async def test_disabled_there_is_no_port(subjects: Subjects, setup: Setup) -> None:
    assert set(subjects.subject(Role.DISABLED, setup).ports) == {"management"}


async def test_the_log_names_the_setting_of_a_disabled_group(
    subjects: Subjects, setup: Setup
) -> None:
    subject = subjects.subject(Role.DEFAULTS, setup)
    async with await subject.connect(Role.DEFAULTS) as wire:
        assert (await wire.call("GET", "/grid/rest/maps/m/k")).status == 403
    above = {
        "network": "network.rest-api",
        "advanced-network": "advanced-network.rest-server-socket-endpoint-config",
    }
    setting = f"{above[setup.network]}.endpoint-groups.DATA.enabled"
    async with asyncio.timeout(LOGGED_TIMEOUT_S):  # the log is written beside the answers
        while setting not in {line.get("setting") for line in subject.log()}:  # noqa: ASYNC110
            await asyncio.sleep(LOG_PERIOD_S)
