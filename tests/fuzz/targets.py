"""The targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzz.config_targets import OverridesTarget, PythonTarget, XmlTarget, YamlTarget
from tests.fuzz.fast_path_target import FastPathTarget
from tests.fuzz.parameters_target import ParametersTarget, PathTarget
from tests.fuzz.wan_json_target import WanJsonTarget
from tests.fuzz.wan_target import WanTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.target import Target

TARGETS: Final[dict[str, Callable[[], Target]]] = {
    "fast-path": FastPathTarget,
    "yaml": YamlTarget,
    "xml": XmlTarget,
    "overrides": OverridesTarget,
    "python": PythonTarget,
    "parameters": ParametersTarget,
    "path": PathTarget,
    "wan": WanTarget,
    "wanjson": WanJsonTarget,
}


def target(name: str) -> Target:
    """Return a new target.

    Raises:
        LookupError: there is none of this name.
    """
    return TARGETS[name]()
