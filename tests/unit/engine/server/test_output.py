from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.server.output import APART_S, SERVERLESS_S, ServerLog, explanation
from tests.unit.engine.server.servers import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBER = settings(5703)


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> ServerLog:
    caplog.set_level(logging.DEBUG, "grid.engine.nats")
    return ServerLog(logging.getLogger("grid.engine.nats"), ["s3cret"])


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage()) for each in caplog.records]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_in_any_pieces_go_to_the_log_at_their_level(
    heard: ServerLog, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    text = (
        b"[12] [INF] Starting\n\n[12] [WRN] careful\n[12] [ERR] bad \xff\n[12] [FTL] worse\n"
        b"nats.conf:3:1: unknown\n[12] [INF] the end"
    )
    for start in range(0, len(text), size):
        heard.feed(text[start : start + size], 0.0)
    heard.feed(b"", 0.0)
    assert told(caplog) == [
        ("DEBUG", "nats-server: Starting"),
        ("WARNING", "nats-server: careful"),
        ("ERROR", "nats-server: bad �"),
        ("ERROR", "nats-server: worse"),
        ("WARNING", "nats-server: nats.conf:3:1: unknown"),
        ("DEBUG", "nats-server: the end"),
    ]
    assert heard.disk_alarms == ["careful", "bad �", "worse", "nats.conf:3:1: unknown"]


def test_a_secret_never_gets_into_the_log(
    heard: ServerLog, caplog: pytest.LogCaptureFixture
) -> None:
    heard.feed(b"[1] [ERR] nats://grid:s3cret@host s3cret\n", 0.0)
    assert told(caplog) == [("ERROR", "nats-server: nats://grid:***@host ***")]
    assert "s3cret" not in "".join(heard.last)


def test_a_complaint_is_told_once_a_minute(
    heard: ServerLog, caplog: pytest.LogCaptureFixture
) -> None:
    for now in (0.0, 1.0, 59.0, 61.0):
        heard.feed(b"[1] [ERR] 10.0.0.%d:%d - rid:7 refused\n" % (now, now), now)
    assert [level for level, _ in told(caplog)] == ["ERROR", "DEBUG", "DEBUG", "ERROR"]


def test_each_member_that_is_missing_is_told(
    heard: ServerLog, caplog: pytest.LogCaptureFixture
) -> None:
    for attempt, member in enumerate((0, 1, 1)):
        line = f"Error trying to connect to route (attempt {attempt}): dial tcp m-{member}:5703"
        heard.feed(f"[1] [ERR] {line}\n".encode(), 0.0)
    assert [level for level, _ in told(caplog)] == ["WARNING", "WARNING", "DEBUG"]


def test_what_is_meant_to_be_so_is_no_warning(
    heard: ServerLog, caplog: pytest.LogCaptureFixture
) -> None:
    heard.feed(b"[1] [WRN] Plaintext passwords detected, use nkeys or bcrypt\n", 0.0)
    heard.feed(b"[1] [ERR] Error trying to connect to route (attempt 1): refused\n", 0.0)
    assert [level for level, _ in told(caplog)] == ["DEBUG", "WARNING"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("10.0.0.1:5704 - rid:9 - Route Error 'Authorization Violation'", "(cluster-name, the"),
        ('10.0.0.1:59 - rid:9 - authentication error - User "grid"', "(cluster-name, the identity"),
        ("10.0.0.1:59 - rid:9 - TLS route handshake error: tls: failed to verify certificate: x509",
         "(each member needs a certificate"),
        ("10.0.0.1:59 - rid:9 - TLS route handshake error: remote error: tls: bad certificate",
         "(each member needs a certificate"),
        ("10.0.0.1:59 - rid:9 - TLS route handshake error: tls: failed to verify certificate: x509:"
         " certificate has expired or is not yet valid: current time", "(a certificate of one of"),
        ("10.0.0.1:59 - rid:9 - TLS route handshake error: remote error: tls: expired certificate",
         "(a certificate of one of them, or of its authority, has expired"),
    ],
)  # fmt: skip
def test_why_servers_do_not_take_each_other_is_told_with_what_to_do(
    heard: ServerLog, caplog: pytest.LogCaptureFixture, line: str, what: str
) -> None:
    heard.feed(f"[1] [ERR] {line}\n".encode(), 0.0)
    ((level, text),) = told(caplog)
    assert level == "ERROR"
    assert text.startswith(f"nats-server: {line} {what}")
    # Whoever knocks has nothing to do with what ends a server later.
    assert explanation(heard.disk_alarms, MEMBER) is None


NOT_TAKEN = b"[1] [ERR] %s:%d - rid:9 - Route Error 'Authorization Violation'\n"


def tries(heard: ServerLog, host: bytes, times: Iterable[float]) -> None:
    """Let the server say of a host, at each time and of another port, that it was not taken."""
    for number, now in enumerate(times):
        heard.feed(NOT_TAKEN % (host, 5704 + number), now)


def test_why_others_do_not_take_this_member_is_known_while_it_is_so(heard: ServerLog) -> None:
    assert heard.apart(0.0) is None
    tries(heard, b"10.0.0.1", (3.0, 4.0, 5.0))
    heard.feed(b"[1] [ERR] 10.0.0.1:5704 - rid:9 - Router connection closed\n", 6.0)
    assert "one at 10.0.0.1 do not take each other: cluster-name, the" in str(heard.apart(6.0))
    assert heard.apart(5.0 + APART_S) is None
    tries(heard, b"10.0.0.1", (50.0, 51.0, 52.0))
    assert heard.apart(52.0) is not None
    heard.begin()
    assert heard.apart(52.0) is None
    tries(heard, b"10.0.0.1", (53.0,))
    assert heard.apart(53.0) is None


