"""Promise: a hello is read as it was written; what is none is an error that names the field."""

from __future__ import annotations

import json
from typing import Final

import pytest

from grid_member.wan.hello import (
    MAX_HELLO_BYTES,
    Began,
    Hello,
    HelloError,
    TargetLimits,
    Welcome,
    read_hello,
    read_welcome,
    sealed_welcome,
    write_hello,
    write_welcome,
)

HELLO: Final = Hello(
    protocols=(1, 2),
    cluster_name="tokyo",
    cluster_id=bytes(range(16)),
    target_name="london",
    replication="london-rep",
    publisher="london",
    member="6ff1c6b4-7b3c-4f0c-9d56-000000000000",
    version="0.2.0",
    began=Began.WENT_ON,
)
WELCOME: Final = Welcome(
    protocol=1,
    cluster_name="london",
    cluster_id=bytes(range(16, 32)),
    member="7ff1c6b4-7b3c-4f0c-9d56-000000000000",
    version="0.2.1",
    limits=TargetLimits(8192, 8 << 20, 16 << 20),
    published_back=("orders", "größe-*"),
)


def test_both_are_read_as_they_were_written() -> None:
    assert read_hello(write_hello(HELLO)) == HELLO
    assert read_welcome(write_welcome(WELCOME)) == WELCOME


def test_what_a_later_version_adds_is_ignored() -> None:
    later = json.loads(write_hello(HELLO)) | {"more": {"of": "it"}}
    assert read_hello(json.dumps(later).encode()) == HELLO


WRONG: Final[list[tuple[str, object]]] = [
    ("protocols", None),
    ("protocols", [1, "2"]),
    ("protocols", [True]),
    ("protocols", [1] * 2000),
    ("clusterName", 5),
    ("clusterName", "\ud800"),
    ("clusterId", "00"),
    ("clusterId", "z" * 32),
    ("began", "LATELY"),
    ("ends", "no"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_field_is_named(name: str, value: object) -> None:
    content = json.loads(write_hello(HELLO)) | {name: value}
    with pytest.raises(HelloError, match=name):
        read_hello(json.dumps(content).encode())
    del content[name]
    with pytest.raises(HelloError, match=name):
        read_hello(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"\xff", b"[" * 60_000, b"{", b'"'])
def test_what_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(HelloError):
        read_hello(data)
    with pytest.raises(HelloError):
        read_welcome(data)
    with pytest.raises(HelloError):
        read_welcome(sealed_welcome(data))


def test_a_welcome_that_was_spoiled_is_none() -> None:
    data = write_welcome(WELCOME)
    for place in range(len(data)):
        for bit in range(8):
            spoiled = data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :]
            with pytest.raises(HelloError, match="checksum"):
                read_welcome(spoiled)
    for cut in range(len(data)):
        with pytest.raises(HelloError):
            read_welcome(data[:cut])


def test_it_has_a_limit() -> None:
    content = json.loads(write_hello(HELLO)) | {"more": "x" * MAX_HELLO_BYTES}
    with pytest.raises(HelloError, match="too long"):
        read_hello(json.dumps(content).encode())


@pytest.mark.parametrize("limits", [None, [], {"keyBytes": 1, "valueBytes": -1, "batchBytes": 1}])
def test_a_welcome_has_limits(limits: object) -> None:
    content = json.loads(write_welcome(WELCOME)) | {"limits": limits}
    with pytest.raises(HelloError, match=r"limits|valueBytes"):
        read_welcome(sealed_welcome(json.dumps(content).encode()))
