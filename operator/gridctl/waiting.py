"""Waiting until the operator has done what it was asked for, and saying what it does meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_operator.ports.errors import OperatorError, Rejected
from gridctl.kubernetes import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TextIO

    from grid_operator.api.objects import KubeObject

PERIOD_S: Final = 1.0
"""Between two looks at the cluster."""
ERASE_LINE: Final = "\r\033[K"
SHOWN_CHARACTERS: Final = 120
"""Of a line of progress: a longer one would wrap and could not be erased."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not over yet; the text says what is being done or waited for."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """It is over."""

    succeeded: bool
    text: str


Verdict: TypeAlias = Waiting | Ended


class Progress(Protocol):
    """Where progress is shown."""

    def show(self, text: str) -> None:
        """Replace what is shown."""

    def clear(self) -> None:
        """Show nothing any more."""


class TerminalProgress:
    """One line of a terminal that always says the newest."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace what is shown."""
        line = " ".join(text.split())[:SHOWN_CHARACTERS]
        if line != self._shown:
            self._shown = line
            print(f"{ERASE_LINE}{line}", end="", file=self._terminal, flush=True)

    def clear(self) -> None:
        """Show nothing any more."""
        if self._shown:
            self._shown = ""
            print(ERASE_LINE, end="", file=self._terminal, flush=True)


class NoProgress:
    """Shows nothing: the output is read by a program."""

    def show(self, text: str) -> None:
        """Show nothing."""

    def clear(self) -> None:
        """Show nothing any more."""


def progress_on(stream: TextIO) -> Progress:
    """Return what shows progress on a terminal and nothing anywhere else."""
    return TerminalProgress(stream) if stream.isatty() else NoProgress()


async def await_end(
    fetch: Callable[[], Awaitable[KubeObject]],
    judge: Callable[[KubeObject], Verdict],
    progress: Progress,
    timeout_s: float,
) -> Ended:
    """Look at the cluster until the judge says that it is over, or the time is.

    An API server that does not answer for a while is asked again.
    """
    text = "nothing was seen yet"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    verdict = judge(await fetch())
                except NotFoundError:
                    return Ended(False, "the GridCluster was deleted meanwhile")
                except Rejected as error:
                    return Ended(False, str(error))
                except OperatorError as error:
                    verdict = Waiting(f"Kubernetes cannot be asked: {error}")
                if isinstance(verdict, Ended):
                    return verdict
                text = verdict.text
                progress.show(text)
                await asyncio.sleep(PERIOD_S)
    except TimeoutError:
        return Ended(
            False, f"not ended within {timeout_s:g} s, and the operator goes on; last seen: {text}"
        )
    finally:
        progress.clear()
