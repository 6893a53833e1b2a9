"""Whether a request may be answered: HTTP Basic, and the first two parameters of a body.

    header()      before the body is read   on the management listener and where protected: Basic
    parameters()  after it was split        security off: the cluster's name; on: user and password

Probes never come to a wrong answer here: header() asks nothing of them and they have no body. Each
request tests one pair of credentials at most, and no test waits between looking at the slow-down
and counting its outcome, so that requests sent at once cannot slip through together.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hmac
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.security.audit import Audit
from grid_member.security.realms import Realm
from grid_member.security.throttle import Throttle, UserKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from grid_member.config.model.member import EndpointGroup
    from grid_member.config.model.security import RealmConfig, SecurityConfig

_SCHEME: Final = "basic"
_UNQUOTABLE: Final = '"\\'
_WRITES: Final = frozenset({"POST", "PUT", "DELETE"})


class LoginOutcome(enum.Enum):
    """What became of the credentials of a request."""

    NOT_ASKED = "not asked"
    ACCEPTED = "accepted"
    MISSING = "no credentials"
    WRONG = "wrong credentials"
    SLOWED = "too many failures"
    """The address has to wait, and nobody is told whether they were right."""


@dataclass(frozen=True, slots=True)
class LoginVerdict:
    """The outcome, and who it was if that is known."""

    outcome: LoginOutcome
    user: str | None = None
    retry_after_s: int = 0
    """With SLOWED: the value of the Retry-After header."""

    @property
    def allows(self) -> bool:
        """True when the request may go on."""
        return self.outcome in (LoginOutcome.ACCEPTED, LoginOutcome.NOT_ASKED)


NOT_ASKED: Final = LoginVerdict(LoginOutcome.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """Where a request comes from, where it goes, and its `Authorization` headers."""

    remote: str | None
    endpoint: str
    """As `audit.endpoint` names it."""
    authorization: tuple[str, ...] = field(default=(), repr=False)


class Gate:
    """Lets the requests of one listener in, or not."""

    def __init__(
        self,
        listener: str,
        cluster_name: str,
        security: SecurityConfig,
        guard: RealmConfig | None,
        clock: Callable[[], float],
    ) -> None:
        """Take what the listener asks for.

        Args:
            listener: how audit lines name it.
            cluster_name: what callers give in place of credentials while security is off.
            security: the member's.
            guard: the realm of the management and of the WAN listener, which ask everybody for
                Basic authentication, with security off as well; None for the REST listener.
            clock: seconds that only go forward.
        """
        realm = security.member_realm if security.enabled else None
        self._cluster_name = cluster_name
        self._protected = security.protected_endpoints
        self._members = Realm(realm) if realm else None
        self._asks_everybody = guard is not None
        self._guard = Realm(guard) if guard else self._members
        self._throttle = Throttle(clock)
        self.audit = Audit(listener)
        self.slowed_count = 0
        """How many attempts were turned away because their address has to wait."""

    @property
    def challenge(self) -> str:
        """The value of the WWW-Authenticate header that goes with a 401."""
        name = self._guard.name if self._guard else ""
        shown = "".join(c for c in name if " " <= c <= "~" and c not in _UNQUOTABLE)
        return f'Basic realm="{shown}", charset="UTF-8"'

    def header(
        self,
        attempt: LoginAttempt,
        *,
        groups: Collection[EndpointGroup],
        parts: tuple[str, ...],
        probe: bool,
        everything_below: bool = False,
    ) -> LoginVerdict:
        """Check the Basic header where one must be; a verdict that does not allow is a 401.

        Elsewhere it is not looked at, so that these endpoints do not help to guess a password.
        """
        if probe or not self._is_protected(groups, parts, everything_below):
            return NOT_ASKED
        return self._basic(attempt, self._guard)

    def parameters(
        self, attempt: LoginAttempt, earlier: LoginVerdict, parameters: tuple[str, ...]
    ) -> LoginVerdict:
        """Check the first two parameters of a body; a verdict that does not allow is a 403.

        Args:
            attempt: as for `header`.
            earlier: what `header` said about this request; it let it through.
            parameters: at least two.
        """
        first, second = parameters[:2]
        by_header = earlier.outcome is LoginOutcome.ACCEPTED
        if self._members is None:
            if by_header and not first:
                return earlier
            return self._check_cluster_name(attempt, earlier, first)
        if first or second:
            return self._test(attempt, self._members, (first, second))
        return earlier if by_header else self._basic(attempt, self._members)

    def audits(self, verdict: LoginVerdict, method: str, *, everything_below: bool) -> bool:
        """Return whether a call without parameters has an audit line: a write with credentials.

        On the REST listener it has one only when it changes everything below its path: single
        entries are what a cluster does all day, and would fill the log.
        """
        authenticated = verdict.outcome is LoginOutcome.ACCEPTED and method in _WRITES
        return authenticated and (self._asks_everybody or everything_below)

    def _is_protected(
        self, groups: Collection[EndpointGroup], parts: tuple[str, ...], everything_below: bool
    ) -> bool:
        return self._asks_everybody or (
            self._members is not None
            and self._protected.covers(groups, parts, everything_below=everything_below)
        )

    def _check_cluster_name(
        self, attempt: LoginAttempt, earlier: LoginVerdict, name: str
    ) -> LoginVerdict:
        # The name is no secret: a wrong one is a mistake and slows nobody down.
        given = name.encode("utf-8", "surrogatepass")
        if hmac.compare_digest(given, self._cluster_name.encode()):
            return LoginVerdict(LoginOutcome.ACCEPTED, earlier.user)
        self.audit.log_denial("wrong cluster name", attempt, earlier.user)
        return LoginVerdict(LoginOutcome.WRONG, earlier.user)

    def _basic(self, attempt: LoginAttempt, realm: Realm | None) -> LoginVerdict:
        given = [header for header in attempt.authorization if _scheme(header) == _SCHEME]
        if not given or realm is None:
            return self._deny(attempt, LoginVerdict(LoginOutcome.MISSING))
        # Two of them would leave open which one an intermediary has looked at.
        pair = basic_credentials(given[0]) if len(attempt.authorization) == 1 else None
        if pair is None:
            # No guess: it cannot be right.
            return self._deny(attempt, LoginVerdict(LoginOutcome.WRONG))
        return self._test(attempt, realm, pair)

    def _test(self, attempt: LoginAttempt, realm: Realm, pair: tuple[str, str]) -> LoginVerdict:
        # Compared during a wait, too: otherwise the time would tell what is done with the outcome.
        verified = realm.verify(*pair)
        who = UserKey(realm.name, verified.user) if verified.user is not None else None
        wait_s = self._throttle.wait_s(attempt.remote)
        if wait_s > 0 and not self._throttle.check(attempt.remote, who, right=verified.accepted):
            return self._slow(attempt, math.ceil(wait_s))
        if verified.accepted and who is not None:
            self._throttle.note_success(attempt.remote, who)
            return LoginVerdict(LoginOutcome.ACCEPTED, verified.user)
        self._throttle.note_failure(attempt.remote)
        return self._deny(attempt, LoginVerdict(LoginOutcome.WRONG, verified.user))

    def _slow(self, attempt: LoginAttempt, wait_s: int) -> LoginVerdict:
        verdict = LoginVerdict(LoginOutcome.SLOWED, retry_after_s=wait_s)
        self.slowed_count += 1
        count = self._throttle.note_refusal(attempt.remote)
        # The first, second, fourth, eighth: whoever is turned away cannot fill the log.
        if count & (count - 1) == 0:
            self._deny(attempt, verdict)
        return verdict

    def _deny(self, attempt: LoginAttempt, verdict: LoginVerdict) -> LoginVerdict:
        wait_s = verdict.retry_after_s or math.ceil(self._throttle.wait_s(attempt.remote))
        self.audit.log_denial(verdict.outcome.value, attempt, verdict.user, wait_s or None)
        return verdict


def basic_credentials(header: str) -> tuple[str, str] | None:
    """Return the name and password of a Basic header (RFC 7617), None when it holds none.

    The name ends at the first colon; the password may hold more. Both are UTF-8.
    """
    if _scheme(header) != _SCHEME:
        return None
    try:
        text = base64.b64decode(header.partition(" ")[2].strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def _scheme(header: str) -> str:
    return header.partition(" ")[0].lower()
