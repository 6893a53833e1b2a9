"""What is told of a configuration that cannot be used."""

from __future__ import annotations

import pytest

from grid_member.config import ConfigError, parse_config


def problems(text: str, file: str = "f", **environment: str) -> list[str]:
    """Return what is wrong with a text, which must be something, as people read it."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, file, environment)
    return [str(problem) for problem in caught.value.problems]
