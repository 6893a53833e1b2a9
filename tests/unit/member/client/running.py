"""Runs `grid-member client` in a thread of its own, beside members of this process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grid_member.command.client import main

if TYPE_CHECKING:
    import pytest

AT_ONCE = ("--timeout", "0")
"""One look at the members and no wait."""


@dataclass(frozen=True)
class Outcome:
    code: int
    said: str
    told: str


class Command:
    """The verb, with what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def run(self, *words: object, **environment: str) -> Outcome:
        """Return how it ended and what it wrote, but for the lines of earlier runs."""
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, [str(word) for word in words], environment)
        written = self._capsys.readouterr()
        return Outcome(code, written.out, written.err)
