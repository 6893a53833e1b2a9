"""`grid-member client leave`: members leave for good, the highest ordinal first, one at a time.

    safe everywhere ──▶ memberShutdown, X-Grid-Leave: forever ──▶ FINISHED
        ▲                                                            │
        └── the next ◀── not listed any more, safe everywhere ◀──────┘

Every look is at the members as they are, so a run that was cut off is repeated, and goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.client.deadline import Deadline
from grid_member.client.errors import (
    ClientError,
    FinalError,
    OverdueError,
    PassingError,
    SilentError,
)
from grid_member.client.group import first_answer
from grid_member.client.member import LEAVE_HEADERS, SHUTDOWN_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.client.group import MemberGroup
    from grid_member.client.member import ListedMember

SILENCE_S: Final = 20.0
"""After which members that may not be there at all are not waited for any longer."""
STARTING_S: Final = 60.0
"""After which members that answer, and have not joined, are not waited for: to replace them may be
what is wanted."""
FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """A cluster that is to have fewer members."""

    group: MemberGroup
    size: int
    """Members that stay: those with the ordinals below it."""
    deadline: Deadline
    say: Callable[[str], None]
    """Takes a line for each member that has left."""
    other: MemberGroup | None = None
    """Another listener of the members, which tells whether there are any when theirs is silent."""

    def run(self, *, may_be_silent: bool = False) -> str:
        """Have all members above the size leave; return what is true now.

        Args:
            may_be_silent: There may be no members at all.

        Raises:
            FinalError: A member does not leave; the message says why.
        """
        if may_be_silent and self._first_look() is None:
            return self._without_members()
        left = 0
        while (ordinal := self.deadline.until(self._highest)) is not None:
            operation = self.deadline.until(partial(self._tell, ordinal))
            self.deadline.until(partial(self._require_left, ordinal, operation))
            self.say(f"{self.group.at(ordinal).name} has left")
            left += 1
        self.deadline.until(partial(self._require_safe, self.size))
        return f"{left} members have left, {self.size} stay and are safe"

    def refuse(self, *, may_be_silent: bool = False) -> str:
        """Return that no member has to leave.

        Raises:
            FinalError: One has to, with what to change; or it is not known.
        """
        ordinal = self._first_look() if may_be_silent else self.deadline.until(self._highest)
        if ordinal is None:
            return self._without_members()
        raise FinalError(
            f"{self.group.at(ordinal).name} is a member and would be taken away with what it "
            f"holds: set size to {ordinal + 1} again; to have fewer members set "
            "management.enabled to true in an upgrade of its own first, then lower size"
        )

    def _without_members(self) -> str:
        return f"no member above a size of {self.size} is known"

    def _first_look(self) -> int | None:
        """Return the highest ordinal that has to leave; None as well when no member tells.

        Members that refuse to tell have other credentials, certificates or endpoint groups than the
        caller. The upgrade that waits here may be the one that changes those.
        """
        if self._unless_required():
            return None
        try:
            return self._deadline(SILENCE_S).until(self._highest)
        except FinalError as error:
            found_out, silent = error, isinstance(error, OverdueError)
        if silent and not self._is_silent():
            try:
                return self._deadline(STARTING_S).until(self._highest)
            except FinalError as error:
                found_out = error
        found = replace(self, group=self.other, other=None)._first_look() if self.other else None
        if found is not None:
            why = "does not listen there" if silent else f"does not obey there ({found_out})"
            raise FinalError(
                f"{self.group.at(found).name} has to leave and {why}: enable the "
                "management listener in an upgrade of its own first, then lower size"
            )
        self.say(f"no member tells whether one would have to leave: {found_out}")
        return None

    def _unless_required(self) -> bool:
        """Return whether the other listener says at once that all may stay.

        Where this one is enabled only now, each look at it would last until connections that a
        packet filter swallows are given up, one after the other.
        """
        if self.other is None:
            return False
        try:
            return replace(self, group=self.other)._highest() is None
        except ClientError:
            return False

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline(min(seconds, self.deadline.left_s), self.say)

    def _is_silent(self) -> bool:
        """Return whether no member answers at all; one that starts does."""
        try:
            self._present_members()
        except SilentError:
            return True
        except ClientError:
            pass
        return False

    def _highest(self) -> int | None:
        """Return the highest ordinal of all members that are listed, None when all may stay."""
        present = self._present_members()
        above = [ordinal for ordinal in present if ordinal >= self.size]
        return max(above, default=None)

    def _present_members(self) -> dict[int, ListedMember]:
        """Return the members that those that stay list, by ordinal.

        Raises:
            PassingError: None of them answers.
        """
        staying = [self.group.at(ordinal) for ordinal in range(self.size)]
        listed = first_answer(staying, lambda member: member.list_members())
        by_host = {one.host: one for one in listed}
        found = {n: by_host[host] for n, host in self.group.ordinals(by_host).items()}
        if not found:
            hosts = ", ".join(by_host)
            raise FinalError(
                f"the members are {hosts}: none has the host of --url {self.group.url}"
            )
        return found

    def _tell(self, ordinal: int) -> str | None:
        """Tell a member to leave; return the operation, None when it has left already.

        Raises:
            PassingError: It is not safe now, or not known to be told: to be asked again.
        """
        known = self._present_members().get(ordinal)
        if known is None:
            return None
        self._require_safe(ordinal + 1)
        member = self.group.at(ordinal)
        return member.call(SHUTDOWN_PATH, f"leave-{known.uuid}", LEAVE_HEADERS)

    def _require_left(self, ordinal: int, operation: str | None) -> None:
        """Return when the member is off and the others are safe without it.

        Raises:
            PassingError: Not yet.
            FinalError: It stays.
        """
        name = self.group.at(ordinal).name
        if operation is not None:
            others = [self.group.at(other) for other in range(ordinal)]
            found = first_answer(others, lambda member: member.operations()).get(operation)
            if found is not None and found.stage == FAILED:
                raise FinalError(f"{name} does not leave: {found.error or 'it does not say why'}")
            if found is not None and not found.ended:
                waits_for = f", and waits: {found.error}" if found.error else ""
                raise PassingError(f"{name} leaves, {found.progress} %{waits_for}")
            if found is None and ordinal in self._present_members():
                raise FinalError(f"{name} was restarted while it left, and stays: run this again")
        for other in range(ordinal):
            hosts = [one.host for one in self.group.at(other).list_members()]
            if ordinal in self.group.ordinals(hosts):
                raise PassingError(f"{self.group.at(other).name} still lists {name}")
        self._require_safe(ordinal)

    def _require_safe(self, members: int) -> None:
        for ordinal in range(members):
            member = self.group.at(ordinal)
            try:
                member.require_safe()
            except SilentError as error:
                raise PassingError(f"all members have to be there: {error}") from None
