"""The member's own check of the document that the operator uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.cluster.management.config_changes import Change, ConfigChanges, read_blocks
from grid_member.config.load import parse_config

if TYPE_CHECKING:
    from collections.abc import Collection

    from grid_member.engine.api import Done


class EmptyStore:
    """A system store of a member that was given nothing yet."""

    def system_get(self, key: str) -> bytes | None:
        return None

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        return []

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        raise AssertionError("a check writes nothing")


def planned(text: str, replications: Collection[str]) -> Change:
    """Return what a member adds that has these replications and neither map nor queue.

    Raises:
        ConfigError: the member answers 400.
    """
    present = parse_config("grid: {}", "member", {})
    changes = ConfigChanges(EmptyStore(), lambda: present, lambda _: None, list, None)
    changes.replications = lambda: replications
    return changes.plan(read_blocks(text, "upload", {}, changes.persistence))
