"""The remembered forceStart and partialStart calls that carry an `Idempotency-Key`.

    no key known ──▶ begun ──▶ ended, with what was answered

They replace the store that all other outcomes are remembered in, so theirs are in a file beside it.
A call is noted there before the store is touched: whatever interrupts it, its key does not touch
another store later.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.idempotency import KEEP_S
from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.io.files import sync_directory, write_new_file
from grid_member.engine.io.store_errors import unusable_error
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.log.log import Clock

START_CALLS_FILE: Final = "start-calls.json"
MAX_START_CALLS: Final = 1000
"""Beyond it those are forgotten, the oldest first, whose time is over."""
MAX_START_CALLS_BYTES: Final = 4 << 20
"""What is larger was not written by a member."""
_FORMAT: Final = 1
_log: Final = logging.getLogger("grid.persistence")


@dataclass(frozen=True, slots=True)
class StartCall:
    """A call under a key."""

    key: str
    request: str
    """The fingerprint of what it asked."""
    begun_ms: int
    ended: bool = False
    problem: str | None = None
    """Why it failed; None when it did not."""


class StartCalls:
    """The calls in the file of one base directory.

    All methods but `has_call` block; all but that and `load` raise `EngineError`.
    """

    def __init__(self, directory: Path | None, clock_ms: Clock) -> None:
        """Take the base directory, None when persistence is off."""
        self._directory = directory
        self._clock_ms = clock_ms
        self._recent: dict[str, StartCall] = {}

    def load(self) -> None:
        """Read what `has_call` tells; an unreadable file keeps no other call from its key."""
        try:
            self._read()
        except EngineError as error:
            event(_log, logging.WARNING, "remembered calls not read", reason=str(error))

    def has_call(self, key: str) -> bool:
        """Tell, without a look at the disk, whether a call was begun under the key of late."""
        call = self._recent.get(key)
        return call is not None and self._counts(call)

    def find(self, key: str) -> StartCall | None:
        """Return the call that was begun under the key, None when there is none."""
        return next((call for call in self._read() if call.key == key), None)

    def carry_out(self, key: str, request: str, work: Callable[[], None]) -> None:
        """Do the work of a call, its beginning noted before and its end after it.

        What is not done yet is forgotten: its key may be sent again.
        """
        self._begin(key, request)
        try:
            work()
        except NotYetError:
            self._change(key, lambda _: None)
            raise
        except Exception as error:
            known = isinstance(error, EngineError)
            self._end(key, str(error) if known else "unexpected error: see the log")
            raise
        self._end(key, None)

    def _begin(self, key: str, request: str) -> None:
        calls = self._read()
        surplus = max(0, len(calls) + 1 - MAX_START_CALLS)
        if any(map(self._counts, calls[:surplus])):
            raise EngineError("too many idempotency keys are remembered: try without one")
        self._write([*calls[surplus:], StartCall(key, request, self._clock_ms())])

    def _counts(self, call: StartCall) -> bool:
        return self._clock_ms() - call.begun_ms < KEEP_S * 1000

    def _end(self, key: str, problem: str | None) -> None:
        self._change(key, lambda call: replace(call, ended=True, problem=problem))

    def _change(self, key: str, changed: Callable[[StartCall], StartCall | None]) -> None:
        """Write the note of that key anew, or forget it."""
        try:
            calls = [changed(call) if call.key == key else call for call in self._read()]
            self._write([call for call in calls if call is not None])
        except EngineError as error:
            # What was done is answered nevertheless; sent again, the call counts as interrupted.
            event(_log, logging.WARNING, "outcome not remembered", reason=str(error))

    def _read(self) -> list[StartCall]:
        """Return the calls, the oldest first."""
        if self._directory is None:
            return []
        path = self._directory / START_CALLS_FILE
        try:
            with path.open("rb") as file:
                content = file.read(MAX_START_CALLS_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unusable_error("the remembered calls", path, error) from None
        try:
            return self._keep_recent(_unpack(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise EngineError(
                f"{path} is foreign or damaged: move it away, or call without an Idempotency-Key"
            ) from None

    def _write(self, calls: list[StartCall]) -> None:
        if self._directory is None:
            return
        path = self._directory / START_CALLS_FILE
        creating = path.with_suffix(".creating")
        content = {"format": _FORMAT, "calls": [asdict(call) for call in calls]}
        try:
            creating.unlink(missing_ok=True)
            write_new_file(creating, json.dumps(content))
            creating.rename(path)
            self._keep_recent(calls)
            sync_directory(self._directory)
        except OSError as error:
            raise unusable_error("the remembered calls", path, error) from None

    def _keep_recent(self, calls: list[StartCall]) -> list[StartCall]:
        self._recent = {call.key: call for call in calls}
        return calls


def _unpack(content: bytes) -> list[StartCall]:
    if len(content) > MAX_START_CALLS_BYTES:
        raise ValueError("too large")
    found = json.loads(content)
    if found["format"] != _FORMAT:
        raise ValueError("unknown format")
    return [_call(**call) for call in found["calls"]]


def _call(
    *, key: object, request: object, begun_ms: object, ended: object, problem: object
) -> StartCall:
    texts = isinstance(key, str) and isinstance(request, str)
    if not (texts and isinstance(begun_ms, int) and isinstance(ended, bool)):
        raise TypeError("a field of another type")
    return StartCall(
        str(key), str(request), begun_ms, ended, None if problem is None else str(problem)
    )
