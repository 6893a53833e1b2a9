"""The bare servers, and what fills a member: against real processes."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from bench.load.fill import empty_map, fill_map, fill_queue
from bench.processes import HOST, BenchError, answer_is_whole, ask, cpu_time, rss_bytes
from bench.servers.bare import bare
from bench.servers.members import get_request, joined, member, post_request, queue_size

if TYPE_CHECKING:
    from collections.abc import Generator

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


def test_the_constant_server_gives_the_answer_it_was_given() -> None:
    with bare(ANSWER, processes=2) as server:
        assert ask(server.port, get_request("1")) == ANSWER
        assert len(server.pids) == 2
        assert rss_bytes(server.pids) > rss_bytes(server.pids[:1])
        assert cpu_time(server.pids).user_s >= 0


def test_the_drainer_answers_when_the_body_is_complete() -> None:
    body = b"v" * 300_000
    request = post_request("1", body)
    with (
        bare(ANSWER, body_bytes=len(body)) as server,
        socket.create_connection((HOST, server.port), 10) as connection,
    ):
        for _ in range(2):
            connection.sendall(request[:-1])
            connection.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(10)
            connection.sendall(request[-1:])
            assert connection.recv(1000) == ANSWER


def test_a_member_is_filled_and_counted() -> None:
    with member() as server:
        assert fill_map(server.port, 5, 1000, 22) == 1000
        answer = ask(server.port, get_request("1004"))
        assert answer.endswith(b"\r\n\r\n" + b"%022d" % 1004)
        assert ask(server.port, get_request("1005")).startswith(b"HTTP/1.1 204")
        assert empty_map(server.port, 1000, 5) == 5
        assert ask(server.port, get_request("1004")).startswith(b"HTTP/1.1 204")
        assert fill_queue(server.port, 700, 22) == 700
        assert queue_size(server.port) == 700


def test_filling_stops_in_time() -> None:
    with member() as server:
        assert fill_map(server.port, 0, 1000, 22, until=0.0) == 0


def test_a_configuration_is_joined_with_more() -> None:
    tree = {"map": {"default": {}}, "realms": [1], "name": "a"}
    more = {"map": {"bench": {"copies": 2}}, "realms": [2], "name": "b", "more": True}
    assert joined(tree, more) == {
        "map": {"default": {}, "bench": {"copies": 2}},
        "realms": [1, 2],
        "name": "b",
        "more": True,
    }


@pytest.fixture
def refusing() -> Generator[int]:
    """A server whose second answer is no success, in pieces that split its status line."""
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.")
                connection.sendall(b"1 503 No\r\nContent-Length: 0\r\n\r\n")
                connection.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_filling_says_when_something_was_not_taken(refusing: int) -> None:
    with pytest.raises(BenchError, match="did not take"):
        fill_map(refusing, 0, 2, 22)


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (b"HTTP/1.1 204 No Content\r\n", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (ANSWER[:-1], False),
        (ANSWER, True),
    ],
)
def test_an_answer_is_whole_with_its_last_byte(answer: bytes, whole: bool) -> None:
    assert answer_is_whole(bytearray(answer)) is whole
