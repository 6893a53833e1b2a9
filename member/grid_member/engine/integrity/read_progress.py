"""A log that a member has read, and follows: how far it is, and who voted on what is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.integrity.watermark_file import Watermark, holds, last_of

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from grid_member.engine.state.machine import State


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
        """Know what was read, and nobody that votes.

        Args:
            created: when its stream was made, as servers tell it.
            read: what was read.
            member: whose records are its own.
            state: returns the state of its shard from now on.
            had: the ids of those that may have been needed for what was read; None: not known.
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
