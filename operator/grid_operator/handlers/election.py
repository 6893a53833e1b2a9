"""Waits for the Lease before the work begins, keeps it, and ends the work when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import Deposed, OperatorError, Rejected
from grid_operator.ports.kubernetes.lease import RETRY_S

if TYPE_CHECKING:
    import random

    from grid_operator.ports.kubernetes.lease import Lease

LOG: Final = logging.getLogger(__name__)

JITTER: Final = 0.2
GUARD_SHARE: Final = 0.1
"""How often the holder looks whether it still is, as a share of the time between renewals."""


class Election:
    """One candidate's part in the election of the operator that works."""

    def __init__(self, lease: Lease, rng: random.Random, retry_s: float = RETRY_S) -> None:
        self._lease = lease
        self._rng = rng
        self._retry_s = retry_s

    @property
    def holds(self) -> bool:
        """Whether this operator may work now."""
        return self._lease.held()

    async def win(self) -> None:
        """Return when the Lease is held.

        Raises:
            Rejected: The API server does not let this operator use the Lease.
        """
        known = ""
        while True:
            try:
                if await self._lease.attempt():
                    LOG.info("holding the Lease: at work")
                    return
            except Rejected as error:
                raise Rejected(
                    f"the Lease cannot be used: {error}; grant get, create and update of leases "
                    "in the operator's namespace, or start with --no-leader-election",
                    error.reason,
                ) from error
            except OperatorError as error:
                LOG.warning("the Lease cannot be asked for: %s", error)
            if self._lease.holder != known:
                known = self._lease.holder
                LOG.info("standing by: %s holds the Lease", known or "nobody")
            await self._pause()

    async def guard(self) -> None:
        """Renew the Lease for as long as that works; never returns.

        A renewal that hangs does not keep this from ending in time.

        Raises:
            Deposed: The Lease is lost, or may be another's soon.
        """
        renewing = asyncio.create_task(self._renew(), name="lease")
        try:
            while self._lease.held():  # noqa: ASYNC110 - a clock ends it, no event
                await asyncio.sleep(self._retry_s * GUARD_SHARE)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        raise Deposed("the Lease is lost: another operator may be at work")

    async def _renew(self) -> None:
        while True:
            await self._pause()
            try:
                await self._lease.attempt()
            except OperatorError as error:
                LOG.warning("the Lease was not renewed: %s", error)

    async def release(self) -> None:
        """Give the Lease back. To be called when the work has ended."""
        await self._lease.release()

    async def _pause(self) -> None:
        await asyncio.sleep(self._retry_s * self._rng.uniform(1 - JITTER, 1 + JITTER))
