"""When a log that is short is read again: to ask where it ends costs less."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.streams import NoStreamError, answered

if TYPE_CHECKING:
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.errors import ShortError

ASK_S: Final = 1.0
"""How often it is asked where a log ends."""
LONGEST_S: Final = 30.0
"""How long a log is left alone at most."""


async def until_longer(client: NatsClient, error: ShortError, delay_s: float) -> None:
    """Wait before a log is read again: until it has become long enough, or is another one.

    One that stays as it is is left alone for `delay_s`: servers may have been taken off meanwhile.

    Args:
        client: connected to the member's own server.
        error: names the log, and the record that it ended before.
        delay_s: the next one had better be `longer(delay_s)`.
    """
    now_s, created, was_short = asyncio.get_running_loop().time, "", False
    ends_s = now_s() + delay_s
    while True:
        try:
            told = await answered(client, f"STREAM.INFO.{error.stream}")
            short = int(told["state"]["last_seq"]) < error.sequence
            found = str(told["created"])
        except NoStreamError:
            return  # a rescue deleted it
        except (NatsError, ValueError, KeyError, TypeError, AttributeError):
            pass
        else:
            if created not in {"", found} or (was_short and not short):
                return
            was_short, created = short, found
        if (left_s := ends_s - now_s()) <= 0:
            return
        await asyncio.sleep(min(ASK_S, left_s))


def longer(delay_s: float) -> float:
    """Return how long a log is left alone after it was for that long, and lacks something still."""
    return min(2 * delay_s, LONGEST_S)
