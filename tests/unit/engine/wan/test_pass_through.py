"""A target of PassThrough tells changes of clients from those of other clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.wan.changes import ChangeKind, MergeResult
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.wan.agreements import agreement
from tests.unit.engine.wan.single import PASS_THROUGH, Single, change

if TYPE_CHECKING:
    from grid_member.engine.wan.agreement import Agreement


@pytest.mark.parametrize(
    "agreed",
    [
        pytest.param(agreement((), maps=()), id="no reference to a replication here"),
        pytest.param(agreement(), id="another policy in the other direction"),
    ],
)
def test_a_late_batch_that_passes_through_brings_no_old_value_back(agreed: Agreement) -> None:
    """The policy is the source's: two members may send a shard, or one batch arrive twice."""
    single = Single(agreed)
    single.merge(change("k", 7, value=b"new"), PASS_THROUGH)
    single.merge(change("gone", 7, kind=ChangeKind.REMOVAL), PASS_THROUGH)
    single.acknowledge_all()
    single.state = through_a_snapshot(single.state)
    assert single.merge(change("k", 6, value=b"old"), PASS_THROUGH) is MergeResult.OLDER
    assert single.merge(change("gone", 6, value=b"old"), PASS_THROUGH) is MergeResult.OLDER
    single.put("k")
    assert single.merge(change("k", 6), PASS_THROUGH) is MergeResult.TAKEN
