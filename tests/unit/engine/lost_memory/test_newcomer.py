"""What a member that starts makes, and what it leaves to a member that holds the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.lost_memory.roundup import Newcomer
from grid_member.engine.nats.admin.streams import Stream
from tests.unit.engine.lost_memory.test_survivors import LOG, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.lost_memory.roundup import Roundup
    from grid_member.engine.lost_memory.survivors import MemoryReport
    from grid_member.engine.nats.client.client import NatsClient

SHARD = Stream(LOG, durable=False)


class Told:
    """Members that report one after the other."""

    def __init__(self, *reports: MemoryReport) -> None:
        self._reports = reports
        self.heard = 0

    async def ask(
        self, _: object, __: float, enough: Callable[[Mapping[str, MemoryReport]], bool]
    ) -> dict[str, MemoryReport]:
        found: dict[str, MemoryReport] = {}
        for one in self._reports:
            if enough(found):
                break
            found[one.server] = one
        self.heard = len(found)
        return found


def newcomer(told: Told) -> Newcomer:
    return Newcomer(cast("NatsClient", None), cast("Roundup", told), 3)


@pytest.mark.parametrize(
    ("reports", "log", "snapshots"),
    [
        ([report("a"), report("b"), report("c")], False, False),
        ([report("a"), report("b", 7), report("c")], True, True),
        ([report("a"), report("b", 7, left=False), report("c")], True, False),
        ([report("a")], False, False),
    ],
    ids=["none-holds-it", "one-writes-it-back", "one-goes-on-with-it", "none-tells"],
)
async def test_a_log_that_a_member_holds_is_left_to_that_member(
    reports: list[MemoryReport], log: bool, snapshots: bool
) -> None:
    for stream, kept in ((SHARD, log), (SHARD.snapshots, snapshots)):
        reason = await newcomer(Told(*reports)).creation_obstacle(stream)
        assert (reason is not None) is kept
        assert reason is None or stream.name in reason


async def test_no_further_reports_are_waited_for_than_those_that_decide() -> None:
    told = Told(report("b", 7), report("c"), report("a"))
    await newcomer(told).creation_obstacle(SHARD)
    assert told.heard == 1
