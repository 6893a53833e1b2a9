"""Questions to all that listen to a subject, servers or members, and answers to such questions."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

STREAMS: Final = b"$SYS.REQ.SERVER.PING.JSZ"
"""Asks servers for their streams, and for the group that decides about these."""
GROUPS: Final = b"$SYS.REQ.SERVER.PING.RAFTZ"
"""Asks servers for the groups that they are in."""
ALL_SERVERS_ANSWER_S: Final = 1.0
"""How long all servers have to answer a question."""


async def ask_all(
    client: NatsClient,
    subject: bytes,
    question: bytes,
    within_s: float,
    take: Callable[[bytes], bool | None],
) -> None:
    """Ask all that listen to a subject, and let `take` have each answer that comes in time.

    Returns before that time once `take` returned True: no further answer is waited for.
    """
    waiting = asyncio.ensure_future(asyncio.sleep(within_s))

    def take_all(messages: Sequence[Message]) -> None:
        for message in messages:
            if take(message.payload):
                waiting.cancel()

    inbox = client.unused_inbox()
    subscription = client.subscribe(inbox, take_all)
    try:
        client.publish(subject, question, inbox)
        await asyncio.wait({waiting})
    finally:
        waiting.cancel()
        subscription.unsubscribe()


async def all_answers(
    system: NatsClient, subject: bytes, request: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Ask all servers, over a connection in the account of the system; return what came in time."""
    answers: list[dict[str, Any]] = []

    def take(payload: bytes) -> None:
        answer = json.loads(payload or b"{}")
        if isinstance(answer, dict):
            answers.append(answer)

    question = json.dumps(request).encode() if request else b""
    await ask_all(system, subject, question, ALL_SERVERS_ANSWER_S, take)
    return answers


def answer_each(
    client: NatsClient, subject: bytes, answer: Callable[[bytes], bytes | None]
) -> Subscription:
    """Let `answer` have each message of a subject from now on, and send what it returns.

    None is no answer. A message that asks for none is taken as well.
    """

    def take(messages: Sequence[Message]) -> None:
        for message in messages:
            said = answer(message.payload)
            if message.reply and said is not None:
                client.publish(message.reply, said)

    return client.subscribe(subject, take)
