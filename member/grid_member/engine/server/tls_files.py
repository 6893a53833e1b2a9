"""The files of the members' TLS: certificates that end soon, and files that have changed.

Servers that are connected stay so. One that is started again with a certificate out of its time is
taken by nobody, so it is told before: in the log each day, and as what is in the way while a member
waits for others. Of renewed files the server is told, which reads them anew.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.io.certificates import concerns, concerns_of_authorities
from grid_member.engine.io.files import file_signature
from grid_member.engine.io.key_pairs import KEY, load_key_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.cluster_settings import ClusterTls
    from grid_member.engine.io.certificates import Concern

LOOK_S: Final = 10.0
"""How often the files are looked at. There is no watching of directories: a look finds what
Kubernetes does as well, which swaps a link to a directory of files."""
_log: Final = logging.getLogger("grid.engine.nats")
_FileSignatures: TypeAlias = tuple[tuple[int, ...], ...]


def now_utc() -> datetime:
    """Return what the machine's clock says."""
    return datetime.now(UTC)


class Lifetimes:
    """Looks at the files that members know each other with."""

    def __init__(self, tls: ClusterTls | None, clock: Callable[[], datetime] = now_utc) -> None:
        self._tls = tls
        self._clock = clock
        self._concerns: list[str] = []
        self.over: str | None = None
        """What is not valid now, and what to do; None: nothing is known."""

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while self._tls is not None:
            await self._look(self._tls)
            await asyncio.sleep(LOOK_S)

    async def _look(self, tls: ClusterTls) -> None:
        over, told = list[str](), list[str]()
        for what, concern in await asyncio.to_thread(_concerns, tls, self._clock()):
            told.append(f"{what}: {concern.why}")
            if not concern.valid:
                over.append(told[-1])
        self.over = "; ".join(over) or None
        for what in told:
            if what not in self._concerns:  # the days that are left are others each day
                _log.warning("%s", what)
        self._concerns = told


def _concerns(tls: ClusterTls, now: datetime) -> list[tuple[str, Concern]]:
    """Return what is the matter, each with the setting and the file. Blocks."""
    own, ca = tls.certificate_file, tls.ca_file
    found = [(f"certificate-file of the members' TLS, {own}", one) for one in concerns(own, now)]
    of_ca = concerns_of_authorities(ca, now, own)
    return found + [(f"ca-file of the members' TLS, {ca}", one) for one in of_ca]


async def renewals(tls: ClusterTls, seen: _FileSignatures, read_anew: Callable[[], None]) -> None:
    """Have the files read anew whenever they have changed, until cancelled.

    Files that are still being written are left alone until two looks find the same. A certificate
    and a key that do not fit are left alone, too, and the log says why; what else the server cannot
    use it says in its log, and goes on with what it had. `seen` is what `file_signatures` found
    before the server read the files, which it has done `LOOK_S` before `read_anew` tells it.
    """
    former = seen
    while True:
        await asyncio.sleep(LOOK_S)
        found = await asyncio.to_thread(file_signatures, tls)
        if found == former != seen and () not in found:
            problem = await asyncio.to_thread(pair_problem, tls)
            if problem is None:
                _log.info("the members' TLS files have changed: nats-server reads them again")
                read_anew()
            else:
                _log.warning("the members' changed TLS files are not taken: %s", problem)
            seen = found
        former = found


def pair_problem(tls: ClusterTls) -> str | None:
    """Return why the certificate and the key cannot be used together. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    problem = load_key_pair(context, tls.certificate_file, tls.key_file)
    if problem is None:
        return None
    is_key = problem.file == KEY
    name, file = ("key", tls.key_file) if is_key else ("certificate", tls.certificate_file)
    return f"network.cluster.ssl.{name}-file: {file} {problem.why}"


def file_signatures(tls: ClusterTls) -> _FileSignatures:
    """Return what changes whenever one of the files, or a link on the way to it, does. Blocks."""
    return tuple(map(file_signature, (tls.certificate_file, tls.key_file, tls.ca_file)))
