"""Realms: whether a name and a password are those of a user, told in constant time."""

from __future__ import annotations

import hmac
import secrets
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config.model.security import RealmConfig

MAX_CREDENTIAL_CHARACTERS: Final = 4096
"""The most that the configuration accepts, so that nothing longer can be right."""
_SECRET_BYTES: Final = 32
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a name and a password fit together."""

    accepted: bool
    user: str | None
    """The name when the realm has such a user, else None: what was sent may be a password."""


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    name_digest: bytes
    pair_digest: bytes


class Realm:
    """The users of one realm.

    Names and passwords are compared as Unicode text in normalization form C, as RFC 7617 has them
    sent: the same characters typed on different systems are the same password. Case counts.
    """

    def __init__(self, config: RealmConfig) -> None:
        self.name = config.name
        # Digests under a key of this process have one length whatever they stand for, so that
        # comparing them tells neither a length nor how many characters were right.
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._entries = tuple(
            _Entry(user.name, self._digest(user.name), self._digest(user.name, user.password))
            for user in config.callers
        )

    def verify(self, user: str, password: str) -> Verification:
        """Return whether the two fit; the time depends on their own lengths alone."""
        fits = max(len(user), len(password)) <= MAX_CREDENTIAL_CHARACTERS
        given, secret = (user, password) if fits else ("", "")
        name, pair = self._digest(given), self._digest(given, secret)
        accepted, known = False, None
        # Every user is compared, so that the time does not tell which name exists.
        for entry in self._entries:
            accepted |= hmac.compare_digest(pair, entry.pair_digest)
            known = entry.name if hmac.compare_digest(name, entry.name_digest) else known
        return Verification(accepted and fits, known)

    def _digest(self, *texts: str) -> bytes:
        pieces = [unicodedata.normalize("NFC", t).encode("utf-8", "surrogatepass") for t in texts]
        # With its length before it no name can run over into the password.
        message = b"".join(len(p).to_bytes(_LENGTH_BYTES, "big") + p for p in pieces)
        return hmac.digest(self._secret, message, "sha256")
