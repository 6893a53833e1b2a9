"""Whether every member can go by a configuration, before it is added.

    consent/<id>             the maps and queues that are to be added
    consent/<id>/<member>    what a member has against them, empty when nothing

Configurations of members may differ in what they were started with. What one of them cannot go by
is added on none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put, put_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.membership.membership import Membership

VOTE: Final = "consent/"
VOTE_PATIENCE_S: Final = 20.0
"""How long a question waits for a member that lives; one that is silent is off the list sooner."""


class ConfigurationVote:
    """The questions as one member puts and answers them; one at a time is put, under a lock."""

    def __init__(self, membership: Membership) -> None:
        self.objection: Callable[[bytes], str | None] = lambda _: None
        """Returns what this member has against a configuration."""
        self._engine = membership.engine
        self._member_table = membership.member_table
        self._conditions = membership.conditions
        self._new_id = membership.new_id
        self._pending: set[str] = set()

    async def objections(self, content: bytes) -> list[str] | None:
        """Return what other members have against a configuration, by address.

        None when the log does not take the question, or one that lives does not answer in time.
        """
        question = VOTE + self._new_id()
        former = [Put(key, None) for key, _ in self._engine.system_items(VOTE)]
        puts = (*former, Put(question, content))
        try:
            if await put_all(self._engine, puts) is not None:
                return None
            if not await self._conditions.until(
                lambda: self._is_complete(question), VOTE_PATIENCE_S
            ):
                return None
            return self._read_objections(question)
        finally:
            for key, _ in self._engine.system_items(question):
                Put(key, None).send(self._engine)  # the next question removes the rest

    def look(self) -> None:
        """Answer the questions of others that this member has not answered."""
        own = self._engine.member_uuid
        for question, content in self._engine.system_items(VOTE):
            key = f"{question}/{own}"
            if "/" in question.removeprefix(VOTE) or key in self._pending:
                continue
            if self._engine.system_get(key) is None:
                self._pending.add(key)
                answer = Put(key, (self.objection(content) or "").encode())
                answer.begin(self._engine)(partial(self._finish_answer, key))

    def _finish_answer(self, key: str, _: object) -> None:
        self._pending.discard(key)  # what the log did not take is answered at the next look

    def _is_complete(self, question: str) -> bool:
        leases = self._member_table.leases()
        return all(
            member.uuid not in leases
            or self._engine.system_get(f"{question}/{member.uuid}") is not None
            for member in self._member_table.members()
        )

    def _read_objections(self, question: str) -> list[str]:
        found: list[str] = []
        for member in self._member_table.members():
            answer = self._engine.system_get(f"{question}/{member.uuid}")
            if answer:
                found.append(f"member {member.address}: {answer.decode()}")
        return found
