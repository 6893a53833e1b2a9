"""Renewed certificates of the members' TLS: the server is told to read its files anew."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.io.files import file_signature
from grid_member.engine.io.key_pairs import KEY, load_key_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.cluster_settings import ClusterTls

LOOK_S: Final = 10.0
"""How often the files are looked at. There is no watching of directories: a look finds what
Kubernetes does as well, which swaps a link to a directory of files."""
_log: Final = logging.getLogger("grid.engine.nats")
_FileSignatures: TypeAlias = tuple[tuple[int, ...], ...]


async def renewals(tls: ClusterTls, seen: _FileSignatures, read_anew: Callable[[], None]) -> None:
    """Have the files read anew whenever they have changed, until cancelled.

    Files that are still being written are left alone until two looks find the same. A certificate
    and a key that do not fit are left alone, too, and the log says why; what else the server cannot
    use it says in its log, and goes on with what it had.

    Args:
        tls: names the files.
        seen: the files as `file_signatures` found them before the server read them.
        read_anew: tells the server, which has been there for `LOOK_S` by then.
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
