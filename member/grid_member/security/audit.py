"""The audit log: who did what from where, and how it ended.

Its lines go to the logger `grid.audit`, which has a level of its own: turning the member's log down
does not turn it off. They never hold a password, a license or a key, and no name but those of
configured users: what was sent as a name may be a password in the wrong place.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import event, repeatable
from grid_member.telemetry.measurements import METHODS, OTHER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.security.credentials import LoginAttempt
    from grid_member.telemetry.repeats import Field

LOGGER: Final = "grid.audit"
DETAILS: Final = frozenset(
    {
        "state",
        "version",
        "log_level",
        "replication",
        "publisher",
        "map",
        "group",
        "member",
        "operation",
    }
)
"""What a line may tell of an operation's parameters: none of these can hold a secret."""
MAX_DETAIL_CHARACTERS: Final = 256
_UNKNOWN_PATH: Final = "unknown path"
_MIN_FAILED_STATUS: Final = 400
_SAYS_FAIL: Final = b'{"status":"fail"'
_log: Final = logging.getLogger(LOGGER)


def keep_auditing() -> None:
    """Give the audit log its own level, whatever level the rest of the log has."""
    _log.setLevel(logging.INFO)


def endpoint(method: str, path: str | None) -> str:
    """Return how a line names an endpoint: a known method and the path's pattern in the table."""
    return f"{method if method in METHODS else OTHER} {path or _UNKNOWN_PATH}"


def is_failure(body: bytes) -> bool:
    """Tell whether the document of an answer refuses what was asked, whatever its status says."""
    return body.startswith(_SAYS_FAIL)


class Audit:
    """The lines about one listener."""

    def __init__(self, listener: str) -> None:
        self._listener = listener

    def log_denial(
        self,
        reason: str,
        attempt: LoginAttempt,
        user: str | None = None,
        wait_s: int | None = None,
    ) -> None:
        """Tell that credentials were missing or wrong; wait_s is what the address now waits.

        Repetitions of one line are counted: nothing slows a client that sends no credentials.
        """
        line = self._line(attempt, user, {"reason": reason, "wait_s": wait_s})
        repeatable(_log, logging.WARNING, "authentication failed", **line)

    def log_call(
        self,
        attempt: LoginAttempt,
        user: str | None,
        status: int | None,
        *,
        refused: bool = False,
        repeated: bool = False,
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Tell what an authenticated call came to.

        Args:
            attempt: where it came from, and where it went.
            user: None as long as security is off.
            status: of the answer; None when the client left before there was one.
            refused: whether the answer refuses although its status does not.
            repeated: whether the answer is that of an earlier call, and nothing was done.
            details: what to tell of the parameters.

        Raises:
            ValueError: a detail that is not one of DETAILS.
        """
        if not DETAILS.issuperset(details or {}):
            raise ValueError("a detail that no audit line may hold")
        outcome = "done"
        if status is None:
            outcome = "unanswered"
        elif repeated:
            outcome = "repeated"
        elif refused or status >= _MIN_FAILED_STATUS:
            outcome = "refused"
        fields: dict[str, Field] = {"outcome": outcome, "status": status}
        fields |= {k: v[:MAX_DETAIL_CHARACTERS] for k, v in (details or {}).items()}
        event(_log, logging.INFO, "management call", **self._line(attempt, user, fields))

    def _line(
        self, attempt: LoginAttempt, user: str | None, fields: Mapping[str, Field]
    ) -> dict[str, Field]:
        line: dict[str, Field] = {
            "listener": self._listener,
            "remote": attempt.remote,
            "user": user,
            "endpoint": attempt.endpoint,
            **fields,
        }
        return {k: v for k, v in line.items() if v is not None}
