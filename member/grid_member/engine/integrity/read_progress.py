"""How far a member has read each log, which log that was, and who voted then; noted in a file.

DIRECTORY/cluster/reached.json

format     counts changes of the layout
member     whose records the watermarks are of, its UUID
logs       by the streams' names: the stream's `creation_time`, incarnation and counter of the
           member's own last record, the sequence of the last one, the ids of those that voted
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.io.store_errors import newer_error, unusable_error

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from grid_member.engine.state.machine import State

WATERMARK_FORMAT: Final = 1
"""Counts changes of the layout that an older program must not touch."""
_log: Final = logging.getLogger("grid.engine.nats")


class Watermark(NamedTuple):
    """How far a log was read."""

    created: str
    """When its stream was made, as servers tell it: the same on all of them for as long as the
    group that decides about streams knows it, also when its files are removed. One that is deleted
    and made anew has another."""
    own: tuple[int, int]
    """Incarnation and counter of this member's own last record."""
    sequence: int
    """Of the last record."""
    servers: frozenset[str]
    """The ids of those that voted."""
    bare: bool = False
    """Whether what that group noted was gone from the own disk at a start since. That the log was
    made anew was nobody's decision then."""

    def held_by(self, state: State, member: uuid.UUID) -> bool:
        """Tell whether a log that was read holds what was read of it before."""
        return state.sequence >= self.sequence and last_of(state, member.bytes) >= self.own


def last_of(state: State, member: bytes) -> tuple[int, int]:
    """Return incarnation and counter of a member's last record, (0, 0) when there is none."""
    watermark = state.members.get(member)
    return (0, 0) if watermark is None else (watermark.incarnation, watermark.counter)


def holds(state: State, former: State) -> bool:
    """Tell whether a log that was read holds what another state has of the same log.

    Of each member a state knows the last record, in snapshots, too, for ever.
    """
    return state.sequence >= former.sequence and all(
        last_of(state, member) >= last_of(former, member) for member in former.members
    )


def encode_marks(watermarks: Mapping[str, Watermark], member: uuid.UUID) -> str:
    """Return what the file holds."""
    noted = {"format": WATERMARK_FORMAT, "member": str(member), "logs": fields_of(watermarks)}
    return json.dumps(noted)


def fields_of(watermarks: Mapping[str, Watermark]) -> dict[str, Any]:
    """Return watermarks as JSON has them."""
    return {
        name: {
            "created": watermark.created,
            "incarnation": watermark.own[0],
            "counter": watermark.own[1],
            "sequence": watermark.sequence,
            "servers": sorted(watermark.servers),
            "bare": watermark.bare,
        }
        for name, watermark in watermarks.items()
    }


def watermarks_of(fields: Mapping[str, Any]) -> dict[str, Watermark]:
    """Return what JSON has as watermarks.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it has none.
    """
    return {
        name: Watermark(
            str(one["created"]),
            (int(one["incarnation"]), int(one["counter"])),
            int(one["sequence"]),
            frozenset(map(str, one["servers"])),
            bool(one["bare"]),
        )
        for name, one in fields.items()
    }


def read_watermarks(path: Path, member: uuid.UUID) -> dict[str, Watermark]:
    """Return what a member noted: nothing in a former version's directory. Blocks.

    What another member noted, of whose directory this file is, is left out: its records are none of
    this one. So is what is damaged: the logs may be whole all the same.

    Raises:
        EngineError: the file cannot be read, or is of a newer version.
    """
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != WATERMARK_FORMAT:
            raise newer_error(str(path), content["format"], WATERMARK_FORMAT)
        found, noted_by = watermarks_of(content["logs"]), str(content["member"])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unusable_error("the file", path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        _log.warning("%s is damaged and ignored: how far this member has read is not known", path)
        return {}
    if noted_by != str(member):
        _log.warning("%s was noted by the member %s, not by this one: ignored", path, noted_by)
        return {}
    return found


class ReadLog:
    """A log that was read."""

    def __init__(
        self,
        created: str,
        read: State,
        member: uuid.UUID,
        state: Callable[[], State],
        had: frozenset[str] | None = None,
    ) -> None:
        """Know what was read of a stream made then, and nobody that votes.

        `state` returns the state of its shard from now on; `had` has the ids of those that may have
        been needed for what was read, None: not known. The member's records are its own.
        """
        self.created = created
        self.state = state
        self.servers: frozenset[str] | None = None
        """Those that vote; None before somebody told."""
        self.former_voters = had
        """Those that voted on what is in memory: without one of them that is of before a rescue."""
        self._member = member.bytes
        self._own = last_of(read, self._member)
        """The member's last record in it then."""
        self._since = read.sequence
        """The last record when it was read, or when it was told that one votes no more."""

    @property
    def is_begun(self) -> bool:
        """Whether it has got a record of this start."""
        return last_of(self.state(), self._member) > self._own

    @property
    def watermark(self) -> Watermark | None:
        """How far it is; None before it is known who has voted since its last record.

        What is in memory may be of before a rescue for some seconds. That some record fitted behind
        it since tells that nothing is missing.
        """
        state = self.state()
        if self.servers is None or not self.is_begun or state.sequence <= self._since:
            return None
        return Watermark(self.created, last_of(state, self._member), state.sequence, self.servers)

    def lacks(self, read: State) -> Watermark | None:
        """Return how far it is in memory when what was read anew lacks some of that, else None.

        Whether it is to be noted does not matter: what was read once was there.
        """
        state = self.state()
        if self.former_voters is None or holds(read, state):
            return None
        return Watermark(
            self.created, last_of(state, self._member), state.sequence, self.former_voters
        )

    def note_votes(self, servers: frozenset[str]) -> None:
        """Hear who votes now."""
        sequence = self.state().sequence
        if self.servers is not None and not self.servers <= servers:
            self._since = sequence
            self.former_voters = self.servers.union(self.former_voters or ())
        elif self.former_voters is None or sequence > self._since:
            self.former_voters = servers
        self.servers = servers
