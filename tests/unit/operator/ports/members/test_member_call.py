"""Calls to members that do not behave: what may have been done is never taken for refused."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

import pytest

from grid_member.cluster.persistence.recovery import HEALTHY
from grid_member.cluster.persistence.rescue import JUST_STARTED
from grid_member.engine.replication import NOTHING_TO_RESCUE
from grid_operator.decide.calls import CallDone, CallRefused, CallUnknown, Endpoint, MemberCall
from grid_operator.decide.model import MemberProblem
from grid_operator.ports.api import MemberAccess
from grid_operator.ports.members import breaker as breaking
from grid_operator.ports.members.breaker import Breaker
from grid_operator.ports.members.call import call_body, call_outcome, call_timeout_s
from grid_operator.ports.members.client import SILENT, MemberClient
from grid_operator.ports.members.wire import BODY_LIMIT_BYTES
from grid_operator.reconcile.queue import QueueLimits
from tests.unit.operator.ports.members.test_member import (
    POD,
    Serve,
    endless,
    fixed,
    hang,
    http,
    trickle,
)
from tests.unit.serving import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_operator.decide.calls import CallOutcome

PASSWORD = "pass&wörd+that%nobody-may-see"
ACCESS = MemberAccess("operator", PASSWORD)
OK = b'{"status":"success"}'


def call(
    endpoint: Endpoint = Endpoint.BACKUP, parameter: str | None = None, **more: bool
) -> MemberCall:
    return MemberCall(POD, endpoint, "backup-12345678.Begin", parameter, **more)


@asynccontextmanager
async def member(
    serve: Serve, breaker: Breaker | None = None
) -> AsyncIterator[tuple[MemberClient, list[bytes]]]:
    received: list[bytes] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            length = next(lengths, 0)
            received.append(head + await reader.readexactly(length))
            await serve(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async with (
        listening(connected) as port,
        MemberClient(port, 0.3, timeout_s=lambda _: 0.3, breaker=breaker) as client,
    ):
        yield client, received


async def send(client: MemberClient, told: MemberCall | None = None) -> CallOutcome | None:
    return await client.call(told or call(), ACCESS, lambda: True)


async def test_a_call_has_basic_credentials_the_key_and_two_empty_parts() -> None:
    async with member(fixed(http(OK))) as (client, received):
        done = await send(client, call(Endpoint.CHANGE_STATE, "passive"))
    assert done == CallDone()
    head, _, body = received[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /grid/rest/management/cluster/changeState HTTP/1.1"
    assert b"Idempotency-Key: backup-12345678.Begin" in lines
    assert any(line.startswith(b"Authorization: Basic ") for line in lines)
    assert body == b"&&passive"


@pytest.mark.parametrize(
    "parameter",
    ["", "a&b&&c", "100% + 1", "é—\U0001f600", "grid:\n  map:\n    m: {a: '%2B+'}\n", "\t\x00&%"],
)
def test_a_parameter_arrives_as_it_is(parameter: str) -> None:
    body = call_body(call(Endpoint.CONFIG_UPLOAD, parameter)).decode()
    user, password, sent = body.split("&", 2)
    assert (user, password) == ("", "")
    assert unquote_plus(sent, errors="strict") == parameter


def test_a_call_without_a_parameter_has_only_the_empty_parts() -> None:
    assert call_body(call()) == b"&"


@pytest.mark.parametrize(
    ("header", "operation"),
    [
        ("5f2c1a", "5f2c1a"),
        ("", ""),
        ("a" * 64, "a" * 64),
        ("a" * 65, ""),
        ("a b", ""),
        ("ä", ""),
    ],
)
def test_the_id_of_a_long_operation_is_taken_from_the_header(header: str, operation: str) -> None:
    headers = {"X-Grid-Operation": header} if header else {}
    assert call_outcome(call(), 200, headers, OK) == CallDone(operation)


def test_the_state_that_the_member_has_already_is_done_and_another_is_not() -> None:
    told = call(Endpoint.CHANGE_STATE, "passive")
    same, other = (f'{{"status":"fail","state":"{s}"}}'.encode() for s in ("passive", "active"))
    assert call_outcome(told, 200, {}, same) == CallDone()
    assert isinstance(call_outcome(told, 200, {}, other), CallRefused)
    assert isinstance(call_outcome(call(), 200, {}, same), CallRefused)


FAILED = b'{"status":"fail","message":"a backup is running already"}'


@pytest.mark.parametrize("endpoint", [Endpoint.FORCE_START, Endpoint.PARTIAL_START])
@pytest.mark.parametrize(
    ("said", "again"),
    [
        (JUST_STARTED, True),
        ("the data is being loaded: it cannot be told yet, ask again in 5 s", True),
        ("the nats-server is not there yet, nothing was done: it is starting; ask again", True),
        (NOTHING_TO_RESCUE, False),
        (HEALTHY, False),
        ("the members that are lost could not be taken off in time: ask again in 5 s", True),
    ],
)
def test_a_start_that_is_refused_for_a_moment_is_asked_for_again(
    endpoint: Endpoint, said: str, again: bool
) -> None:
    """No key remembers such an answer; one of the others is remembered, or stays so."""
    answer = json.dumps({"status": "fail", "message": said}).encode()
    wanted: CallOutcome = CallUnknown(said) if again else CallRefused(said)
    assert call_outcome(call(endpoint), 200, {}, answer) == wanted
    assert isinstance(call_outcome(call(), 200, {}, answer), CallRefused)


@pytest.mark.parametrize(
    ("serve", "kind", "words"),
    [
        pytest.param(fixed(http(FAILED)), CallRefused, "running already", id="200 fail"),
        pytest.param(fixed(http(FAILED, "409 No")), CallRefused, "409: a backup is", id="409"),
        pytest.param(fixed(http(b"", "400 No")), CallRefused, "answered 400", id="400"),
        pytest.param(fixed(http(b"", "401 No")), CallRefused, "credentials", id="401"),
        pytest.param(fixed(http(b"", "404 No")), CallRefused, "answered 404", id="404"),
        pytest.param(fixed(http(OK, "201 Made")), CallUnknown, "answered 201", id="201"),
        pytest.param(fixed(http(OK, "302 Found")), CallUnknown, "answered 302", id="redirect"),
        pytest.param(fixed(http(OK, "500 Oops")), CallUnknown, "answered 500", id="500"),
        pytest.param(fixed(http(OK, "503 Later")), CallUnknown, "answered 503", id="503"),
        pytest.param(hang, CallUnknown, "no complete answer", id="hangs"),
        pytest.param(trickle, CallUnknown, "no complete answer", id="trickles"),
        pytest.param(endless, CallUnknown, "more than", id="endless"),
        pytest.param(fixed(http(OK, length=400)), CallUnknown, "broke off", id="truncated"),
        pytest.param(
            fixed(http(FAILED, "409 No", length=400)), CallUnknown, "broke off", id="truncated 409"
        ),
        pytest.param(fixed(b""), CallUnknown, "broke off", id="closed at once"),
        pytest.param(fixed(b"SSH-2.0-OpenSSH\r\n\r\n"), CallUnknown, "broke off", id="not HTTP"),
        pytest.param(fixed(http(b"<html>")), CallUnknown, "without a status", id="HTML"),
        pytest.param(fixed(http(b"[" * 100_000)), CallUnknown, "without a status", id="nested"),
        pytest.param(fixed(http(b'["success"]')), CallUnknown, "without a status", id="a list"),
        pytest.param(fixed(http(b'{"status":true}')), CallUnknown, "without", id="wrong type"),
        pytest.param(fixed(http(b"")), CallUnknown, "without a status", id="empty"),
    ],
)
async def test_only_a_clear_answer_is_more_than_unknown(
    serve: Serve, kind: type, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with member(serve) as (client, received), asyncio.timeout(5):
        outcome = await send(client)
    assert isinstance(outcome, CallRefused | CallUnknown)
    assert type(outcome) is kind
    assert words in outcome.message
    assert len(received) == 1, "a call is never repeated by the client itself"
    assert PASSWORD not in str(outcome) + caplog.text


async def test_nobody_there_is_unknown() -> None:
    async with MemberClient(1) as client:
        outcome = await send(client)
    assert isinstance(outcome, CallUnknown)
    assert "cannot be reached" in outcome.message


async def test_what_a_member_repeats_of_secrets_is_masked() -> None:
    license_text = "license-that-nobody-may-see"
    text = json.dumps({"status": "fail", "message": f"{PASSWORD} {license_text}\n\x1b[31m" * 99})
    async with member(fixed(http(text.encode(), "400 No"))) as (client, _):
        outcome = await send(client, call(Endpoint.LICENSE, license_text))
    assert isinstance(outcome, CallRefused)
    assert PASSWORD not in outcome.message
    assert license_text not in outcome.message
    assert outcome.message.isprintable()
    assert len(outcome.message) < 1024


@pytest.mark.parametrize(
    "license_text",
    [
        pytest.param("a-license-" + "0123456789abcdef" * 99, id="longer than a message"),
        pytest.param("-----BEGIN-----\nbody-of-it\n-----END-----", id="of several lines"),
    ],
)
async def test_no_part_of_a_license_is_repeated(license_text: str) -> None:
    document = {"status": "fail", "message": f"not a license: {license_text}"}
    async with member(fixed(http(json.dumps(document).encode(), "400 No"))) as (client, _):
        outcome = await send(client, call(Endpoint.LICENSE, license_text))
    assert outcome == CallRefused("answered 400: not a license: ***")


async def test_a_call_that_may_not_be_sent_sends_no_byte() -> None:
    async with member(fixed(http(OK))) as (client, received):
        assert await client.call(call(), ACCESS, lambda: False) is None
        await asyncio.sleep(0)
        assert received == []
        assert await send(client) == CallDone()
    assert len(received) == 1


async def test_the_last_look_is_taken_when_the_connection_is_there() -> None:
    looks: list[int] = []
    connections: list[int] = []

    def may_send() -> bool:
        looks.append(len(connections))
        return True

    async def serve(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(OK))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.readuntil(b"\r\n\r\n")
        await serve(b"", writer)
        writer.close()

    async with listening(connected) as port, MemberClient(port) as client:
        assert await client.call(call(), ACCESS, may_send) == CallDone()
    assert len(looks) == 1


async def test_a_hung_member_is_asked_only_once_in_a_while() -> None:
    clock = [0.0]
    breaker = Breaker(lambda: clock[0], random.Random(1))
    async with member(hang, breaker) as (client, received):
        for _ in range(breaking.TRIPPED_AFTER):
            outcome = await send(client)
            assert outcome != CallUnknown(SILENT)
        assert await send(client) == CallUnknown(SILENT)
        assert await client.fetch_view(POD, ACCESS) == MemberProblem(SILENT)
        assert len(received) == breaking.TRIPPED_AFTER
        clock[0] += breaking.PAUSE_FIRST_S
        assert await send(client) != CallUnknown(SILENT)
        assert len(received) == breaking.TRIPPED_AFTER + 1


async def test_what_is_said_of_a_hung_member_does_not_change_with_every_attempt() -> None:
    clock = [0.0]
    breaker = Breaker(lambda: clock[0], random.Random(1))
    said = []
    async with member(hang, breaker) as (client, _):
        for _ in range(breaking.TRIPPED_AFTER + 2):
            said.append(await client.fetch_view(POD, ACCESS))
            clock[0] += breaking.PAUSE_MAX_S
    first, later = said[: breaking.TRIPPED_AFTER - 1], said[breaking.TRIPPED_AFTER - 1 :]
    assert first == [first[0]] * len(first)
    assert first[0] != MemberProblem(SILENT)
    assert later == [MemberProblem(SILENT)] * 3


def test_the_largest_answer_is_no_danger() -> None:
    assert BODY_LIMIT_BYTES <= 1 << 20


@pytest.mark.parametrize(("status", "conflict"), [(400, False), (404, False), (409, True)])
def test_a_refusal_says_whether_something_else_was_in_the_way(status: int, conflict: bool) -> None:
    outcome = call_outcome(call(), status, {}, FAILED)

    assert isinstance(outcome, CallRefused)
    assert outcome.conflict is conflict


@pytest.mark.parametrize("endpoint", Endpoint)
def test_a_call_has_the_time_of_members_that_wait_for_each_other_and_less_than_a_run(
    endpoint: Endpoint,
) -> None:
    election_s, lost_member_s = 10, 12
    # The intent is written, and the outcome, in the same run.
    assert election_s + lost_member_s < call_timeout_s(endpoint) < QueueLimits().run_deadline_s - 10


@pytest.mark.parametrize("forever", [True, False])
async def test_only_who_is_not_to_come_back_is_told_to_leave_for_good(forever: bool) -> None:
    wanted = call(Endpoint.MEMBER_SHUTDOWN, forever=forever)
    head = b"HTTP/1.1 200 OK\r\nX-Grid-Operation: leaves-1\r\n"

    async with member(fixed(head + b"Content-Length: 20\r\n\r\n" + OK)) as (client, received):
        outcome = await client.call(wanted, ACCESS, lambda: True)

    assert outcome == CallDone("leaves-1")
    (request,) = received
    assert (b"\r\nX-Grid-Leave: forever\r\n" in request) is forever
