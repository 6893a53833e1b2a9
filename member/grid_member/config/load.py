"""Loading a configuration: a file, a text or Python values to the model, or every problem at once.

The syntaxes read, the environment overrides, the table of settings checks, and the model is built;
each step adds to the problems, so that one run shows them all.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.config.build import member_config
from grid_member.config.overrides import OverrideResult, apply_overrides
from grid_member.config.python_source import read_python
from grid_member.config.tree import (
    MAX_DOCUMENT_BYTES,
    ConfigError,
    Document,
    Problem,
    SourcePosition,
)
from grid_member.config.validate import collect
from grid_member.config.yaml.source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config.model.member import MemberConfig

_XML_SUFFIXES: Final = frozenset({".xml"})
_YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_BYTE_ORDER_MARK: Final = "\ufeff"
DEFAULT_TREE: Final[Mapping[str, object]] = {
    "network": {
        "interfaces": {"enabled": True, "interfaces": ["127.0.0.1"]},
        "rest-api": {"enabled": True, "endpoint-groups": {"DATA": {"enabled": True}}},
    },
    "map": {"default": {}},
    "queue": {"default": {}},
}
"""What a member without a file runs with: data over loopback, in memory."""


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


def parse_config(
    text: str, file: str, environment: Mapping[str, str], directory: Path = Path()
) -> MemberConfig:
    """Return the configuration in a YAML or XML text; file is what problems name.

    The name's suffix tells the syntax, without a known one the text's first character. A relative
    base-dir is taken from directory.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _member_config(read_document(text, file), environment, directory)


def config_from(
    tree: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> MemberConfig:
    """Return the configuration that Python values describe, nested as YAML is below `grid:`.

    Raises:
        ConfigError: with everything that is wrong; the problems have a path and no place.
    """
    return _member_config(
        read_python(tree), os.environ if environment is None else environment, Path()
    )


def read_text(path: Path) -> str:
    """Return what the file holds.

    Raises:
        ConfigError: it cannot be read, is too long, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise _unreadable(str(path), _TOO_LONG)
        return data.decode("utf-8")
    except OSError as error:
        raise _unreadable(str(path), str(error.strerror)) from None
    except UnicodeError:
        raise _unreadable(str(path), "not UTF-8") from None


def read_document(text: str, file: str) -> Document:
    """Return the nodes of a YAML or XML text.

    Raises:
        ConfigError: it is too long, or neither.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_DOCUMENT_BYTES:
        raise _unreadable(file, _TOO_LONG)
    plain = text.removeprefix(_BYTE_ORDER_MARK)
    if not is_xml(plain, file):
        return read_yaml(plain, file)
    # Most members start without.
    from grid_member.config.xml.source import read_xml

    return read_xml(plain, file)


def is_xml(text: str, file: str) -> bool:
    """Tell whether a text is to be read as XML, by the file's suffix or its first character."""
    suffix = Path(file).suffix.lower()
    if suffix in _XML_SUFFIXES | _YAML_SUFFIXES:
        return suffix in _XML_SUFFIXES
    return text.lstrip(f" \t\r\n{_BYTE_ORDER_MARK}").startswith("<")


def raise_problems(problems: list[Problem]) -> None:
    """Raise what is wrong, in the order of the file, when anything is.

    Raises:
        ConfigError: there are problems.
    """
    if problems:
        raise ConfigError(sorted(problems, key=_order))


_TOO_LONG: Final = f"the file is longer than {MAX_DOCUMENT_BYTES >> 20} MiB"


def _unreadable(file: str, reason: str) -> ConfigError:
    return ConfigError([Problem(SourcePosition(file, 1, 1), "", reason)])


def _member_config(
    document: Document, environment: Mapping[str, str], directory: Path
) -> MemberConfig:
    problems, overridden = list(document.problems), OverrideResult(document.root)
    try:
        overridden = apply_overrides(document.root, environment)
    except ConfigError as error:
        problems += error.problems
    found = collect(overridden.root, environment)
    config = member_config(found, directory)
    # One mistake is told once: what the syntax could not read is missing for the table as well.
    told = {(problem.place, problem.path) for problem in problems}
    problems += [each for each in found.problems if (each.place, each.path) not in told]
    raise_problems([_add_present_name(each, overridden.former) for each in problems])
    return replace(config, notes=(*overridden.notes, *found.warnings))


def _add_present_name(problem: Problem, former: Mapping[str, str]) -> Problem:
    """Add to what is wrong with a variable of a former name how not to be read under it."""
    present = former.get(problem.place.file) if problem.place else None
    if present is None:
        return problem
    hint = f"this is the former name of {present}: set that one if another program has set this"
    return replace(problem, message=f"{problem.message} ({hint})")


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)
