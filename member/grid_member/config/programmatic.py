"""A checked configuration for Python: from a file, a text, or a tree of dicts and lists."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grid_member.config.load import DEFAULT_TREE, config_from, parse_config, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config.model.member import MemberConfig


class Config:
    """A configuration that a member can run with, checked when it is made.

    The tree is that of a configuration file below `grid`: mappings, lists and plain values.
    Variables and overrides are taken from the environment, as for a file: `os.environ` unless
    another mapping is given; an empty one keeps everything outside out.

    Raises:
        ConfigError: with everything that is wrong.
    """

    __slots__ = ("_environment", "_file", "_model")

    def __init__(
        self, tree: Mapping[str, object], *, environment: Mapping[str, str] | None = None
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._model = config_from(tree, self._environment)
        self._file: Path | None = None

    @classmethod
    def from_file(cls, path: Path | str, *, environment: Mapping[str, str] | None = None) -> Config:
        """Return the configuration in a file, YAML or XML.

        Raises:
            ConfigError: the file cannot be read or is not a usable configuration.
        """
        text = read_text(Path(path))
        config = cls.from_text(text, name=str(Path(path)), environment=environment)
        # A member reads it again when it is asked to, wherever its process is by then.
        config._file = Path(path).absolute()
        return config

    @classmethod
    def from_text(
        cls, text: str, *, name: str = "text", environment: Mapping[str, str] | None = None
    ) -> Config:
        """Return the configuration in a YAML or XML text, which problems call by name.

        Raises:
            ConfigError: with everything that is wrong.
        """
        used = os.environ if environment is None else environment
        return cls._of(parse_config(text, name, used), used)

    @classmethod
    def default(cls, *, environment: Mapping[str, str] | None = None) -> Config:
        """Return what a member without a file runs with: data over loopback, in memory.

        Raises:
            ConfigError: an override in the environment does not fit.
        """
        return cls(DEFAULT_TREE, environment=environment)

    @property
    def model(self) -> MemberConfig:
        """The typed settings."""
        return self._model

    @property
    def file(self) -> Path | None:
        """The file that it was read from, None when it was not."""
        return self._file

    @property
    def environment(self) -> Mapping[str, str]:
        """What variables and overrides are taken from."""
        return self._environment

    def with_members_port(self, port: int) -> Config:
        """Return the same for a member of several that listens for the others at another port."""
        cluster = self._model.cluster
        if cluster is None:
            raise ValueError("a member that is alone has no members' port")
        changed = replace(self._model, cluster=replace(cluster, port=port))
        return self._of(changed, self._environment, self._file)

    @classmethod
    def _of(
        cls, model: MemberConfig, environment: Mapping[str, str], file: Path | None = None
    ) -> Config:
        config = cls.__new__(cls)
        config._model, config._environment, config._file = model, environment, file
        return config
