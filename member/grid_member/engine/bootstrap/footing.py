"""What one of several members stands on: its directory, and that no other process is the member.

Whichever goes, the member's server is killed at once and never started again: it would confirm what
no disk has, or share the vote of another one. An older twin ends the process. Without its directory
the member stays and says why it takes nothing; it is started again when the directory is back.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import JETSTREAM
from grid_member.engine.bootstrap.twins import Twins
from grid_member.engine.io.directory_lock import LOCK
from grid_member.engine.io.ground import Ground
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.bootstrap.incarnation import Incarnation

LOOK_S: Final = 1.0
_log: Final = logging.getLogger("grid.engine")


class Footing(Twins):
    """Watches both from `begin` to `end`."""

    ground: Ground | None = None
    """None before the begin, and where nothing is kept."""
    _looking: asyncio.Task[None] | None = None

    def begin(self, identity: MemberIdentity, ends: Callable[[EngineError], None]) -> Incarnation:
        """Return this process; ends is called when it has to end what it does as the member."""
        directory = self._settings.directory
        if directory is not None:
            own = directory / CLUSTER
            self.ground = Ground(
                directory, [directory / LOCK, own, own / JETSTREAM], of_several=True
            )
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return super().begin(identity, ends)

    def is_gone(self) -> bool:
        """Tell whether the directory is not there any more. Blocks, as the disk may."""
        return self.ground is not None and (self.ground.check_write() or self.ground.look())

    async def end(self) -> None:
        """Watch no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        await super().end()

    async def _look(self) -> None:
        while not await asyncio.to_thread(self.is_gone):  # noqa: ASYNC110 - paths tell of no change
            await asyncio.sleep(LOOK_S)
        if self.ground is not None and self.ground.loss is not None:
            _log.error("%s", self.ground.loss)
            self._fail(EngineError(self.ground.loss))
