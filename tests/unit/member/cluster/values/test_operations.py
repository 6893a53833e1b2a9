"""The history of long operations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grid_member.cluster.values.operations import MAX_OPERATIONS, Operations
from grid_member.cluster.values.system_store import carry_out
from grid_member.http.routes.management import operations
from tests.unit.member.cluster.managed import FakeStore, content, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.cluster.values.system_store import Put
    from tests.unit.member.cluster.managed import Managed

FIELDS = ["id", "kind", "stage", "progress", "error", "started", "finished"]


class History:
    """Operations of one member over a store that applies at once."""

    def __init__(self, store: FakeStore | None = None, member: str = "one") -> None:
        self.store = store or FakeStore()
        self.now_ms = 10
        self.ids = 0
        self.operations = Operations(
            self.store, lambda: member, lambda: self.now_ms, lambda: self.new_id(member)
        )

    def new_id(self, member: str) -> str:
        self.ids += 1
        return f"{member}-{self.ids:04d}"

    def apply(self, *puts: Put) -> None:
        for put in puts:
            if put.value is None:
                del self.store.values[put.key]
            else:
                self.store.values[put.key] = put.value

    def begin(self, kind: str = "backup") -> str:
        self.now_ms += 1
        key, puts = self.operations.begin(kind)
        self.apply(*puts)
        return key

    def shown(self) -> list[tuple[Any, ...]]:
        return [tuple(o.values())[1:] for o in self.operations.documents()]


def test_an_operation_from_its_begin_to_its_end() -> None:
    history = History()
    key = history.begin()
    assert history.shown() == [("backup", "STARTED", 0, None, 11, None)]
    history.apply(history.operations.advance(key, 40))
    assert history.shown() == [("backup", "IN_PROGRESS", 40, None, 11, None)]
    history.now_ms = 50
    history.apply(history.operations.finish(key))
    assert history.shown() == [("backup", "FINISHED", 100, None, 11, 50)]
    assert list(history.store.values) == [f"operation/{key}"]


def test_a_failure_keeps_its_progress_and_says_why() -> None:
    history = History()
    key = history.begin()
    history.apply(history.operations.advance(key, 130))
    history.apply(history.operations.advance(key, 70))
    history.now_ms = 50
    history.apply(history.operations.fail(key, "the disk is full"))
    assert history.shown() == [("backup", "FAILED", 70, "the disk is full", 11, 50)]


def test_progress_stays_between_0_and_100() -> None:
    history = History()
    key = history.begin()
    for percent, shown in ((-5, 0), (130, 100)):
        history.operations.advance(key, percent)
        assert history.shown()[0][2] == shown


def test_what_is_not_stored_yet_is_shown_and_can_be_taken_back() -> None:
    history = History()
    key, _ = history.operations.begin("restore")
    history.operations.advance(key, 5)
    assert history.shown() == [("restore", "IN_PROGRESS", 5, None, 10, None)]
    history.operations.forget(key)
    assert history.shown() == []


def test_the_oldest_that_ended_are_forgotten() -> None:
    history = History()
    running = history.begin("migration")
    for _ in range(MAX_OPERATIONS + 20):
        history.apply(history.operations.finish(history.begin()))
    documents = history.operations.documents()
    assert len(documents) == len(history.store.values) == MAX_OPERATIONS
    assert documents[0]["id"] == running
    assert documents[1]["id"] == "one-0023"
    assert documents[-1]["id"] == f"one-{MAX_OPERATIONS + 21:04d}"


def test_what_a_member_left_when_it_died_has_failed() -> None:
    history = History()
    history.apply(history.operations.finish(history.begin()))
    history.apply(history.operations.advance(history.begin(), 30))
    other = History(history.store, "two")
    other.ids = 100
    kept = other.begin("sync")
    again = History(history.store, "one")
    again.now_ms = 99
    again.apply(*again.operations.interrupted_puts({"two"}))
    stages = {
        o["id"]: (o["stage"], o["error"], o["finished"]) for o in again.operations.documents()
    }
    assert stages == {
        "one-0001": ("FINISHED", None, 11),
        "one-0002": ("FAILED", "the member stopped before the end", 99),
        kept: ("STARTED", None, None),
    }
    assert again.operations.interrupted_puts({"two"}) == []


def test_what_a_member_that_is_gone_left_has_failed() -> None:
    former = History()
    former.apply(former.operations.advance(former.begin(), 30))
    restored = History(former.store, "two")
    restored.now_ms = 99
    restored.apply(*restored.operations.interrupted_puts())
    error = "the member stopped before the end"
    assert restored.shown() == [("backup", "FAILED", 30, error, 11, 99)]
    assert restored.operations.interrupted_puts() == []


def test_what_was_done_to_the_store_before_it_is_open_is_told_at_the_join() -> None:
    history = History(member="two")
    former = History(history.store, "one")
    former.begin()
    done, failed, _never_ended = (
        history.operations.early(kind) for kind in ("restore", "partialStart", "restore")
    )
    history.now_ms = 50
    failed("the disk is full")
    done(None)
    assert history.shown() == [("backup", "STARTED", 0, None, 11, None)]
    history.now_ms = 99
    history.apply(*history.operations.join())
    shown = [
        ("restore", "FINISHED", 100, None, 10, 50),
        ("partialStart", "FAILED", 0, "the disk is full", 10, 50),
        ("backup", "FAILED", 0, "the member stopped before the end", 11, 99),
    ]
    assert history.shown() == shown
    assert history.operations.join() == []
    assert History(history.store, "two").shown() == shown


def test_what_was_done_to_the_store_takes_the_place_of_the_oldest() -> None:
    former = History()
    for _ in range(MAX_OPERATIONS):
        former.apply(former.operations.finish(former.begin()))
    history = History(former.store, "two")
    history.now_ms = 5_000
    history.operations.early("forceStart")(None)
    history.apply(*history.operations.join())
    documents = history.operations.documents()
    assert len(documents) == len(history.store.values) == MAX_OPERATIONS
    assert (documents[0]["id"], documents[-1]["kind"]) == ("one-0002", "forceStart")


async def test_a_join_ends_the_operations_of_a_member_that_is_gone(
    make: Callable[..., Managed],
) -> None:
    former, managed = History(), make()
    former.begin()
    managed.store.values = dict(former.store.values)
    await managed.member.join()
    managed.store.commit()
    (found,) = managed.management.operations.documents()
    assert (found["id"], found["stage"]) == ("one-0001", "FAILED")
    record = json.loads(managed.store.values["operation/one-0001"])
    assert record["member"] == managed.engine.member_uuid


async def test_the_document(managed: Managed) -> None:
    answer = await managed.call(operations)
    assert (answer.status, answer.body) == (200, b"[]")
    key, puts = managed.management.operations.begin("backup")
    await _settled(managed, puts)
    answer = await managed.call(operations)
    assert list(content(answer)[0]) == FIELDS
    expected = [key, "backup", "STARTED", 0, None, 1_000, None]
    assert list(content(answer)[0].values()) == expected
    stored = json.loads(managed.store.values[f"operation/{key}"])
    assert stored["member"] == managed.engine.member_uuid


async def test_before_the_join_it_is_503(make: Callable[..., Managed]) -> None:
    answer = await make().call(operations)
    assert (answer.status, reason(answer)) == (503, "the member is starting")


async def _settled(managed: Managed, puts: Iterable[Put]) -> None:
    refusals = await carry_out(*(put.begin(managed.store) for put in puts))
    assert not any(refusals)
