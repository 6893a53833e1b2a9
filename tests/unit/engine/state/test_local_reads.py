"""The reads of a map that wait to be logged."""

from __future__ import annotations

import pytest

from grid_member.engine.state import local_reads as limits
from grid_member.engine.state.local_reads import LocalReads
from grid_member.engine.state.operations import Access


def test_reads_come_in_the_order_of_each_keys_last() -> None:
    heard = LocalReads()
    for number, key in enumerate("abca"):
        heard.collect(key, number, 1)
    assert heard.take() == (Access("b", 1, 1), Access("c", 2, 1), Access("a", 3, 2))
    assert heard.take() == ()


def test_what_is_put_back_stands_before_what_came_later() -> None:
    heard = LocalReads()
    for key in "abc":
        heard.collect(key, 1, 1)
    refused = heard.take()
    for key in "dba":
        heard.collect(key, 2, 1)
    heard.put_back(refused)
    assert heard.take() == (Access("c", 1, 1), Access("d", 2, 1), Access("b", 2, 2),
                            Access("a", 2, 2))  # fmt: skip


def test_a_forgotten_key_is_told_to_nobody() -> None:
    heard = LocalReads()
    for key in ("gone", "there"):
        assert heard.read(key, 5) == 0
        heard.collect(key, 5, 1)
    heard.forget("gone")
    heard.forget("unknown")
    assert (heard.read_ms("gone"), heard.read_ms("there")) == (0, 5)
    assert [access.key for access in heard.take()] == ["there"]
    assert heard.read("there", 9) == 5


def is_full(heard: LocalReads) -> bool:
    return heard.full


@pytest.mark.parametrize(("limit", "value"), [("READS", 3), ("CHARACTERS", 6)])
def test_only_so_many_reads_wait(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(limits, f"MAX_PENDING_{limit}", value)
    heard = LocalReads()
    for key in ("k1", "k2", "k3"):
        assert not is_full(heard)
        heard.collect(key, 1, 1)
    assert is_full(heard)
    heard.collect("k2", 2, 1)
    heard.collect("k4", 3, 1)
    assert [access.key for access in heard.take()] == ["k3", "k2", "k4"]
    assert not is_full(heard)
    for key in ("k1", "k2"):
        heard.collect(key, 4, 1)
    heard.put_back([Access(key, 3, 1) for key in ("k5", "k6", "k2")])
    assert heard.take() == (Access("k6", 3, 1), Access("k1", 4, 1), Access("k2", 4, 2))
    for key in ("k1", "k2", "k3"):
        heard.collect(key, 1, 1)
    for key in ("k1", "k2", "k3"):
        heard.forget(key)
    assert not is_full(heard)
    assert heard.take() == ()
