"""A cluster as the clients of stories see it."""

from __future__ import annotations

from typing import Protocol


class Side(Protocol):
    """One of the clusters."""

    name: str
    peer: str
    """The name of the other one."""

    @property
    def runs(self) -> bool:
        """Whether it makes sense to ask."""
        ...

    async def put(self, key: str, value: str) -> bool:
        """Tell whether it was answered that the value is stored."""
        ...

    async def remove(self, key: str) -> bool:
        """Tell whether it was answered that the key is removed."""
        ...

    async def peek(self, key: str) -> str | None:
        """Return the value of a key, None also when there is no answer."""
        ...

    async def get(self, key: str) -> str | None:
        """Return the value of a key, as soon as there is an answer."""
        ...

    async def is_quiet(self) -> bool:
        """Tell whether the other cluster has all that this one has for it."""
        ...
