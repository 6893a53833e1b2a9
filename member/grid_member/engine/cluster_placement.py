"""Where structures of several members live: where all agreed when the first of them began.

    kept/<id>    names and wildcards of maps and queues, and whether what they mean is on disk

Members hear of a change at different moments, and that one of them emptied a structure another one
hears of later. For that long they would look for the same data in two lanes, and hide what they
answered. So nothing moves while members run. What was agreed on is in the log of the lane in
memory, of several proposals the first, and goes with what that lane holds: when no member is left.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import uuid
from typing import TYPE_CHECKING, Final

from grid_member.config.names import find
from grid_member.engine.operations import SystemPut
from grid_member.engine.placement import MAX_WARNINGS, Placement
from grid_member.engine.usage import held_structures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from grid_member.engine.api import Kept, Refused
    from grid_member.engine.cluster_lanes import ClusterLanes
    from grid_member.engine.lane import Lane
    from grid_member.engine.lanes import Lanes
    from grid_member.engine.placement import SettingsOf
    from grid_member.engine.usage import Kind

AGREED: Final = "kept/"
"""Begins the keys of proposals, in the system store of the lane in memory."""
RETRY_S: Final = 0.5
"""Until a proposal that the log did not take is sent again."""
MAX_KNOWN_NAMES: Final = 4096
"""Of maps and of queues: clients choose them, so not all can be kept."""
_log = logging.getLogger(__name__)


class AgreedPlacement(Placement):
    """The lanes of maps, or of queues, whatever a member's own settings say by now."""

    def __init__(self, lanes: Lanes, names: Callable[[Lane], Collection[str]]) -> None:
        """Go by the settings until it is known what was agreed on."""
        super().__init__(lanes, names)
        self.agree({})

    def agree(self, kept: Mapping[str, bool]) -> None:
        """Hear what was agreed on; a name that nothing in it matches goes by the settings."""
        self._kept = functools.lru_cache(MAX_KNOWN_NAMES)(functools.partial(find, kept))

    def lane(self, name: str, persistent: bool) -> Lane:
        """Return the lane of the structure called name."""
        kept = self._kept(name)
        return super().lane(name, persistent if kept is None else kept)

    def begin(self, kind: Kind, settings_of: SettingsOf) -> None:
        """Do nothing: what is on disk was looked at when it was agreed on."""

    def change(self, former: SettingsOf) -> None:
        """Do nothing: it takes effect when no member is left."""


async def agreed(lanes: ClusterLanes, own: Kept) -> Kept:
    """Return what the members agreed on; propose it when this is the first of them.

    Args:
        lanes: are current, and nobody is served yet.
        own: what the member's settings say.
    """
    volatile = lanes.volatile
    if volatile is None:
        return own
    while (kept := _first(volatile)) is None:
        if lanes.ended:
            return own
        if not await _proposed(volatile, _with_held(own, lanes.durable)):
            await asyncio.sleep(RETRY_S)
    _tell_differences(own, kept)
    return kept


def _first(lane: Lane) -> Kept | None:
    """Return the proposal that the log has first: values are found in the log's order."""
    for key, found in lane.state.system.found.items():
        if key.startswith(AGREED):
            kept: Kept = json.loads(found.value)
            return kept
    return None


def _with_held(own: Kept, durable: Iterable[Lane]) -> Kept:
    """Keep on disk what is there, though settings say otherwise: they may be a mistake."""
    kept = {kind: dict(names) for kind, names in own.items()}
    meant = {kind: {name: name for name in names} for kind, names in own.items()}
    for kind, name in held_structures(durable):
        found = find(meant[kind], name)
        if found is not None:
            kept[kind][found] = True
    return kept


async def _proposed(lane: Lane, kept: Kept) -> bool:
    """Put a proposal into the lane's log; tell whether that is known to be done."""
    outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def done(refused: Refused | None) -> None:
        if not outcome.done():  # the start may have been given up
            outcome.set_result(refused is None)

    put = SystemPut(AGREED + uuid.uuid4().hex, json.dumps(kept).encode(), 0)
    lane.propose_system(put, done, len(put.value))
    return await outcome


def _tell_differences(own: Kept, kept: Kept) -> None:
    """Warn of what is not as the member's settings say."""
    others = [
        (kind, name, persistent)
        for kind, names in own.items()
        for name, persistent in names.items()
        if find(kept[kind], name) is not None and find(kept[kind], name) is not persistent
    ]
    for kind, name, persistent in others[:MAX_WARNINGS]:
        _log.warning(
            "the %s %s stays %s: a change of data-persistence takes effect when all members are "
            "stopped at once, and of what is on disk when it is empty",
            *(kind, name, "in memory" if persistent else "on disk"),
        )
    if len(others) > MAX_WARNINGS:
        _log.warning("the same with %d more", len(others) - MAX_WARNINGS)
