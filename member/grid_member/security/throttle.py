"""The slow-down after repeated wrong credentials, for each remote address on its own.

    failures 1 … 9 ──▶ no wait          failure 10, 11, 12 … ──▶ wait 1, 2, 4 … 60 s
    success, or 15 quiet minutes ──▶ nothing is remembered

While an address waits, the answer is the usual refusal, at once, with Retry-After. Only a user who
was let in from this address in the last day gets through, so that nobody behind a shared address
keeps that user out. Guesses at such a user are counted with a record of their own that grows like
the address's, and are answered like everything else during the wait: they find out no more than
other guesses. The user's own successes then reset nothing, or whoever guesses would get nine new
attempts with each.

Delaying answers instead would slow nobody down who opens a second connection or
takes silence for a no, and would hold a task for each of them. Attempts during a wait neither count
nor prolong it, so an attacker cannot keep others behind the same address out for longer than the
longest wait at a time.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ADDRESSES: Final = 4096
FREE_FAILURES: Final = 9
"""So many a person or a script with an old password has before it is slowed down."""
FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 60.0
FORGET_AFTER_S: Final = 900.0
REMEMBER_USER_S: Final = 86_400.0
"""So long after a success a user gets through the waits of the address it came from."""
IPV6_PREFIX_BITS: Final = 64
"""What one machine is given: it may take any address in there."""
UNKNOWN: Final = "unknown"
_MAX_EXPONENT: Final = 16


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """What is remembered of one address."""

    failures: int
    failed_at_s: float
    refused_count: int = 0
    """How many attempts were turned away since the last failure."""

    @property
    def free_at_s(self) -> float:
        """When the next attempt is looked at."""
        return self.failed_at_s + wait_after(self.failures)

    def is_expired(self, now_s: float) -> bool:
        """Tell whether it is too old to count."""
        return now_s - self.failed_at_s >= FORGET_AFTER_S


@dataclass(frozen=True, slots=True)
class UserKey:
    """A user as configured; two realms may have users of one name."""

    realm: str
    user: str


@dataclass(frozen=True, slots=True)
class KnownUser:
    """What is remembered of a user who was let in from an address."""

    succeeded_at_s: float
    guesses: FailureRecord | None = None
    """The wrong passwords of this user during waits of the address."""

    def is_expired(self, now_s: float) -> bool:
        """Tell whether the success is too old to count."""
        return now_s - self.succeeded_at_s >= REMEMBER_USER_S

    def must_wait(self, now_s: float) -> bool:
        """Tell whether there were too many guesses of late."""
        return self.guesses is not None and self.guesses.free_at_s > now_s


def wait_after(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    if failures <= FREE_FAILURES:
        return 0.0
    exponent = min(failures - FREE_FAILURES - 1, _MAX_EXPONENT)
    return min(FIRST_WAIT_S * 2.0**exponent, MAX_WAIT_S)


def after_failure(record: FailureRecord | None, now_s: float) -> FailureRecord:
    """Return what is remembered after one more failure."""
    if record is None or record.is_expired(now_s):
        return FailureRecord(1, now_s)
    return FailureRecord(record.failures + 1, now_s)


def network_of(address: str | None) -> str:
    """Return what stands for an address: itself for IPv4, its /64 for IPv6."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    # A socket for both protocols shows IPv4 clients this way.
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX_BITS), strict=False))


class Throttle:
    """The records of one listener, the least recently failed address forgotten first."""

    def __init__(self, clock: Callable[[], float], max_addresses: int = MAX_ADDRESSES) -> None:
        self._clock = clock
        self._max_addresses = max_addresses
        self._records: OrderedDict[str, FailureRecord] = OrderedDict()
        self._users: OrderedDict[tuple[str, UserKey], KnownUser] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def wait_s(self, address: str | None) -> float:
        """Return how long the address has to wait; 0 when everybody there may try."""
        record = self._records.get(network_of(address))
        return max(0.0, record.free_at_s - self._clock()) if record else 0.0

    def note_refusal(self, address: str | None) -> int:
        """Count an attempt that was turned away; return how many there were in this wait."""
        key = network_of(address)
        record = self._records.get(key)
        if record is None:
            return 0
        self._records[key] = replace(record, refused_count=record.refused_count + 1)
        return record.refused_count + 1

    def note_failure(self, address: str | None) -> FailureRecord:
        """Count wrong credentials; return what is remembered now."""
        key, now_s = network_of(address), self._clock()
        record = self._records[key] = after_failure(self._records.get(key), now_s)
        self._records.move_to_end(key)
        self._forget(now_s)
        return record

    def check(self, address: str | None, who: UserKey | None, *, right: bool) -> bool:
        """Return whether an attempt gets through the wait of its address; count a guess.

        Args:
            address: where it comes from.
            who: the user that the attempt names, None when there is no such user.
            right: whether the password is the user's.
        """
        now_s = self._clock()
        key = (network_of(address), who) if who is not None else None
        known = self._users.get(key) if key is not None else None
        if key is None or known is None or known.is_expired(now_s) or known.must_wait(now_s):
            return False
        if not right:
            self._users[key] = replace(known, guesses=after_failure(known.guesses, now_s))
        return right

    def note_success(self, address: str | None, who: UserKey) -> None:
        """Remember the user, and forget what the address did wrong unless the user was known."""
        network, now_s = network_of(address), self._clock()
        known = self._users.pop((network, who), None)
        if known is None or known.is_expired(now_s):
            self._records.pop(network, None)
            known = KnownUser(now_s)
        self._users[network, who] = replace(known, succeeded_at_s=now_s)
        if len(self._users) > self._max_addresses:
            self._users.popitem(last=False)

    def _forget(self, now_s: float) -> None:
        while self._records:
            oldest = next(iter(self._records.values()))
            if len(self._records) <= self._max_addresses and not oldest.is_expired(now_s):
                return
            self._records.popitem(last=False)
