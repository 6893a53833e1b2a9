"""The log level of this member, changed while it runs.

It holds for the loggers of the member, `grid` and all below; members that share a process share
their log. A logger below `grid` with a level of its own that is already more verbose keeps it: an
audit log that asks for its lines gets them whatever the level.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "SEVERE": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.INFO,
    "CONFIG": 15,
    "FINE": logging.DEBUG,
    "FINER": 7,
    "FINEST": 5,
}
"""The names of the interface, least verbose first, and what they are for Python's logging."""


class LogLevels:
    """Sets the level and restores the configured one."""

    def __init__(self, base: str = ROOT) -> None:
        self._base = base
        self.level: str | None = None
        """The name that was set last, None when the configured level holds."""
        self._configured_levels: dict[logging.Logger, int] = {}

    def change(self, name: str) -> bool:
        """Set the level by its name, in any case; False, and nothing changes, for an unknown."""
        number = LEVELS.get(name.upper())
        if number is None or not name.isascii():
            return False
        self.reset()
        base = logging.getLogger(self._base)
        self._set(base, number)
        # A logger that is made later has no level of its own and takes the base's.
        for below, logger in list(logging.Logger.manager.loggerDict.items()):
            if not below.startswith(f"{self._base}.") or not isinstance(logger, logging.Logger):
                continue
            if logger.level > number:
                self._set(logger, number)
        self.level = name.upper()
        return True

    def reset(self) -> None:
        """Restore what was configured."""
        for logger, level in self._configured_levels.items():
            logger.setLevel(level)
        self._configured_levels.clear()
        self.level = None

    def _set(self, logger: logging.Logger, number: int) -> None:
        self._configured_levels[logger] = logger.level
        logger.setLevel(number)
