"""Loading a configuration in every syntax, which must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.config import ConfigError, MemberConfig, config_from, parse_config
from grid_member.config.convert import write_xml, write_yaml
from grid_member.config.python_source import read_python

if TYPE_CHECKING:
    from tests.unit.member.config.trees import Tree


def load(tree: Tree) -> MemberConfig:
    """Return the configuration; all syntaxes agree on it."""
    root = read_python(tree).root
    config = config_from(tree, {})
    assert parse_config(write_yaml(root), "f", {}) == config
    assert parse_config(write_xml(root), "f", {}) == config
    return config


def problems(tree: Tree) -> list[str]:
    """Return what is wrong; all syntaxes agree on it, and files have places."""
    with pytest.raises(ConfigError) as caught:
        config_from(tree, {})
    root = read_python(tree).root
    for text in (write_yaml(root), write_xml(root)):
        with pytest.raises(ConfigError) as in_file:
            parse_config(text, "f", {})
        assert all(problem.place for problem in in_file.value.problems)
        assert sorted((p.path, p.message) for p in in_file.value.problems) == sorted(
            (p.path, p.message) for p in caught.value.problems
        )
    assert not any(problem.place for problem in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]
