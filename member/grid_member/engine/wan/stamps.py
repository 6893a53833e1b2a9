"""Stamps: when a key changed, as a number that orders the changes of all clusters.

A stamp has 59 bits until the year 2093: milliseconds since 2024, then 18 bits that count. The clock
of a shard is a hybrid logical clock: it follows the time of the log and the stamps that come from
other clusters, and never goes back. Below 2**60 a Python integer takes 32 bytes, above it 48.
"""

from __future__ import annotations

from typing import Final

EPOCH_MS: Final = 1_704_067_200_000
"""The begin of 2024, milliseconds since 1970."""
COUNTER_BITS: Final = 18
"""Of a stamp's lower end, which tell the changes of one millisecond apart."""
STAMP_BITS: Final = 59
"""Of a stamp that another cluster may send: 41 bits of milliseconds and the counter."""


def first_stamp(time_ms: int) -> int:
    """Return the least stamp of a millisecond since 1970; 0 up to the begin of 2024."""
    return time_ms - EPOCH_MS << COUNTER_BITS if time_ms > EPOCH_MS else 0


def last_stamp(time_ms: int) -> int:
    """Return the greatest stamp of a millisecond since 1970."""
    return first_stamp(time_ms) | (1 << COUNTER_BITS) - 1


def stamp_time_ms(stamp: int) -> int:
    """Return the millisecond since 1970 that a stamp is of."""
    return (stamp >> COUNTER_BITS) + EPOCH_MS


def next_stamp(clock: int, time_ms: int) -> int:
    """Return the stamp of a change that a cluster's own client makes.

    Args:
        clock: the greatest stamp of all changes that were applied before.
        time_ms: the log's time, milliseconds since 1970.
    """
    first = time_ms - EPOCH_MS << COUNTER_BITS  # below 0 before the epoch; every put comes here
    return first if first > clock else clock + 1
