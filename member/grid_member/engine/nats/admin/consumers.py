"""Consumers of one stream: how they are made, who leads them, and how they are given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.nats.admin.streams import ask_successfully

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

HEARTBEAT_S: Final = 1.0
"""How often the server tells that the consumer lives while nothing happens."""
INACTIVE_S: Final = 30
"""The server forgets a consumer that nobody listens to."""
REQUEST_TIMEOUT_S: Final = 2.0


def consumer_request(
    stream: str, name: str, deliver: str, after: int
) -> tuple[str, dict[str, object]]:
    """Return the call that makes a consumer of everything behind sequence `after`, and its body."""
    config: dict[str, object] = {
        "name": name,
        "deliver_subject": deliver,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "ack_policy": "none",
        "replay_policy": "instant",
        "flow_control": True,
        "idle_heartbeat": int(HEARTBEAT_S * 1e9),
        "inactive_threshold": INACTIVE_S * 10**9,
        "num_replicas": 1,
        "mem_storage": True,
    }
    request: dict[str, object] = {"stream_name": stream, "action": "create", "config": config}
    return f"CONSUMER.CREATE.{stream}.{name}", request


class Consumers:
    """The consumers that were made of one stream for one member, by their numbers."""

    def __init__(self, client: NatsClient, stream: str, member: str) -> None:
        """Make none; member is unique to its incarnation, as part of names and subjects."""
        self.client = client
        self.stream = stream
        self._member = member
        self._number = 0

    def number(self) -> int:
        """Return the number of the next one."""
        self._number += 1
        return self._number

    def subject(self, number: int) -> str:
        """Return where what it delivers goes; it begins when somebody listens there."""
        return f"_FEED.{self._member}.{self.stream}.{number}"

    async def make(self, number: int, after: int) -> str | None:
        """Make one of all messages behind sequence `after`.

        Returns:
            The server that leads it, None where servers tell none.

        Raises:
            NatsError: it was refused, or nobody knows.
        """
        name, subject = self._name(number), self.subject(number)
        call, request = consumer_request(self.stream, name, subject, after)
        return _leader(await ask_successfully(self.client, call, request, REQUEST_TIMEOUT_S))

    async def leader(self, number: int) -> str | None:
        """Return the server that leads one, None where servers tell none.

        Raises:
            NatsError: nobody knows, or there is none of that number.
        """
        call = f"CONSUMER.INFO.{self.stream}.{self._name(number)}"
        return _leader(await ask_successfully(self.client, call))

    def give_up(self, number: int) -> None:
        """Have one deleted, whether it was made or not."""
        call = f"$JS.API.CONSUMER.DELETE.{self.stream}.{self._name(number)}"
        self.client.publish(call.encode(), b"")

    def _name(self, number: int) -> str:
        return f"{self._member}-{number}"


def _leader(told: dict[str, Any]) -> str | None:
    leader: str | None = (told.get("cluster") or {}).get("leader")
    return leader
