"""Writes the parts of the charts that come from the API types.

`python -m grid_operator.api.chart [DIRECTORY [DOCS]]` writes into `charts/`, and reads what members
take as their configuration from `docs/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from grid_operator.api.chart.page import with_own_values
from grid_operator.api.chart.values import schema_text, values_text
from grid_operator.api.crd import custom_resource_definition, to_yaml

DEFAULT_DIRECTORY: Final = Path("charts")
DOCS: Final = Path("docs")
MEMBER_SCHEMA: Final = Path("schema/grid-config-1.schema.json")
"""Below DOCS."""
DEFINITION_TEMPLATE: Final = Path("grid-operator/templates/crd.yaml")
VALUES: Final = Path("grid/values.yaml")
VALUES_SCHEMA: Final = Path("grid/values.schema.json")
PAGE: Final = Path("grid/README.md")

_ACTION: Final = "{{"
_ESCAPED_ACTION: Final = '{{ "{{" }}'
_HEAD: Final = """\
{{- /* Written by `make crds`, from the API types. */ -}}
{{- if .Values.crds.install }}
"""
_METADATA: Final = """\
  labels:
    {{- include "grid-operator.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
_END: Final = "{{- end }}\n"


def written_files(directory: Path, docs: Path) -> dict[Path, str]:
    """Return the text of each file, by its path below the directory of the charts.

    The page is there already: only its table is written.
    """
    member = json.loads((docs / MEMBER_SCHEMA).read_text(encoding="utf-8"))
    return {
        DEFINITION_TEMPLATE: definition_template(),
        VALUES: values_text(),
        VALUES_SCHEMA: schema_text(member),
        PAGE: with_own_values((directory / PAGE).read_text(encoding="utf-8")),
    }


def definition_template() -> str:
    """Return the CustomResourceDefinition as a template that Helm upgrades.

    Helm never upgrades what lies in a chart's directory `crds`.
    """
    definition = custom_resource_definition()
    name_line = f"  name: {definition['metadata']['name']}\n"
    before, name, after = escaped(to_yaml(definition)).partition(name_line)
    return f"{_HEAD}{before}{name}{_METADATA}{after}{_END}"


def escaped(text: str) -> str:
    """Return a template that renders as the text, whatever the text holds."""
    return text.replace(_ACTION, _ESCAPED_ACTION)


def main(argv: list[str]) -> None:
    """Write below the directory named first, `charts` without one."""
    directory, docs = (*map(Path, argv), *(DEFAULT_DIRECTORY, DOCS)[len(argv) :])
    for path, text in written_files(directory, docs).items():
        (directory / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
