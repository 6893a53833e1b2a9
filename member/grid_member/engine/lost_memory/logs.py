"""The logs in memory that a member follows, and those that it has left for good."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from grid_member.engine.integrity.read_progress import holds
from grid_member.engine.lost_memory.survivors import LogHolding
from grid_member.engine.lost_memory.write_back import generation_of
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.server_records import SERVER, decode_server_record
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.api import Refused
    from grid_member.engine.nats.admin.server_records import ServerRecord
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.machine import State

_log: Final = logging.getLogger("grid.engine.nats")


class MemoryShard(Protocol):
    """What this asks of a shard."""

    state: State

    def halt(self) -> None:
        """Take and send nothing until the log was read anew."""

    def read_when_current(self, reader: Callable[[Refused | None], None]) -> None:
        """Send a record, and call reader when it has come back or is refused."""

    @property
    def confirmed_s(self) -> float:
        """When the last own record that came back was sent first, by the loop's clock."""


class LogVersion(NamedTuple):
    """A log as it was read."""

    created: str
    """When its stream was made, as servers tell it."""
    generation: int
    """How often it was written back."""
    metadata: Mapping[str, str]
    """What servers keep with its stream."""


class FollowedLog(NamedTuple):
    """A log that the member follows, or has left and not read anew yet."""

    log: LogVersion
    current: Callable[[], State]
    """Returns the state of its shard."""


class MemoryLogs:
    """Those of one member, by the names of their streams."""

    def __init__(self) -> None:
        self.shards: dict[str, tuple[Stream, MemoryShard]] = {}
        """Those that hold data, whether they are read yet or not."""
        self.logs: dict[str, FollowedLog] = {}
        self.condemnations: defaultdict[str, set[str]] = defaultdict(set)
        """When the streams were made that no member goes on with."""

    @property
    def left(self) -> list[str]:
        """The names of those that the member has left, and not read anew yet."""
        return [name for name in self.logs if self.has_left(name)]

    def has_left(self, name: str) -> bool:
        """Tell whether the member has left a log, and not read it anew yet."""
        logs = self.logs.get(name)
        return logs is not None and logs.log.created in self.condemnations[name]

    def forget(self, name: str) -> None:
        """Follow a log no more, as its shard was given up."""
        self.shards.pop(name, None)
        self.logs.pop(name, None)

    def leave(self, name: str, created: str) -> None:
        """Never go on with the log that was made then."""
        if created in self.condemnations[name]:
            return
        self.condemnations[name].add(created)
        if self.has_left(name) and name in self.shards:
            self.shards[name][1].halt()

    def condemn(self, name: str, why: str) -> None:
        """Leave the log that is followed, which all others are to leave, too."""
        if self.has_left(name):
            return
        _log.error(
            "the servers lost %s, which they had in memory, or a part of it (%s): the member that "
            "holds most of it writes it back",
            *(name, why),
        )
        self.leave(name, self.logs[name].log.created)

    def follow(self, name: str, log: LogVersion, current: Callable[[], State]) -> None:
        """Follow a log from now on.

        Raises:
            NatsError: it is one that all leave.
        """
        if log.created in self.condemnations[name]:
            raise NatsError(f"{name} is written back by a member")
        self.logs[name] = FollowedLog(log, current)

    def check(self, name: str, log: LogVersion, read: State) -> None:
        """See that a log that was read anew has what this member holds of it.

        Raises:
            NatsError: it has not, and all are to leave it; or it is not written back yet.
        """
        logs = self.logs[name]
        self.check_later(name, log)
        if log.generation > logs.log.generation:
            return
        if log.created != logs.log.created:
            self.condemn(name, "it was made anew")
        elif not holds(read, logs.current()):
            self.condemn(name, "it lacks what this member has applied")
        else:
            return
        raise NatsError(f"{name} lacks what this member holds: it is written back")

    def check_later(self, name: str, log: LogVersion) -> None:
        """See that the log that is there was written back, if this member has left one.

        Raises:
            NatsError: it was not.
        """
        former = self.logs[name].log
        later = log.created not in self.condemnations[name] and log.generation > former.generation
        if self.has_left(name) and not later:
            raise NatsError(f"{name} is not written back yet")

    def holdings(self) -> dict[str, LogHolding]:
        """Return what this member holds of each log that it has read."""
        return {
            name: LogHolding(log.created, log.generation, current().sequence, self.has_left(name))
            for name, (log, current) in self.logs.items()
        }

    def servers(self) -> dict[str, ServerRecord | None]:
        """Return the servers of members that are noted, by their ids, with their places."""
        return {
            peer_id(key.removeprefix(SERVER)): decode_server_record(value)
            for logs in self.logs.values()
            for key, value in logs.current().system.items(SERVER, 0)
        }


async def log_now(client: NatsClient, name: str) -> LogVersion:
    """Return the log of that name that is there; raises NatsError: nobody leads one."""
    info = await ask_successfully(client, f"STREAM.INFO.{name}")
    return LogVersion(
        str(info["created"]), generation_of(info), info["config"].get("metadata") or {}
    )
