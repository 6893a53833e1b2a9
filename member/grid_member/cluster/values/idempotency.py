"""The remembered outcomes of calls that carry an `Idempotency-Key`.

    no key known ──▶ under way on this member ──▶ remembered in the system store, for a day at least

An outcome is remembered together with its effect, so a caller that never got the answer, because it
or the member died, sends the same call again and gets the first answer without a second effect.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

MAX_KEY_CHARACTERS: Final = 128
KEEP_S: Final = 25 * 3600
"""The promise is 24 h; the rest covers clocks that differ."""
MAX_OUTCOMES: Final = 10_000
MAX_OUTCOMES_BYTES: Final = 16 << 20
_PREFIX: Final = "idempotency/"
_KEY: Final = re.compile(rf"[!-~]{{1,{MAX_KEY_CHARACTERS}}}", re.ASCII)


def key_problem(keys: list[str]) -> str | None:
    """Return what is wrong with the values of a call's headers, None when there is one good key."""
    if len(keys) != 1:
        return "more than one Idempotency-Key"
    if not _KEY.fullmatch(keys[0]):
        return f"the Idempotency-Key must be 1 to {MAX_KEY_CHARACTERS} visible ASCII characters"
    return None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What a call was answered, and the fingerprint of what it asked."""

    request: str
    status: int
    body: bytes
    content_type: str | None
    headers: tuple[tuple[str, str], ...]

    def pack(self) -> bytes:
        """Return it as it is stored."""
        body = base64.b64encode(self.body).decode()
        content = [self.request, self.status, body, self.content_type, self.headers]
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, stored: bytes) -> StoredAnswer:
        """Return what `pack` made."""
        request, status, body, content_type, headers = json.loads(stored)
        pairs = tuple((str(name), str(value)) for name, value in headers)
        return cls(request, status, base64.b64decode(body), content_type, pairs)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call under way, with what others that carry its key wait for."""

    request: str
    finished: asyncio.Event = field(default_factory=asyncio.Event)


class StoredAnswers:
    """The outcomes by key, and the calls under way on this member."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store
        self._pending: dict[str, PendingCall] = {}

    def find(self, key: str) -> StoredAnswer | None:
        """Return the first outcome under the key, None when there is none yet."""
        stored = self._store.system_get(_PREFIX + key)
        return None if stored is None else StoredAnswer.unpack(stored)

    def remember(self, key: str, outcome: StoredAnswer) -> Put:
        """Return what keeps an outcome."""
        return Put(_PREFIX + key, outcome.pack(), KEEP_S)

    @property
    def full(self) -> bool:
        """Whether no further key can be kept for as long as is promised."""
        kept = self._store.system_items(_PREFIX)
        size = sum(len(value) for _, value in kept)
        return len(kept) + len(self._pending) >= MAX_OUTCOMES or size >= MAX_OUTCOMES_BYTES

    def pending(self, key: str) -> PendingCall | None:
        """Return the call under way with the key, None when there is none."""
        return self._pending.get(key)

    def begin(self, key: str, request: str) -> None:
        """Note that a call with the key is under way."""
        self._pending[key] = PendingCall(request)

    def end(self, key: str) -> None:
        """Let those that wait for the call with the key go on."""
        self._pending.pop(key).finished.set()
