"""The table of settings as a tree: what may stand below what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.config.settings.refused_settings import REFUSED
from grid_member.config.settings.table import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.config.settings.refusal import RefusedSetting
    from grid_member.config.settings.setting import Setting

Path: TypeAlias = tuple[str | int, ...]

ANY: Final = "*"
"""In a path of the table: any name."""
EACH: Final = "[]"
"""In a path of the table: the items of a list."""


@dataclass(slots=True)
class Shape:
    """One level of the table: a setting, a refused element, or what may stand below."""

    path: str = ""
    below: dict[str, Shape] = field(default_factory=dict)
    setting: Setting | None = None
    refusal: RefusedSetting | None = None

    @property
    def items(self) -> Shape | None:
        """The shape of a list's items, None when this is no list."""
        return self.below.get(EACH)

    @property
    def any_name(self) -> Shape | None:
        """The shape behind any name, None when the names are fixed."""
        return self.below.get(ANY)

    def child(self, part: str | int) -> Shape | None:
        """Return what the table has for this name or index below, None for nothing."""
        if isinstance(part, int):
            return self.items
        return self.below.get(part) or self.any_name

    def find(self, path: Path) -> Shape | None:
        """Return what the table has for a path of a document, None for nothing."""
        shape: Shape | None = self
        for part in path:
            shape = shape.child(part) if shape else None
        return shape

    def at(self, parts: Iterable[str]) -> Shape:
        """Return the shape at a path of the table, made when it is not there."""
        shape = self
        for part in parts:
            path = f"{shape.path}.{part}" if shape.path else part
            shape = shape.below.setdefault(part, Shape(path))
        return shape


def path_text(path: Path) -> str:
    """Return a path as it is shown to people: `security.realms[0].name`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if part.isprintable() else ascii(part)
            text += f".{shown}" if text else shown
    return text


def settings_shape() -> Shape:
    """Return the whole table of settings as a tree."""
    root = Shape()
    for setting in SETTINGS:
        root.at(setting.path.split(".")).setting = setting
    for refused in REFUSED:
        root.at(refused.path.split(".")).refusal = refused
    return root