TLS = b"[1] [ERR] 10.0.0.1:59 - rid:9 - TLS route handshake error: %b\n"


def test_of_two_that_refuse_each_others_certificates_the_one_counts_that_says_why(
    heard: ServerLog,
) -> None:
    for number in range(4):
        heard.feed(TLS % b"x509: certificate has expired or is not yet valid", number)
        heard.feed(TLS % b"remote error: tls: bad certificate", number)
    assert "each other: a certificate of one of them" in str(heard.apart(3.0))
    for number in range(4, 20):
        heard.feed(TLS % b"remote error: tls: bad certificate", number)
    assert "each other: each member needs a certificate" in str(heard.apart(19.0))


def test_who_knocks_once_is_not_taken_for_a_member(heard: ServerLog) -> None:
    tries(heard, b"10.9.9.9", (1.0, 1.0, 1.5))
    tries(heard, b"10.9.9.9", (6.0, 11.0, 16.0))  # a monitor, now and then
    assert heard.apart(16.0) is None
    times = [20.0 + number for number in range(4)]
    tries(heard, b"10.0.0.1", times)
    tries(heard, b"10.9.9.9", (23.0,))
    assert "one at 10.0.0.1 do not" in str(heard.apart(23.0))


NO_TLS = (
    b"[1] [ERR] %s - rid:%d - TLS route handshake error: tls: "
    b"first record does not look like a TLS handshake\n"
)


def test_a_member_that_has_no_server_yet_is_not_taken_for_one_without_tls(
    heard: ServerLog, caplog: pytest.LogCaptureFixture
) -> None:
    times = [*range(int(SERVERLESS_S)), SERVERLESS_S + 40]  # it starts, and much later again
    for number, now in enumerate(times):
        for member in (b"10.0.0.1:5704", b"10.0.0.2:5704"):
            heard.feed(NO_TLS % (member, number), float(now) + (10.0 if b"2" in member else 0.0))
    assert {level for level, _ in told(caplog)} == {"DEBUG"}
    assert heard.apart(times[-1]) is None
    assert heard.disk_alarms == []


@pytest.mark.parametrize("ports", [0, 1], ids=["is connected to", "connects"])
def test_a_member_without_tls_is_told_when_it_stays_so(
    heard: ServerLog, caplog: pytest.LogCaptureFixture, ports: int
) -> None:
    for second in range(int(SERVERLESS_S) + 3):
        address = b"10.0.0.1:%d" % (5704 + ports * second)
        heard.feed(NO_TLS % (address, second), float(second))
    (error,) = [text for level, text in told(caplog) if level == "ERROR"]
    assert "(network.cluster.ssl has to be enabled on all members or on none)" in error
    assert "network.cluster.ssl" in str(heard.apart(SERVERLESS_S))


@pytest.mark.parametrize(
    "line",
    [
        "10.0.0.1:59 - rid:8 - Router parser ERROR, state=0, i=0: proto='\"GRID 37f6\"...'",
        "10.0.0.1:59 - rid:8 - TLS route handshake error: EOF",
        "10.0.0.1:59 - rid:8 - Error flushing: write tcp 10.0.0.2:1->:59: write: broken pipe",
    ],
)
def test_a_member_that_looks_who_is_there_or_leaves_is_no_warning(
    heard: ServerLog, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    heard.feed(f"[1] [ERR] {line}\n".encode(), 0.0)
    assert [level for level, _ in told(caplog)] == ["DEBUG"]


def test_endless_lines_and_many_lines_take_no_memory(heard: ServerLog) -> None:
    for number in range(100):
        heard.feed(b"x" * 5000, 0.0)
        heard.feed(b"\n[1] [WRN] %s\n" % chr(65 + number % 26).encode() * number, 0.0)
    assert len(heard.last) == len(heard.disk_alarms) == 20
    assert max(map(len, heard.last)) <= 2000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Error listening on router port: 5703 - listen tcp 127.0.0.1:5703: bind: "
         "address already in use", "the members' port 127.0.0.1:5703 is taken: stop"),
        ("listen tcp 127.0.0.1:5803: bind: address already in use",
         "where the list has REST ports, give it another REST port instead, there too"),
        ("listen tcp 10.9.9.9:5703: bind: cannot assign requested address", "interfaces"),
        ("Can't start JetStream: mkdir /d: no space left on device", "disk of /d is full: make"),
        ("JetStream out of space, will be DISABLED", "disk of /d is full: make room"),
        ("listen tcp 127.0.0.1:80: bind: permission denied", "use a port above 1023"),
        ("Can't start JetStream: mkdir /d/x: permission denied", "may not use /d: let"),
        ("Can't start JetStream: raft: snapshot corrupt", "data in /d is damaged: empty it"),
        ("nats-server: /t/nats.conf:3:1: error parsing X509 certificate/key pair: open /x: no such",
         "TLS cannot be used (error parsing X509 certificate/key pair: open /x: no such): correct"),
    ],
)  # fmt: skip
def test_what_ends_a_server_is_explained(line: str, expected: str) -> None:
    why = explanation([line], replace(MEMBER, directory=Path("/d")))
    assert why is not None
    assert expected in why


def test_what_is_unknown_is_not_explained() -> None:
    assert explanation(["something new"], MEMBER) is None


def test_a_server_that_stores_nothing_any_more_is_crippled_until_the_next(heard: ServerLog) -> None:
    heard.feed(b"[1] [ERR] JetStream out of space, will be DISABLED\n", 0.0)
    assert heard.crippled
    heard.begin()
    assert not heard.crippled
