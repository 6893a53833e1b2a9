"""Loading a configuration: file to model, or every problem at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.config.build import member_config
from grid_member.config.model import (
    DEFAULT_GROUPS,
    EndpointGroup,
    ListenerConfig,
    MapConfig,
    MemberConfig,
    QueueConfig,
)
from grid_member.config.tree import ConfigError, Node, Place, Problem, Section
from grid_member.config.validate import collect
from grid_member.config.yaml_source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOP: Final = "grid"


def load_config(path: Path, environment: Mapping[str, str] | None = None) -> MemberConfig:
    """Return the configuration in the file, variables taken from environment (os.environ).

    Raises:
        ConfigError: the file cannot be read or is not a usable configuration.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError([Problem(Place(str(path), 1, 1), "", str(reason))]) from None
    return parse_config(text, str(path), os.environ if environment is None else environment)


def parse_config(text: str, file: str, environment: Mapping[str, str]) -> MemberConfig:
    """Return the configuration in a YAML text; file is what problems name.

    Raises:
        ConfigError: with everything that is wrong.
    """
    found = collect(_top(read_yaml(text, file), file), environment)
    config = member_config(found, Path())
    if found.problems:
        raise ConfigError(sorted(found.problems, key=_order))
    return config


def default_config() -> MemberConfig:
    """Return what a member without a file runs with: data over loopback, in memory."""
    return MemberConfig(
        interfaces=("127.0.0.1",),
        rest=ListenerConfig(5701, True, 100, DEFAULT_GROUPS | {EndpointGroup.DATA}),
        maps={"default": MapConfig(persistent=True, fsync=True)},
        queues={"default": QueueConfig(persistent=True, fsync=True)},
    )


def _top(root: Node | None, file: str) -> Node:
    place = root.place if root else Place(file, 1, 1)
    if not isinstance(root, Section) or _TOP not in root.children:
        raise ConfigError([Problem(place, "", f"the top element must be {_TOP}:")])
    others = [name for name in root.children if name != _TOP]
    if others:
        raise ConfigError(
            [Problem(root.names[o], o, f"unknown element beside {_TOP}") for o in others]
        )
    return root.children[_TOP]


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)
