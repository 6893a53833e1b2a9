"""The member list of the TCP/IP join, as all members show it and as it is replaced at run time.

Whom a member looks for when it starts is what its own configuration lists.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put
from grid_member.config.addresses import MAX_ADDRESSES, member_problem

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

JOIN_LIST: Final = "member-list"
_SEPARATORS: Final = re.compile(r"[,; ]+")


class MemberListError(ValueError):
    """A member list that cannot be used; the message says why and quotes nothing."""


class JoinList:
    """The list as configured, or as it was replaced at run time."""

    def __init__(self, store: SystemStore, configured: tuple[str, ...] | None) -> None:
        """Take the configured addresses; None when the TCP/IP join is off."""
        self._store = store
        self._configured_addresses = configured

    @property
    def enabled(self) -> bool:
        """Whether the TCP/IP join is on."""
        return self._configured_addresses is not None

    @property
    def addresses(self) -> list[str]:
        """The present list."""
        stored = self._store.system_get(JOIN_LIST)
        if stored is None:
            return list(self._configured_addresses or ())
        return [str(address) for address in json.loads(stored)]


def new_member_list(addresses: list[str]) -> Put:
    """Return what replaces the list on all members."""
    return Put(JOIN_LIST, json.dumps(addresses, separators=(",", ":")).encode())


def parse_member_list(text: str) -> list[str]:
    """Return the addresses in the order given, split at runs of commas, semicolons and spaces.

    Raises:
        MemberListError: the list is empty or too long, or one of them is no address.
    """
    addresses = [part for part in _SEPARATORS.split(text) if part]
    if not addresses:
        raise MemberListError("the member list is empty")
    if len(addresses) > MAX_ADDRESSES:
        raise MemberListError(f"the member list has more than {MAX_ADDRESSES} addresses")
    for number, address in enumerate(addresses, 1):
        problem = member_problem(address)
        if problem is not None:
            raise MemberListError(f"address {number} of the member list {problem}")
    return addresses
