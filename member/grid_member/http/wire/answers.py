"""Answers as values, and the one place that writes them to the wire.

aiohttp's own responses add a Server header and a Content-Type and leave Content-Length out of a
204, so the bytes of every answer are made here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time

from grid_member.engine.leasehold import LATE, steady_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.abc import AbstractStreamWriter

    from grid_member.http.wire.connection import ConnectionProtocol

JSON: Final = "application/json"
TEXT: Final = "text/plain"
ERROR_HEADER: Final = "X-Grid-Error"
MAX_ERROR_HEADER_BYTES: Final = 256
MAX_JOINED_BYTES: Final = 64 << 10
"""Up to this size head and body are joined for one write."""
RETRY_AFTER_S: Final = 1
CARRIED_OUT: Final = 200
"""The status of a call that did what it was asked, or found it done."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer. `content_type` holds the bytes of the header as Latin-1 characters."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    close: bool = False
    on_delivery: Callable[[], None] | None = None
    """Called when the whole response was handed to the kernel."""
    on_loss: Callable[[], None] | None = None
    """Called instead when it was not."""
    until_s: float = math.inf
    """By `steady_s`: from then on it is lost, and `LATE_ANSWER` written instead."""
    repeated: bool = False
    """Given before to the same call, which was not carried out again."""


EMPTY: Final = Answer(200)
NOTHING: Final = Answer(204)


def error(status: int, reason: str, *, close: bool = False, retry: bool = False) -> Answer:
    """Return an empty answer that says why in `X-Grid-Error`."""
    text = "".join(c if " " <= c <= "~" else "?" for c in reason)[:MAX_ERROR_HEADER_BYTES]
    headers: tuple[tuple[str, str], ...] = ((ERROR_HEADER, text),)
    if retry:
        headers = (*headers, ("Retry-After", str(RETRY_AFTER_S)))
    return Answer(status, headers=headers, close=close)


def document(content: object, status: int = 200) -> Answer:
    """Return compact JSON, its keys in the order given."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Answer(status, text.encode(), JSON)


def failure_answer(status: int, message: str) -> Answer:
    """Return the JSON of an expected failure."""
    return document({"status": "fail", "message": message}, status)


def success(**fields: str) -> Answer:
    """Return the JSON of a management call that did what it was asked."""
    return document({"status": "success"} | fields)


def success_then(stop: Callable[[], None]) -> Answer:
    """Return a `success` that closes its connection; stop is called when it is out, or lost."""
    return replace(success(), close=True, on_delivery=stop, on_loss=stop)


def head_bytes(answer: Answer, keep_alive: bool, http_1_0: bool) -> bytes:
    """Return status line and header lines up to and with the empty line."""
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    if answer.content_type is not None:
        lines.append(f"Content-Type: {answer.content_type}")
    lines.append(f"Content-Length: {len(answer.body)}")
    lines += [f"{name}: {value}" for name, value in answer.headers]
    lines.append(f"Date: {rfc822_formatted_time()}")
    if not keep_alive:
        lines.append("Connection: close")
    elif http_1_0:
        lines.append("Connection: keep-alive")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


LATE_ANSWER: Final = error(503, LATE.message, retry=True)


class WireResponse(web.StreamResponse):
    """Hands an Answer to the connection exactly as it is, and tells whether it got through."""

    def __init__(self, answer: Answer, connection: ConnectionProtocol) -> None:
        super().__init__(status=answer.status)
        self._answer = answer
        self._connection = connection
        self._request: web.BaseRequest | None = None

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open after this answer."""
        asked = self._request is None or bool(self._request.keep_alive)
        return asked and not self._answer.close and not self._connection.is_last

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Take the request that is answered; nothing is written yet."""
        self._request = request
        self._connection.answer_count += 1
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Write head and body and wait until the kernel has them.

        Raises:
            ConnectionError: the client is gone.
        """
        if steady_s() >= self._answer.until_s:
            if self._answer.on_loss is not None:
                self._answer.on_loss()
            self._answer = LATE_ANSWER
        answer = self._answer
        try:
            await self._send()
        except BaseException:
            if answer.on_loss is not None:
                answer.on_loss()
            raise
        if answer.on_delivery is not None:
            answer.on_delivery()
        if not self.keep_alive:
            # Closed before that, the connection would be lost, and the item would return.
            await self._connection.wait_settled()
        if self._answer.close or self._connection.is_last:
            await self._connection.linger()

    async def _send(self) -> None:
        request = self._request
        if request is None:
            raise ConnectionResetError("no request to answer")
        answer = self._answer
        self._connection.check_client()
        if self._connection.is_last:
            # Said once it holds, whatever comes meanwhile.
            self._answer = answer = replace(answer, close=True)
        head = head_bytes(answer, self.keep_alive, request.version < HttpVersion11)
        body = b"" if request.method == "HEAD" else answer.body
        pieces = [head + body] if len(body) <= MAX_JOINED_BYTES else [head, body]
        await self._connection.hand_over(pieces)
