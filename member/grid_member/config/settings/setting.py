"""What a setting is: its path, its kind of value, its default and its limits."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | str

MAX_COUNT: Final = 2**31 - 1
MAX_PORT: Final = 65535
MAX_TIMEOUT_S: Final = 24 * 60 * 60
MAX_DRAIN_S: Final = 60
MAX_BACKUPS_MEMBERS: Final = 6
MAX_CLUSTER_BACKUPS_MEMBERS: Final = 2
"""Of several members; a single one has no use for any."""
HEAP_UNIT_BYTES: Final = 1 << 20
"""What one unit of `size` is with `USED_HEAP_SIZE`."""


class SettingKind(enum.Enum):
    """What a setting's text is turned into."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that exists elsewhere and not here, with what to write instead."""

    value: str
    instead: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One supported leaf. `choices` are compared without case and given back as listed."""

    path: str
    kind: SettingKind
    default: Value | None
    about: str
    low: int = 0
    high: int = MAX_COUNT
    choices: tuple[str, ...] = ()
    refused_values: tuple[RefusedValue, ...] = ()
    forbidden_text: str = ""
    """A character that a text must not contain."""
    drops_package: bool = False
    """Whether a choice may have the name of a Java package before it."""


def flag(path: str, default: bool | None, about: str) -> Setting:
    """Return a boolean setting."""
    return Setting(path, SettingKind.BOOLEAN, default, about)


def number(path: str, default: int, about: str, low: int = 0, high: int = MAX_COUNT) -> Setting:
    """Return a setting that is a number from low to high."""
    return Setting(path, SettingKind.INTEGER, default, about, low, high)


def text(path: str, default: str | None, about: str, forbidden: str = "") -> Setting:
    """Return a setting that is any text."""
    return Setting(path, SettingKind.STRING, default, about, forbidden_text=forbidden)


def choice(
    path: str, default: str, about: str, *choices: str, refused: tuple[RefusedValue, ...] = ()
) -> Setting:
    """Return a setting that is one of the choices."""
    return Setting(
        path, SettingKind.STRING, default, about, choices=choices, refused_values=refused
    )
