"""A server that is started again without JetStream: it carries messages, and keeps no streams.

JetStream cannot begin later in the same process: as a leader the server would not tell its name.
So the server is ended when it may keep streams, and another one is started.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_BEGINS: Final = "jetstream {\n"
_HELD: Final = f"{_BEGINS}  enabled: false\n"


class ServerHold:
    """Whether the server of a member is held back at its next start, and until when."""

    def __init__(self) -> None:
        self.allowed: Callable[[], Awaitable[bool]] | None = None
        """Returns when a server that was started again may keep streams, and whether it is to
        forget which servers vote; None: it may at once, and forgets nothing."""
        self.released = False
        """Whether the server ends to be started with streams."""
        self._held = self._forgets = False

    def prepare(self, config: Path, store: Path, *, again: bool) -> None:
        """Have the next server that begins with this configuration keep streams, or none. Blocks.

        `store` is where the server keeps which servers vote, `again` tells whether there was one
        before, whose memory is gone.

        Raises:
            OSError: the file cannot be written, or the store not be removed.
        """
        self._held = again and self.allowed is not None and not self.released
        self.released = False
        if self._forgets and not self._held and store.exists():
            shutil.rmtree(store)  # a server that failed is held back, and released again
        self._forgets = False
        if self.allowed is None:
            return
        text = config.read_text(encoding="ascii")
        wanted = text.replace(_HELD, _BEGINS)
        wanted = wanted.replace(_BEGINS, _HELD) if self._held else wanted
        if wanted != text:
            replace_file(config, wanted)

    async def await_release(self, end: Callable[[], None]) -> None:
        """End the server that is held back once the next one may keep streams."""
        if self._held and self.allowed is not None:
            self._forgets = await self.allowed()
            self.released = True
            with contextlib.suppress(ProcessLookupError):
                end()
