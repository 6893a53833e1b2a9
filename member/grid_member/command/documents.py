"""`grid-member config …`: checking, converting and describing configuration files."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from grid_member.command.output import show
from grid_member.config import convert as conversion
from grid_member.config.load import Config, is_xml, raise_problems, read_document, read_text
from grid_member.config.overrides import apply_overrides, variables_used
from grid_member.config.schema.json_schema import json_schema
from grid_member.config.schema.xsd import xml_schema
from grid_member.config.tree import ConfigError, Problem, SourcePosition
from grid_member.config.validate import collect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config.convert import Syntax

_PERMISSIONS: Final = 0o777


def check(file: Path, ignore_missing_variables: bool, environment: Mapping[str, str]) -> None:
    """Say on standard output that a member can run with the file.

    Variables that are missing can be ignored; then only the elements and the values without
    variables are checked.

    Raises:
        ConfigError: it cannot.
    """
    missing = _missing_variables(file, environment) if ignore_missing_variables else []
    if not missing:
        for note in Config.from_file(file, environment=environment).model.notes:
            with contextlib.suppress(OSError):  # a note decides nothing
                sys.stderr.write(f"{note}\n")
        show(f"{file}: fine\n")
        return
    document = read_document(read_text(file), str(file))
    found = collect(apply_overrides(document.root, environment).root, None)
    raise_problems([*document.problems, *found.problems])
    show(f"{file}: fine as far as it can be told without {', '.join(missing)}\n")


def _missing_variables(file: Path, environment: Mapping[str, str]) -> list[str]:
    used = variables_used(read_document(read_text(file), str(file)).root)
    return sorted({name for name, has_default in used if not has_default} - set(environment))


def convert(file: Path, to: Syntax | None, output: Path | None, overwrite: bool) -> None:
    """Write the file's configuration, in the other syntax unless told which, to output or stdout.

    Raises:
        ConfigError: the file is no configuration, or the output cannot be written.
    """
    text = read_text(file)
    other: Syntax = "yaml" if is_xml(text, str(file)) else "xml"
    result = conversion.convert(text, str(file), to or other)
    if output is None:
        show(result)
        return
    if output.exists() and not overwrite:
        raise ConfigError(
            [Problem(SourcePosition(str(output), 0, 0), "", "is there: say --overwrite")]
        )
    # A link stays, and what it leads to is replaced.
    target = Path(os.path.realpath(output))
    if target.exists() and not target.is_file():
        raise ConfigError([Problem(SourcePosition(str(output), 0, 0), "", "is no file")])
    try:
        # A configuration may hold passwords: whoever could not read it still cannot.
        _replace(target, result, file.stat().st_mode & _PERMISSIONS)
    except OSError as error:
        raise ConfigError(
            [Problem(SourcePosition(str(output), 0, 0), "", str(error.strerror))]
        ) from None


def _replace(output: Path, text: str, mode: int) -> None:
    with NamedTemporaryFile("w", encoding="utf-8", dir=output.parent, delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            Path(file.name).replace(output)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def schema(kind: str) -> None:
    """Write the schema of configuration files, `json` or `xsd`, to standard output."""
    show(json_schema() if kind == "json" else xml_schema())
