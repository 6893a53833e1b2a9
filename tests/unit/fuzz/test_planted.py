"""Promise: the targets see what they are there for. Each fault is planted and must be seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.config import validate
from grid_member.http.fastpath import answers, connection, context, plain
from grid_member.http.routes import calls
from grid_member.http.wire import paths
from tests.fuzz.drive import drive
from tests.fuzz.jobs import MAX_GROWN_OBJECTS
from tests.fuzz.target import FindingError, seeds
from tests.fuzz.targets import target

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

HOST: Final = b" HTTP/1.1\r\nHost: a\r\n"
PUT: Final = b"PUT /grid/rest/maps/m/k" + HOST
GET: Final = b"GET /grid/rest/maps/m/k" + HOST


def found(name: str, data: bytes) -> str:
    """Return what a target finds in an input; it must find something."""
    with pytest.raises((FindingError, ValueError)) as caught:
        target(name).run(data)
    return str(caught.value)


def undecoded(part: bytes, limit_bytes: int) -> str | None:
    return part.decode() if plain._PART.fullmatch(part) and len(part) <= limit_bytes else None


def landed_and_kept(self: Any, landing: Callable[[Any], None]) -> None:
    for item in self._items:
        landing(item)


RECOGNISING: Final = [
    ("_NOT_PLAIN", frozenset({b"expect"}), PUT + b"Transfer-Encoding: chunked\r\n\r\n"),
    ("_LENGTH", re.compile(rb"[+0-9]*[0-9]"), PUT + b"Content-Length: +1\r\n\r\na"),
    (
        "_HEADER",
        re.compile(rb"([A-Za-z-]+) ?: ?([!-~](?:[ -~]*[!-~])?)"),
        PUT + b"Content-Length : 1\r\n\r\na",
    ),
    ("_KEEP_ALIVE", b"close", GET + b"Connection: close\r\n\r\n"),
    ("_decode", undecoded, b"GET /grid/rest/maps/%6D/k" + HOST + b"\r\n"),
    ("_VERSION", b" HTTP/1.0", GET.replace(b"1.1", b"1.0") + b"\r\n"),
]


@pytest.mark.parametrize(("part", "fault", "data"), RECOGNISING, ids=[r[0] for r in RECOGNISING])
def test_the_fast_path_takes_what_aiohttp_understands_otherwise(
    part: str, fault: object, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    target("fast-path").run(data)
    monkeypatch.setattr(plain, part, fault)
    assert re.search("aiohttp|Host|keep its connection|chunked", found("fast-path", data))


CONNECTION: Final = [
    (connection.FastPathConnection, "_must_wait", lambda *_: False, b"\xffd\xffW\xffJ\xffc"),
    (answers.FastPathAnswers, "_hand_items", landed_and_kept, b"\xffD\xffG\xffD\xffx"),
    (answers.FastPathAnswers, "_hand_items", lambda self, _: self._items.clear(), b"\xffD"),
    (
        connection.FastPathConnection,
        "_take_body",
        lambda _: b"",
        PUT + b"Content-Length: 9\r\n\r\na",
    ),
    (context.FastPathContext, "peek", lambda *_: b"HTTP/1.1 200 OK\r\n\r\n", b"\xffG"),
    (context.FastPathContext, "peek", lambda *_: b"", b"\xffG"),
]


@pytest.mark.parametrize(("owner", "part", "fault", "data"), CONNECTION)
def test_the_fast_path_forgets_or_confuses_something(
    owner: type, part: str, fault: object, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    target("fast-path").run(data)
    monkeypatch.setattr(owner, part, fault)
    assert found("fast-path", data)


def test_the_fast_path_keeps_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    made = connection.FastPathConnection.connection_made

    def made_and_kept(
        self: connection.FastPathConnection, transport: asyncio.BaseTransport
    ) -> None:
        kept.append(self)
        made(self, transport)

    chosen = target("fast-path")
    monkeypatch.setattr(connection.FastPathConnection, "connection_made", made_and_kept)
    figures = drive(chosen, seeds(chosen), 1, 500)
    assert figures.end.objects - figures.begin.objects > MAX_GROWN_OBJECTS


def test_an_escape_is_decoded_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "decode", lambda text: text.replace("+", " "))
    assert "parameters" in found("parameters", b"\0%41")


def test_a_slash_is_decoded_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    split = paths.split_target
    monkeypatch.setattr(
        "tests.fuzz.parameters_target.split_target", lambda t: split(t.replace("%2F", "/"))
    )
    assert "path" in found("path", b"/a%2Fb")


NUMBERS: Final = {
    "yaml": b"grid: {limits: {value-bytes: a}}",
    "xml": b"<grid xmlns='urn:grid:config:1'><limits><value-bytes>a</value-bytes></limits></grid>",
    "python": b'{"limits": {"value-bytes": "a"}}',
    "overrides": b"GRID_MEMBER_LIMITS_VALUEBYTES=a",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_not_checked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "INTEGER", re.compile(r"[-+0-9a-z]{1,19}"))
    assert "invalid literal" in found(name, NUMBERS[name])


def test_a_message_shows_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "_choose", lambda text, _: validate._InvalidValue(f"is {text}"))
    for name, data in (
        ("yaml", b"grid: {logging: {level: '${SECRET}'}}"),
        ("overrides", b"GRID_MEMBER_LOGGING_LEVEL=@SECRET@"),
    ):
        assert found(name, data) == "a message shows the value of a variable"
