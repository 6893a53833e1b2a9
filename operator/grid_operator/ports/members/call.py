"""Calls to members as bytes, and their answers as outcomes. Pure.

Source: docs/member.md, "Calls with credentials".
"""

from __future__ import annotations

import json
import string
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from grid_operator.decide.calls import (
    CallDone,
    CallOutcome,
    CallRefused,
    CallUnknown,
    Endpoint,
    MemberCall,
)
from grid_operator.decide.words import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_HEADER: Final = "Idempotency-Key"
LEAVE_HEADER: Final = "X-Grid-Leave"
FOREVER: Final = "forever"
OPERATION_HEADER: Final = "X-Grid-Operation"
ERROR_HEADER: Final = "X-Grid-Error"
MAX_OPERATION_LENGTH: Final = 64
MAX_MESSAGE_LENGTH: Final = 512
MASK: Final = "***"
_PLAIN: Final = "".join(set(string.punctuation) - set("%+")) + " \n"
"""What needs no encoding in the last part of a body, besides letters and digits."""
_CALL_TIMEOUT_S: Final = 30.0
"""A member of several answers when the others know: it may wait 10 s for a new leader of the log,
and as long for a member that was lost."""
_LONGEST_S: Final = 45.0
"""Below the limit of one run of the work queue; what takes longer is asked for again under its
key, and is not done twice."""
_STARTS: Final = frozenset({Endpoint.FORCE_START, Endpoint.PARTIAL_START})
_UNDONE: Final = "nothing was done"
_AGAIN: Final = "ask again"
_AGAIN_SOON: Final = "ask again in 5 s"
"""Words of members that cannot tell yet whether they wait for what a start gives up."""
_TIMEOUTS_S: Final = dict.fromkeys(
    (Endpoint.CONFIG_UPLOAD, Endpoint.FORCE_START, Endpoint.PARTIAL_START), _LONGEST_S
)
"""Answered when all others have applied it; when data was replaced and read."""


def call_timeout_s(endpoint: Endpoint) -> float:
    """Return how long the whole answer of a call may take, connecting included."""
    return _TIMEOUTS_S.get(endpoint, _CALL_TIMEOUT_S)


def call_headers(call: MemberCall) -> dict[str, str]:
    """Return the headers of a call, but for its credentials."""
    headers = {KEY_HEADER: call.key, "Content-Type": "text/plain"}
    return {**headers, LEAVE_HEADER: FOREVER} if call.forever else headers


def call_body(call: MemberCall) -> bytes:
    """Return the body: two empty parts, for which the Basic header stands, and the parameter."""
    if call.parameter is None:
        return b"&"
    return b"&&" + quote(call.parameter, safe=_PLAIN).encode()


def call_outcome(
    call: MemberCall, status: int, headers: Mapping[str, str], body: bytes, *secrets: str
) -> CallOutcome:
    """Return what a complete answer to a call means; none of the secrets is in it.

    Only a member that says `success`, or that its state is already the one that is asked for, has
    done it. What it understood and refused is refused, but for a start that is refused for a moment
    only: that and all else may be, or have been, done.
    """
    document = _document(body)
    if status == 200:
        return _carried_out(call, headers, document, secrets)
    said = document.get("message")
    reason = _text(said, *secrets) or _text(headers.get(ERROR_HEADER), *secrets)
    if status == 401:
        reason = "the member does not accept the operator's credentials"
    message = f"answered {status}: {reason}" if reason else f"answered {status}"
    if 400 <= status < 500:
        return CallRefused(message, conflict=status == HTTPStatus.CONFLICT)
    return CallUnknown(message)


def masked(text: str, *secrets: str) -> str:
    """Return the text with none of the secrets in it."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return text


def _carried_out(
    call: MemberCall,
    headers: Mapping[str, str],
    document: Mapping[str, object],
    secrets: tuple[str, ...],
) -> CallOutcome:
    status = document.get("status")
    if status == "success":
        return CallDone(_operation(headers.get(OPERATION_HEADER, "")))
    if status != "fail":
        return CallUnknown("answered 200 without a status of success or fail")
    if call.endpoint is Endpoint.CHANGE_STATE:
        present, wanted = _text(document.get("state")), call.parameter or ""
        if present.lower() == wanted.lower():
            return CallDone()  # it was that already
    message = _text(document.get("message"), *secrets) or "answered that it failed"
    return CallUnknown(message) if _is_passing(call, message) else CallRefused(message)


def _is_passing(call: MemberCall, message: str) -> bool:
    """Return whether a start is refused for a moment only, which no key of a member remembers."""
    undone = _UNDONE in message and _AGAIN in message
    return call.endpoint in _STARTS and (undone or _AGAIN_SOON in message)


def _operation(text: str) -> str:
    visible = all("!" <= character <= "~" for character in text)
    return text if visible and len(text) <= MAX_OPERATION_LENGTH else ""


def _document(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(value: object, *secrets: str) -> str:
    """Return text that may be shown; what is cut off could hide the end of a secret."""
    if not isinstance(value, str):
        return ""
    shown = printable(masked(value, *secrets))
    return masked(shown, *map(printable, secrets))[:MAX_MESSAGE_LENGTH].strip()
