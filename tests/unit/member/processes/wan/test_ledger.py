"""Promise: the ledger tells what is lost, diverged or resurrected, and nothing else."""

from __future__ import annotations

from tests.unit.member.processes.wan.ledger import Ledger

KEY = "k"


def written(ledger: Ledger, site: str, *, seen: str | None = None, removes: bool = False) -> str:
    write = ledger.begin(site, KEY, removes=removes)
    ledger.answer(KEY, write, seen)
    return str(write.value)


def kinds(ledger: Ledger, here: str | None, there: str | None) -> set[str]:
    return {one.split(":")[0] for one in ledger.problems({KEY: here}, {KEY: there})}


def test_the_last_answered_write_of_either_cluster_is_right() -> None:
    for chosen in (0, 1):
        ledger = Ledger()
        values = written(ledger, "tokyo"), written(ledger, "london")
        assert kinds(ledger, values[chosen], values[chosen]) == set()


def test_an_older_write_is_lost() -> None:
    ledger = Ledger()
    first, _ = written(ledger, "tokyo"), written(ledger, "tokyo")
    assert kinds(ledger, first, first) == {"lost"}


def test_what_was_seen_before_is_older() -> None:
    for chosen, expected in ((0, {"lost"}), (1, set[str]())):
        ledger = Ledger()
        first = written(ledger, "tokyo")
        values = first, written(ledger, "london", seen=first)
        assert kinds(ledger, values[chosen], values[chosen]) == expected


def test_a_value_of_its_own_tells_nothing_of_the_other_cluster() -> None:
    ledger = Ledger()
    there = written(ledger, "london")
    written(ledger, "tokyo", seen=written(ledger, "tokyo"))
    assert kinds(ledger, there, there) == set(), "the clock of that one may be ahead"


def test_a_removed_key_comes_back() -> None:
    ledger = Ledger()
    first = written(ledger, "tokyo")
    written(ledger, "tokyo", removes=True)
    assert kinds(ledger, first, first) == {"resurrected"}


def test_clusters_differ() -> None:
    ledger = Ledger()
    first, second = written(ledger, "tokyo"), written(ledger, "london")
    assert kinds(ledger, first, second) == {"diverged"}


def test_a_write_without_an_answer_may_be_there_or_not() -> None:
    for done in (True, False):
        ledger = Ledger()
        first = written(ledger, "tokyo")
        later = ledger.begin("tokyo", KEY, removes=False).value
        assert kinds(ledger, *([later if done else first] * 2)) == set()


def test_what_was_settled_stays_without_a_write() -> None:
    ledger = Ledger()
    first = written(ledger, "tokyo")
    assert kinds(ledger, first, first) == set()
    assert ledger.touched == []
    assert ledger.all == [KEY]
    assert kinds(ledger, None, None) == {"lost"}
