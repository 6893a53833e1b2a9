"""When a log that is short is read again: to ask where it ends costs less."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from grid_member.engine.nats.admin.peers import peer_ids
from grid_member.engine.nats.admin.streams import NoStreamError, ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.errors import ShortError

ASK_S: Final = 1.0
"""How often it is asked where a log ends."""
LONGEST_S: Final = 30.0
"""How long a log is left alone at most."""


class _LogLength(NamedTuple):
    """What who leads a log tells of it."""

    created: str
    short: bool
    servers: frozenset[str]
    """The ids of those that hold it; none of a server that is alone."""


async def await_growth(client: NatsClient, error: ShortError, delay_s: float) -> None:
    """Wait before a log is read again: until it has become long enough, or is another one.

    Or until a server that held it was taken off: what only that one had is missed no more. One that
    stays as it is is left alone for `delay_s`, then had better be for `longer(delay_s)`; who leads
    it does not tell of other servers.
    """
    now_s, former = asyncio.get_running_loop().time, cast("_LogLength | None", None)
    ends_s = now_s() + delay_s
    while True:
        try:
            found = _log_length(
                await ask_successfully(client, f"STREAM.INFO.{error.stream}"), error.sequence
            )
        except NoStreamError:
            return  # a rescue deleted it
        except (NatsError, ValueError, KeyError, TypeError, AttributeError):
            pass
        else:
            if former is not None and _is_news(former, found):
                return
            former = found
        if (left_s := ends_s - now_s()) <= 0:
            return
        await asyncio.sleep(min(ASK_S, left_s))


def _log_length(info: Mapping[str, Any], sequence: int) -> _LogLength:
    cluster, short = info.get("cluster"), int(info["state"]["last_seq"]) < sequence
    return _LogLength(str(info["created"]), short, peer_ids(cluster) if cluster else frozenset())


def _is_news(former: _LogLength, found: _LogLength) -> bool:
    """Tell whether what is found may hold now what it lacked, or is not to hold it any more."""
    grown, taken_off = former.short and not found.short, former.servers - found.servers
    return found.created != former.created or grown or bool(taken_off)


def longer(delay_s: float) -> float:
    """Return how long a log is left alone after it was for that long, and lacks something still."""
    return min(2 * delay_s, LONGEST_S)
