"""Faults that are planted into a member's WAN replication, each of which the stories must find."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.local.wan import WanShard
from grid_member.engine.state import wan as state_wan
from grid_member.engine.state.wan import Wan
from grid_member.engine.wan import merging
from grid_member.engine.wan.changes import Change, MergeResult
from grid_member.wan import protocol, receiver, sender
from grid_member.wan.answers import MapAnswer
from grid_member.wan.places import Part, Places, QueueName
from grid_member.wan.ports import BusyError
from grid_member.wan.protocol import read_batch
from grid_member.wan.receiver import Receiver

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from grid_member.engine.wan.agreement import MergePolicy, PublisherName
    from grid_member.engine.wan.merging import Known
    from grid_member.wan.protocol import Batch

    Patch = Callable[[pytest.MonkeyPatch], None]

LATE_S: Final = 0.3


def the_receiver_answers_before_it_has_stored(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge a batch and store it afterwards."""

    async def take(found: Receiver, data: bytes) -> bytes:
        batch = read_batch(data, found.settings.batch_bytes)
        later = asyncio.create_task(_taken_late(found, original, data))
        _later.add(later)
        later.add_done_callback(_later.discard)
        return bytes(len(batch.maps))

    original = Receiver.take
    patch.setattr(Receiver, "take", take)


_later: Final[set[asyncio.Task[None]]] = set()


async def _taken_late(found: Receiver, take: Any, data: bytes) -> None:
    await asyncio.sleep(LATE_S)
    try:
        await take(found, data)
    except Exception:
        return  # the source has had its answer


def the_receiver_ignores_refused_merges(patch: pytest.MonkeyPatch) -> None:
    """Answer as if a cluster that takes nothing now had taken all."""

    async def merge(found: Receiver, batch: Batch) -> bytes:
        try:
            return await original(found, batch)
        except BusyError:
            return bytes(len(batch.maps))

    original = Receiver._merge
    patch.setattr(Receiver, "_merge", merge)


def a_refused_clock_counts_as_taken(patch: pytest.MonkeyPatch) -> None:
    """Answer as if changes of a clock that is too far ahead had been taken."""
    patch.setattr(
        receiver,
        "_MAP_REFUSALS",
        dict.fromkeys(receiver._MAP_REFUSALS, MapAnswer.TAKEN),
    )


def the_sender_skips_what_was_under_way(patch: pytest.MonkeyPatch) -> None:
    """Go on behind what has no answer after a failure."""

    def rewind(found: Places, queue: QueueName) -> None:
        progress = found._queues.get(queue)
        if progress is not None:
            progress.parts.clear()

    patch.setattr(Places, "rewind", rewind)


def the_sender_acknowledges_beyond_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Take all before a batch that has arrived out of the queue."""

    def note_arrival(found: Places, part: Part) -> None:
        progress = found._queues.get(part.queue)
        if progress is not None and part in progress.parts:
            progress.parts.remove(part)
            progress.arrived = max(progress.arrived, part.last_place)

    patch.setattr(Places, "note_arrival", note_arrival)


def the_sender_takes_any_answer_for_yes(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what was refused."""

    def note_answer(found: Any, outgoing: Any, answer: bytes) -> None:
        original(found, outgoing, bytes(len(answer)))

    original = sender.Sender._note_answer
    patch.setattr(sender.Sender, "_note_answer", note_answer)


def the_checksum_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """Take batches in which the line has changed a byte."""

    def opened(data: bytes, max_bytes: int, kind: bytes) -> bytes:
        whole = data[: -protocol._CRC.size]
        return original(whole + protocol._CRC.pack(zlib.crc32(whole)), max_bytes, kind)

    original = protocol.opened
    patch.setattr(protocol, "opened", opened)


def the_older_change_counts(patch: pytest.MonkeyPatch) -> None:
    """Prefer the older one of two changes."""

    def result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
        found = original(change, policy, known)
        turned = {MergeResult.TAKEN: MergeResult.OLDER, MergeResult.OLDER: MergeResult.TAKEN}
        return found if known is None else turned.get(found, found)

    original = merging.merge_result
    patch.setattr(f"{state_wan.__name__}.merge_result", result)


def the_change_that_comes_last_counts(patch: pytest.MonkeyPatch) -> None:
    """Take whatever comes."""

    def result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
        found = original(change, policy, known)
        return MergeResult.TAKEN if found is MergeResult.OLDER else found

    original = merging.merge_result
    patch.setattr(f"{state_wan.__name__}.merge_result", result)


def a_removal_is_forgotten_when_it_has_arrived(patch: pytest.MonkeyPatch) -> None:
    """Keep no tombstone that no queue has."""

    def acknowledge(found: Wan, operation: Any, *others: Any) -> None:
        original(found, operation, *others)
        for each in found.maps.values():
            for key in list(each.tombstones):
                if not any(queue.has(key) for queue in each.queues.values()):
                    del each.tombstones[key]

    original = Wan.acknowledge
    patch.setattr(Wan, "acknowledge", acknowledge)


def the_queue_of_a_paused_member_is_sent(patch: pytest.MonkeyPatch) -> None:
    """Send all queues, whatever the state of the member that took the changes in."""

    def sendable(found: WanShard, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        return found._shard.state.wan.queue_sizes(publisher)

    patch.setattr(WanShard, "sendable", sendable)


PLANTED: Final[dict[str, Patch]] = {
    fault.__name__: fault
    for fault in (
        the_receiver_answers_before_it_has_stored,
        the_receiver_ignores_refused_merges,
        a_refused_clock_counts_as_taken,
        the_sender_skips_what_was_under_way,
        the_sender_acknowledges_beyond_a_gap,
        the_sender_takes_any_answer_for_yes,
        the_checksum_is_not_looked_at,
        the_older_change_counts,
        the_change_that_comes_last_counts,
        a_removal_is_forgotten_when_it_has_arrived,
        the_queue_of_a_paused_member_is_sent,
    )
}
