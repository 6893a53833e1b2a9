"""Running commands and waiting for conditions."""

from __future__ import annotations

import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from tests.e2e.provider.base import CommandError, WaitTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

COMMAND_TIMEOUT_S: Final = 120.0
POLL_INTERVAL_S: Final = 0.05
SHOWN_OUTPUT_CHARS: Final = 4000
PARALLEL_STEPS: Final = 16


def run(
    *command: str | Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = COMMAND_TIMEOUT_S,
) -> str:
    """Return the standard output of a command that succeeded.

    Raises:
        CommandError: It failed or did not end in time.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin if stdin is not None else "",
            env=env,
            cwd=cwd,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandError(f"{words[0]}: there is no such command") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{shlex.join(words)}: no end after {timeout_s:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout)[-SHOWN_OUTPUT_CHARS:].strip()
        raise CommandError(f"{shlex.join(words)}: exit code {done.returncode}\n{said}")
    return done.stdout


def succeeds(*command: str | Path, timeout_s: float = COMMAND_TIMEOUT_S) -> bool:
    """Return whether a command ended with 0."""
    try:
        run(*command, timeout_s=timeout_s)
    except CommandError:
        return False
    return True


def wait_until(
    condition: Callable[[], T],
    what: str,
    timeout_s: float,
    *,
    interval_s: float = POLL_INTERVAL_S,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Return the first true value of a condition.

    Raises:
        WaitTimeoutError: It was not true in time.
    """
    deadline = clock() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if clock() >= deadline:
            raise WaitTimeoutError(f"{what}: not so after {timeout_s:.0f} s")
        time.sleep(interval_s)


def together(steps: Iterable[Callable[[], None]]) -> None:
    """Run independent steps at the same time and raise the first failure."""
    with ThreadPoolExecutor(max_workers=PARALLEL_STEPS) as pool:
        for step in [pool.submit(step) for step in steps]:
            step.result()


def on_each(do: Callable[[T], None], items: Sequence[T]) -> None:
    """Call a function with each item, all at the same time."""

    def step(item: T) -> Callable[[], None]:
        return lambda: do(item)

    together(step(item) for item in items)
