"""`grid-member client wait`: until all members are there, ready and say that the data is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grid_member.client.deadline import Deadline
    from grid_member.client.member import MemberClient


def wait(
    members: tuple[MemberClient, ...], size: int | None, *, ready_only: bool, deadline: Deadline
) -> str:
    """Wait; return what is true now.

    Args:
        members: Those that are asked. Each of them has to say it.
        size: Members that the cluster has to have; None: any number.
        ready_only: Copies may still be missing.
        deadline: The time for it.

    Raises:
        FinalError: It was not so in time, or a member refuses to tell.
    """

    def look() -> None:
        for member in members:
            member.require_ready()
            if size is not None:
                member.require_size(size)
            if not ready_only:
                member.require_safe()

    deadline.until(look)
    names = ", ".join(member.name for member in members)
    of_size = f" of a cluster of {size}" if size is not None else ""
    return f"ready{'' if ready_only else ' and safe'}{of_size}: {names}"
