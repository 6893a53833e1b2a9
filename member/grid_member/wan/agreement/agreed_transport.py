"""Requests of a publisher, as long as the members agree on the definition that they are made by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.wan.ports import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.wan.endpoints import Address
    from grid_member.wan.ports import Transport

REPLACED: Final = "the publisher was replaced or removed"


@dataclass(frozen=True, slots=True)
class AgreedTransport:
    """Carries nothing from the moment when the members agree on another definition.

    The target of the former one would acknowledge changes that only the new one is to have. What
    it acknowledges of requests before that moment was in the queue of the former publisher.
    """

    transport: Transport
    is_agreed: Callable[[], bool]

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        """Carry a request.

        Raises:
            TargetError: there was no answer, or the definition is another one.
        """
        if not self.is_agreed():
            raise UnreachableError(REPLACED)
        return await self.transport.post(address, path, body, content_type)
