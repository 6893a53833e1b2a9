"""The member configuration as XML, by a template of the same tree that the YAML is made of."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

TEMPLATE_NAME: Final = "config.xml.j2"


def configuration_xml(tree: dict[str, Any]) -> str:
    """Return a configuration, from its top element `grid` down, as the text of `grid.xml`.

    Raises:
        jinja2.UndefinedError: the template uses an element that the tree does not have.
    """
    return _template().render(grid=tree["grid"])


@cache
def _template() -> Template:
    # Compiled once: that takes longer than all else that rendering does.
    environment = Environment(
        loader=PackageLoader("grid_operator.render.configuration", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(TEMPLATE_NAME)
