"""A relay that counts what it passes on."""

from __future__ import annotations

import socket

from bench.load.relay import relaying
from bench.processes import HOST, ask, free_port
from bench.servers.bare import bare
from bench.servers.members import get_request

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


def test_bytes_of_both_directions_are_counted() -> None:
    request = get_request("1")
    with bare(ANSWER) as server, relaying(server.port) as relay:
        for times in (1, 2):
            assert ask(relay.port, request) == ANSWER
            assert relay.passed_bytes == times * (len(request) + len(ANSWER))


def test_without_a_target_connections_end() -> None:
    with (
        relaying(free_port()) as relay,
        socket.create_connection((HOST, relay.port), 10) as connection,
    ):
        assert connection.recv(1) == b""
    assert relay.passed_bytes == 0
