"""The log level takes effect on this member's loggers, and the configured one comes back."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import pytest

from grid_member.http.routes.configuration import log_level_get, log_level_reset, log_level_set
from grid_member.telemetry.levels import LEVELS, LogLevels
from tests.unit.member.cluster.managed import content, reason, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.member.cluster.managed import Managed


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@pytest.fixture
def base() -> str:
    """The name of a base logger of this test alone, configured to show from INFO on."""
    name = f"grid-{uuid.uuid4()}"
    logging.getLogger(name).setLevel(logging.INFO)
    return name


@pytest.fixture
def lines(base: str) -> Iterator[Lines]:
    handler = Lines()
    logging.getLogger(base).addHandler(handler)
    yield handler
    logging.getLogger(base).removeHandler(handler)


def written(lines: Lines, logger: logging.Logger) -> list[str]:
    """Return which of the levels get through."""
    lines.seen.clear()
    numbers = {"SEVERE": 40, "WARNING": 30, "INFO": 20, "CONFIG": 15, "FINE": 10, "FINER": 7,
               "FINEST": 5}  # fmt: skip
    for name, number in numbers.items():
        logger.log(number, name)
    return list(lines.seen)


NAMES = ["SEVERE", "WARNING", "INFO", "CONFIG", "FINE", "FINER", "FINEST"]


@pytest.mark.parametrize("level", LEVELS)
async def test_a_level_holds_for_old_and_new_loggers_and_reset_restores(
    make: Callable[..., Managed], base: str, lines: Lines, level: str
) -> None:
    managed = make(log_base=base)
    old = logging.getLogger(f"{base}.http")
    configured = written(lines, old)
    assert configured == ["SEVERE", "WARNING", "INFO"]
    answer = await managed.call(log_level_set, level)
    assert (answer.status, content(answer)) == (
        200,
        {"status": "success", "message": "log level is changed"},
    )
    expected = [] if level == "OFF" else NAMES[: NAMES.index(level) + 1]
    assert written(lines, old) == expected
    assert written(lines, logging.getLogger(f"{base}.new")) == expected
    assert content(await managed.call(log_level_get)) == {"logLevel": level}
    answer = await managed.call(log_level_reset)
    assert (answer.status, content(answer)) == (
        200,
        {"status": "success", "message": "log level is reset"},
    )
    assert written(lines, old) == configured
    assert content(await managed.call(log_level_get)) == {"logLevel": None}


def test_a_logger_that_is_more_verbose_keeps_its_level(base: str, lines: Lines) -> None:
    levels = LogLevels(base)
    audit, quiet = logging.getLogger(f"{base}.audit"), logging.getLogger(f"{base}.quiet")
    audit.setLevel(logging.INFO)
    quiet.setLevel(logging.ERROR)
    assert levels.change("off")
    assert written(lines, audit) == ["SEVERE", "WARNING", "INFO"]
    assert levels.change("warning")
    assert written(lines, audit) == ["SEVERE", "WARNING", "INFO"]
    assert written(lines, quiet) == ["SEVERE", "WARNING"]
    assert levels.change("Fine")
    assert written(lines, audit) == written(lines, quiet) == NAMES[:5]
    levels.reset()
    assert (audit.level, quiet.level) == (logging.INFO, logging.ERROR)


def test_loggers_outside_keep_their_level(base: str) -> None:
    near = logging.getLogger(f"{base}x")
    near.setLevel(logging.ERROR)
    levels = LogLevels(base)
    levels.change("FINEST")
    assert near.level == logging.ERROR
    levels.reset()


def test_by_default_it_is_the_loggers_of_the_member() -> None:
    levels, logger = LogLevels(), logging.getLogger("grid.http")
    before = logger.isEnabledFor(logging.DEBUG), logger.isEnabledFor(logging.ERROR)
    levels.change("FINE")
    assert logger.isEnabledFor(logging.DEBUG)
    levels.change("OFF")
    assert not logger.isEnabledFor(logging.CRITICAL)
    levels.reset()
    assert (logger.isEnabledFor(logging.DEBUG), logger.isEnabledFor(logging.ERROR)) == before


@pytest.mark.parametrize(
    "level",
    ["", "ALL", "DEBUG", "10", " FINE", "fine\n", "\ufb01ne", "f\0", "x" * 1_000_000],
    ids=short,
)
async def test_an_unknown_level_is_400_and_changes_nothing(
    make: Callable[..., Managed], base: str, level: str
) -> None:
    managed = make(log_base=base)
    await managed.call(log_level_set, "finer")
    answer = await managed.call(log_level_set, level)
    assert answer.status == 400
    assert reason(answer) == (
        "the third parameter must be one of OFF, SEVERE, WARNING, INFO, CONFIG, FINE, FINER, FINEST"
    )
    assert content(await managed.call(log_level_get)) == {"logLevel": "FINER"}
    assert logging.getLogger(base).level == LEVELS["FINER"]


async def test_a_reset_without_a_level_is_fine_at_any_moment(make: Callable[..., Managed]) -> None:
    managed = make()
    assert (await managed.call(log_level_reset)).status == 200
    assert content(await managed.call(log_level_get)) == {"logLevel": None}
