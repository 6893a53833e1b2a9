"""Whether certificates are in their time, and for how long still."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.certificates import concerns, concerns_of_authorities
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.model.security import TlsConfig

_log: Final = logging.getLogger("grid.tls")


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
