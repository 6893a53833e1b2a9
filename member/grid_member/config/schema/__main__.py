"""The published description of configurations, all of it from the table of settings.

`python -m grid_member.config.schema [DIRECTORY]` writes the JSON Schema, the XML schema and the
tables in the manual, below docs/ unless told another directory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.config.schema.json_schema import json_schema
from grid_member.config.schema.table import fill_tables
from grid_member.config.schema.xsd import xml_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY: Final = Path("docs")
JSON_SCHEMA: Final = Path("schema") / "grid-config-1.schema.json"
XML_SCHEMA: Final = Path("schema") / "grid-config-1.xsd"
MANUAL: Final = Path("configuration.md")


def main(arguments: Sequence[str]) -> None:
    """Write the files below the directory named first, `docs` without one."""
    directory = Path(arguments[0]) if arguments else DIRECTORY
    (directory / JSON_SCHEMA).write_text(json_schema(), encoding="utf-8")
    (directory / XML_SCHEMA).write_text(xml_schema(), encoding="utf-8")
    manual = directory / MANUAL
    manual.write_text(fill_tables(manual.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
