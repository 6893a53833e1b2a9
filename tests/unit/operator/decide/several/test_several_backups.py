"""Backups of several members, and several that begin as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.conditions import ConditionType
from grid_operator.decide.calls import CallDone
from grid_operator.decide.model import MemberOperation
from tests.unit.operator.decide.fake_store import FakeStore
from tests.unit.operator.decide.several.test_several import (
    NAMES,
    OF_THREE,
    SILENT,
    STARTING,
    condition,
    three,
)

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem, MemberView


def restoring(condition_of_the_job: str) -> FakeStore:
    """Return three that begin as a backup, whose Job has come so far."""
    store = FakeStore(
        {"size": 3, "persistence": {"enabled": True}, "restoreFrom": {"cluster": "old"}}
    )
    store.views = dict.fromkeys(NAMES, STARTING)
    for _ in range(3):
        store.step()
    (job,) = (o for o in store.objects.values() if o["kind"] == "Job")
    job["status"] = {"conditions": [{"type": condition_of_the_job, "status": "True"}]}
    return store


def is_importing(store: FakeStore) -> bool:
    return bool(store.cluster.status.importing)


def test_several_members_are_restored_when_one_has_imported_the_backup() -> None:
    store = restoring("Complete")
    assert store.pods == {}
    for _ in range(5):
        store.step()
    assert sorted(store.pods) == list(NAMES)
    assert is_importing(store)
    told = condition(store, ConditionType.RESTORED)
    assert (told.status, told.reason) == ("False", "Restoring")

    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()

    assert not is_importing(store)
    told = condition(store, ConditionType.RESTORED)
    assert (told.status, told.message) == ("True", "old-backup/old-0/newest")
    assert (store.replaced, store.calls) == ([], [])


def test_nobody_new_is_made_and_a_stop_forgets_nothing_while_a_backup_is_imported() -> None:
    store = restoring("Complete")
    for _ in range(5):
        store.step()
    wish = {"persistence": {"enabled": True}, "restoreFrom": {"cluster": "old"}}
    store.change_spec({"size": 5, **wish})
    store.step()
    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableSize"

    store.change_spec({"size": 3, "runState": "Stopped", **wish})
    while not store.cluster.status.stopped:
        store.step()
    assert (store.pods, is_importing(store)) == ({}, True)
    store.change_spec({"size": 3, **wish})
    for _ in range(5):
        store.step()
    assert sorted(store.pods) == list(NAMES)
    assert is_importing(store)


@pytest.mark.parametrize(
    ("others", "outcome"), [({"demo-1": SILENT, "demo-2": SILENT}, None), ({}, "Failed")]
)
def test_a_backup_that_a_silent_member_may_know_is_waited_for(
    others: dict[str, MemberView | MemberProblem], outcome: str | None
) -> None:
    store = three(persistence={"enabled": True, "backup": {"claimName": "backups"}})
    store.answer = CallDone("of-demo-1")
    store.annotate(backup="b-1")
    while not store.calls:
        store.step()
    store.views = {**store.views, **others}
    store.step()

    ended = [o.outcome.value for o in store.cluster.status.last_operations]
    assert ended == ([outcome] if outcome else [])
    if outcome is None:
        found = MemberOperation("of-demo-1", "backup", "FINISHED", 100, "")
        store.views = {**store.views, "demo-2": replace(OF_THREE, operations=(found,))}
        store.step()
        assert condition(store, ConditionType.BACKUP_SUCCEEDED).status == "True"
