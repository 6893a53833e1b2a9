"""The groups of servers as all members of a test see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.nats.admin.groups import NO_LEADER, ServerGroup
from grid_member.engine.nats.admin.peers import peer_id

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet


class SharedGroups:
    """Servers that do at once what they are asked, as long as a majority of them is there."""

    def __init__(self) -> None:
        self.data = ("shard-0", "shard-1")
        self.servers: set[str] = set()
        self.silent: set[str] = set()
        self.streams: dict[str, frozenset[str]] = {}
        self.stuck = False
        """Whether nothing changes."""
        self.made: list[str] = []

    def start(self, *names: str) -> None:
        """Let servers vote, or be heard of again."""
        found = {peer_id(name) for name in names}
        self.servers |= found
        self.silent -= found
        self.streams |= {name: frozenset(self.servers) for name in self.data}

    def kill(self, *names: str) -> None:
        self.silent |= {peer_id(name) for name in names}

    def led(self, stream: str) -> bool:
        voters = self.streams[stream]
        return 2 * len(voters - self.silent) > len(voters)

    async def meta(self) -> ServerGroup:
        return self._group(self.servers, None)

    async def group(self, stream: str) -> ServerGroup | None:
        voters = self.streams.get(stream)
        return None if voters is None else self._group(voters, 7)

    async def step(self, stream: str, servers: AbstractSet[str]) -> bool:
        if self.stuck or servers - self.servers:
            return False
        if stream not in self.streams:
            self.made.append(stream)
        elif not self.led(stream):
            return False
        self.streams[stream] = frozenset(servers)
        return True

    async def remove(self, stream: str) -> bool:
        if self.stuck:
            return False
        self.streams.pop(stream, None)
        return True

    def _group(self, voters: Iterable[str], index: int | None) -> ServerGroup:
        there = sorted(set(voters) - self.silent)
        if 2 * len(there) <= len(set(voters)):
            return NO_LEADER
        return ServerGroup(there[0], frozenset(voters), frozenset(there), index)
