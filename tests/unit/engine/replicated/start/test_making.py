"""What a log that was read is looked at for, in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.nats.admin.streams import Stream
from grid_member.engine.nats.client.errors import ShortError
from grid_member.engine.replicated.making import _check
from grid_member.engine.state.machine import State

if TYPE_CHECKING:
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards

SYSTEM, OTHER = Stream("shard-0", durable=True), Stream("shard-1", durable=True)


def shards(*, waiting: str | None) -> ReplicatedShards:
    """A member that the others took off, and that has read more of each log than there is."""

    def taken_off(read: State) -> None:
        raise EngineError("taken off")

    async def short(stream: Stream, *_: Any) -> None:
        raise ShortError(stream.name, 9)

    return cast(
        "ReplicatedShards",
        SimpleNamespace(
            waiting=waiting,
            streams=(SYSTEM, OTHER),
            check_own=taken_off,
            damage=SimpleNamespace(check=short),
        ),
    )


async def test_whom_the_others_took_off_is_told_that_and_misses_nothing() -> None:
    with pytest.raises(EngineError, match="taken off"):
        await _check(shards(waiting="starts"), SYSTEM, "then", State(), State)


@pytest.mark.parametrize(("waiting", "stream"), [(None, SYSTEM), ("starts", OTHER)])
async def test_otherwise_a_log_that_ends_before_what_was_read_is_short(
    waiting: str | None, stream: Stream
) -> None:
    with pytest.raises(ShortError):
        await _check(shards(waiting=waiting), stream, "then", State(), State)
