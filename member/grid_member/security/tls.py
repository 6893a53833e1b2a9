"""TLS from files: the context that new connections get, made anew when the files change.

    TlsError        the files cannot be used; the message names the setting and the file

A context is made completely or not at all, and replaced as one: a file that is half written, or a
key that does not belong to the certificate beside it yet, leaves the old one in place. Connections
that are open keep what they began with.
"""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_member.config.model.security import ClientCertificates
from grid_member.engine.io.certificates import concerns, concerns_of_authorities
from grid_member.engine.io.files import file_signature
from grid_member.engine.io.key_pairs import CERTIFICATE, authorities_problem, load_key_pair
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from grid_member.config.model.security import TlsConfig
    from grid_member.engine.io.key_pairs import PairProblem

RELOAD_PERIOD_S: Final = 10.0
MAX_FILE_BYTES: Final = 1 << 20
ALPN: Final = ("http/1.1",)
MINIMUM_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_VERIFIED: Final = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}
_log: Final = logging.getLogger("grid.tls")
_Signature: TypeAlias = tuple[tuple[int, ...], ...]


class TlsError(Exception):
    """The files cannot be used; the message says which, and what to do."""


def now_utc() -> datetime:
    """Return what the machine's clock says."""
    return datetime.now(UTC)


class Validity:
    """Warns of what is out of date, or will be soon, in the files of one listener."""

    def __init__(self, config: TlsConfig, clock: Callable[[], datetime] = now_utc) -> None:
        """Have told nothing yet."""
        self._config = config
        self._clock = clock
        self._warned_concerns: set[tuple[str, str]] = set()

    def tell(self) -> None:
        """Log what was not told before; how many days are left is another number each day. Blocks.

        The files are those that are there now, which may not have been taken.
        """
        config, now = self._config, self._clock()
        certificate, ca = config.certificate, config.client_ca
        of_ca = [] if ca is None else concerns_of_authorities(ca, now)
        told = set[tuple[str, str]]()
        for name, file, found in (
            ("certificate-file", certificate, concerns(certificate, now)),
            ("client-ca-file", ca, of_ca),
        ):
            for concern in found:
                told.add((name, concern.why))
                if (name, concern.why) not in self._warned_concerns:
                    event(
                        _log,
                        logging.WARNING,
                        f"certificate {'expires soon' if concern.valid else 'is not valid now'}",
                        why=concern.why,
                        setting=f"{config.setting}.{name}",
                        file=str(file),
                    )
        self._warned_concerns = told


class ServerTls:
    """The files of one listener and the context made from them."""

    def __init__(self, config: TlsConfig) -> None:
        """Read the files.

        Raises:
            TlsError: they cannot be used.
        """
        self._config = config
        self._signature = _signature(config)
        self.context = server_context(config)
        """What a new connection is to use."""
        self._last_warning = ""
        self._validity = Validity(config)
        self._validity.tell()

    def refresh(self) -> bool:
        """Take the files' new contents if there are any; tell whether it did.

        Blocks for as long as the files take to read. What goes wrong is logged, once for each way
        of going wrong, and tried again with the next call.
        """
        before = _signature(self._config)
        if before == self._signature:
            self._last_warning = ""
            self._validity.tell()
            return False
        try:
            context = server_context(self._config)
        except TlsError as error:
            self._tell(str(error))
            return False
        if _signature(self._config) != before:
            # Written to meanwhile: what was read may be half of the old and half of the new.
            return False
        self.context, self._signature, self._last_warning = context, before, ""
        event(_log, logging.INFO, "certificate reloaded", setting=self._config.setting)
        self._validity.tell()
        return True

    def _tell(self, message: str) -> None:
        if message != self._last_warning:
            self._last_warning = message
            event(_log, logging.WARNING, "certificate not reloaded, the old one stays", why=message)


