"""Which certificates of members are believed.

The authority comes from a Secret and may be replaced at any time. The kubelet brings the new files
into the pods up to two minutes later, and until then members show what the former authority
signed: for a while both are trusted.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FORMER_TRUSTED_S: Final = 300.0
"""How long the former authority of a cluster is trusted beside the present one."""
MAX_CLUSTERS: Final = 2_000
"""Clusters whose authority is remembered; beyond it the longest unused is forgotten."""


class AuthorityError(Exception):
    """What should be certificates is none; the message says what to change."""


@dataclass(frozen=True, slots=True)
class _Trust:
    present: str
    since: float
    former: str
    context: ssl.SSLContext


class MemberTrust:
    """Makes, keeps and renews the TLS contexts of clusters."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Trust nobody yet.

        Args:
            now: A monotonic clock, in seconds.
        """
        self._now = now
        self._trusts: dict[str, _Trust] = {}

    def context(self, cluster: str, authority: str) -> ssl.SSLContext:
        """Return what to connect to the cluster's members with.

        Args:
            cluster: Tells one cluster from another.
            authority: Certificates as PEM; empty: what this system trusts.

        Raises:
            AuthorityError: The authority is no PEM.
        """
        known = self._trusts.pop(cluster, None)
        trust = self._renewed(known, authority)
        if len(self._trusts) >= MAX_CLUSTERS:
            del self._trusts[next(iter(self._trusts))]
        self._trusts[cluster] = trust
        return trust.context

    def _renewed(self, known: _Trust | None, authority: str) -> _Trust:
        now = self._now()
        if known is None:
            return _Trust(authority, now, "", _context(authority, ""))
        if known.present != authority:
            return _Trust(authority, now, known.present, _context(authority, known.present))
        if known.former and now - known.since > FORMER_TRUSTED_S:
            return _Trust(authority, known.since, "", _context(authority, ""))
        return known


def _context(present: str, former: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=present or None)
    except (ssl.SSLError, ValueError) as error:
        raise AuthorityError("ca.crt of the Secret of spec.tls is no PEM certificate") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if former:
        context.load_verify_locations(cadata=former)
    return context
