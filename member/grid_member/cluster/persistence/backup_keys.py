"""The keys by which a lite member and the member that makes a backup for it find each other.

    backup-asked/<maker>/<id>              can you? and what    by who asks
                                           is kept of it
    backup-asked/<maker>/<id>/taken        the maker's incarnation  by the maker
    backup-asked/<maker>/<id>/go           then make it         by who asks
    backup-asked/<maker>/<id>/told         what came of it      by the maker, as JSON
    backup-asked/<maker>/<id>/withdrawn    nobody waits         by who asks
    backup-asked/<maker>/<id>/interrupted  it is to end         by who was asked to interrupt it

The id is that of the operation that makes the backup. No key is written with another value later,
so that it does no harm when the log takes one that it refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

REQUEST: Final = "backup-asked/"
REQUEST_S: Final = 60
"""After that a request that was not told to go is none any more."""
GONE_ON_S: Final = 900
"""How long it can be seen that one was, and what came of it; longer than anybody waits for that."""
WITHDRAWN_S: Final = 24 * 3600
"""How long a maker that was cut off can find that nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """The keys of one request."""

    key: str

    @property
    def operation(self) -> str:
        """The id of the operation that makes the backup."""
        return self.key.rpartition("/")[2]

    @property
    def acceptance(self) -> str:
        """With the incarnation of the maker that makes it when it is told to."""
        return f"{self.key}/taken"

    @property
    def order(self) -> str:
        """There when the maker is to make it."""
        return f"{self.key}/go"

    @property
    def result(self) -> str:
        """With what came of it."""
        return f"{self.key}/told"

    @property
    def withdrawal(self) -> str:
        """There when nobody waits for it any more."""
        return f"{self.key}/withdrawn"

    @property
    def interrupt(self) -> str:
        """There when it is to end, and nobody else is to be asked."""
        return f"{self.key}/interrupted"

    @property
    def lasting_keys(self) -> set[str]:
        """What has its whole time: the maker may have to find it later."""
        return {self.withdrawal, self.interrupt}


def open_requests(store: SystemStore) -> list[BackupRequest]:
    """Return the requests of which nothing has come yet, and that nobody has interrupted."""
    found: dict[str, set[str]] = {}
    for key, _ in store.system_items(REQUEST):
        maker, identifier = key.removeprefix(REQUEST).split("/")[:2]
        found.setdefault(f"{REQUEST}{maker}/{identifier}", set()).add(key)
    requests = [(BackupRequest(asked), keys) for asked, keys in found.items()]
    return [
        request
        for request, keys in requests
        if not keys & {request.result, request.interrupt} and keys - request.lasting_keys
    ]