class Refreshed(Protocol):
    """Something made of files."""

    def refresh(self) -> bool:
        """Take the files' new contents if there are any; tell whether it did."""


async def keep_fresh(
    listeners: Iterable[Refreshed],
    *,
    wait: Callable[[float], Awaitable[object]],
    in_thread: Callable[[Callable[[], bool]], Awaitable[bool]],
    period_s: float = RELOAD_PERIOD_S,
) -> None:
    """Look at the files again and again, until cancelled.

    Args:
        listeners: those made of files.
        wait: `asyncio.sleep`.
        in_thread: `asyncio.to_thread`, as files may be slow and keys slow to decrypt.
        period_s: how long a change may go unnoticed. There is no watching of directories: a poll
            finds what Kubernetes does as well, which swaps a link to a directory of files.
    """
    while True:
        await wait(period_s)
        for one in tuple(listeners):
            await in_thread(one.refresh)


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Return a context from the files as they are now.

    Raises:
        TlsError: a file is missing, unreadable or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MINIMUM_VERSIONS[config.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(list(ALPN))
    load_pair(context, config)
    context.verify_mode = _VERIFIED[config.client_certificates]
    if config.client_ca is not None:
        load_authorities(context, f"{config.setting}.client-ca-file", config.client_ca)
    return context


def check_members_tls(config: TlsConfig) -> None:
    """Refuse files that no server of members can use; which are out of date is told with it.

    Raises:
        TlsError: one is missing, unreadable or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, config, encrypted="members need a key that is not")
    if config.client_ca is not None:
        load_authorities(context, f"{config.setting}.ca-file", config.client_ca)


def load_pair(context: ssl.SSLContext, config: TlsConfig, encrypted: str | None = None) -> None:
    """Let a context show a certificate.

    Args:
        context: which.
        config: names the files.
        encrypted: what to do about a key that is encrypted and has no password.

    Raises:
        TlsError: a file is missing, unreadable or not what it should be.
    """
    _check_readable(config.certificate, f"{config.setting}.certificate-file")
    _check_readable(config.key, f"{config.setting}.key-file")
    problem = load_key_pair(context, config.certificate, config.key, config.key_password)
    if problem is not None:
        raise TlsError(_pair_problem(config, problem, encrypted))


def _pair_problem(config: TlsConfig, problem: PairProblem, encrypted: str | None) -> str:
    if problem.file == CERTIFICATE:
        return f"{config.setting}.certificate-file: {config.certificate} {problem.why}"
    key = f"{config.setting}.key-file: {config.key}"
    if problem.encrypted and config.key_password is None:
        return f"{key} is encrypted: {encrypted or f'set {config.setting}.key-password'}"
    if problem.encrypted:
        return f"{key} cannot be decrypted: {config.setting}.key-password is wrong"
    return f"{key} {problem.why}"


def load_authorities(context: ssl.SSLContext, setting: str, file: Path) -> None:
    """Let a context trust the authorities in a file, which a setting names.

    Raises:
        TlsError: it is missing, unreadable or holds none.
    """
    _check_readable(file, setting)
    try:
        context.load_verify_locations(file)
    except (ssl.SSLError, OSError):
        wrong = authorities_problem(file)
        raise TlsError(f"{setting}: {file} {wrong}") from None


def _check_readable(file: Path, setting: str) -> None:
    try:
        with file.open("rb") as opened:
            size = len(opened.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise TlsError(f"{setting}: {file}: {error.strerror}") from None
    if not size:
        raise TlsError(f"{setting}: {file} is empty")
    if size > MAX_FILE_BYTES:
        raise TlsError(f"{setting}: {file} is longer than {MAX_FILE_BYTES >> 20} MiB")


def _signature(config: TlsConfig) -> _Signature:
    """Return what changes whenever one of the files, or a link on the way to it, does."""
    files = (config.certificate, config.key, config.client_ca)
    return tuple(file_signature(file) for file in files if file is not None)
