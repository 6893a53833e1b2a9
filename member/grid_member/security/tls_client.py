"""TLS of a publisher to its target: the context for new connections, made anew with the files."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

from grid_member.config.model.security import TlsConfig
from grid_member.engine.io.files import file_signature
from grid_member.security.tls import (
    ALPN,
    MINIMUM_VERSIONS,
    TlsError,
    load_authorities,
    load_pair,
)
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from grid_member.config.model.wan import WanTargetTlsConfig

_log: Final = logging.getLogger("grid.tls")


class ClientTls:
    """The files of one publisher and the context made from them."""

    def __init__(self, config: WanTargetTlsConfig) -> None:
        """Read the files.

        Raises:
            TlsError: they cannot be used.
        """
        self._config = config
        self._signature = self._look()
        self._context = client_context(config)
        self._last_warning = ""

    def current(self) -> ssl.SSLContext:
        """Return what a new connection is to use."""
        return self._context

    def refresh(self) -> bool:
        """Take the files' new contents if there are any; tell whether it did.

        Blocks for as long as the files take to read. What goes wrong is logged, once for each way
        of going wrong, and tried again with the next call.
        """
        before = self._look()
        if before == self._signature:
            self._last_warning = ""
            return False
        try:
            context = client_context(self._config)
        except TlsError as error:
            self._tell(str(error))
            return False
        if self._look() != before:
            # Written to meanwhile: what was read may be half of the old and half of the new.
            return False
        self._context, self._signature, self._last_warning = context, before, ""
        event(_log, logging.INFO, "certificate reloaded", setting=self._config.setting)
        return True

    def _look(self) -> tuple[tuple[int, ...], ...]:
        files = self._config.ca, self._config.certificate, self._config.key
        return tuple(file_signature(file) for file in files if file is not None)

    def _tell(self, message: str) -> None:
        if message != self._last_warning:
            self._last_warning = message
            event(_log, logging.WARNING, "certificate not reloaded, the old one stays", why=message)


def client_context(config: WanTargetTlsConfig) -> ssl.SSLContext:
    """Return a context that checks the target's name and certificate.

    Raises:
        TlsError: a file is missing, unreadable or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = MINIMUM_VERSIONS[config.minimum_version]
    context.options |= ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(list(ALPN))
    load_authorities(context, f"{config.setting}.ca-file", config.ca)
    if config.certificate is not None and config.key is not None:
        pair = config.certificate, config.key, config.key_password
        load_pair(context, TlsConfig(config.setting, *pair))
    return context
