"""The tables of the manual: every setting with its type and meaning, and all that is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.schema.patterns import shown
from grid_member.config.settings.refused_settings import REFUSED
from grid_member.config.settings.setting import Setting, SettingKind
from grid_member.config.settings.shape import settings_shape
from grid_member.config.settings.table import SETTINGS
from grid_member.config.xml.forms import COLLECTIONS, NAME

if TYPE_CHECKING:
    from grid_member.config.settings.refusal import RefusedSetting

_BEGIN: Final = "<!-- {}: written by `make schema`, do not edit -->\n"
_END: Final = "<!-- end of {} -->\n"


def fill_tables(manual: str) -> str:
    """Return the manual's text with the tables between their marks made anew.

    Raises:
        ValueError: the marks are not there.
    """
    manual = _replace_table(manual, "forms in XML", _forms_table())
    return _replace_table(manual, "settings", f"{_supported_table()}\n{_refused_table()}")


def _replace_table(manual: str, name: str, table: str) -> str:
    begin, end = _BEGIN.format(name), _END.format(name)
    before, mark, rest = manual.partition(begin)
    _, end_mark, after = rest.partition(end)
    if not mark or not end_mark:
        raise ValueError(f"the manual needs the lines {begin}and {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _forms_table() -> str:
    rows = ["| Setting | Usually written | Read as well |", "|---|---|---|"]
    for form in COLLECTIONS:
        shape = settings_shape().at(form.path.split("."))
        if shape.refusal is not None:
            continue
        name = ' name="…"' if shape.any_name is not None else ""
        begin = f"<{form.element}{name}>"
        if form.name != NAME:
            begin = f"<{form.element}><{form.name}>…</{form.name}>"
        items = f"{begin}…</{form.element}>"
        wrapper = form.path.rpartition(".")[2]
        forms = [f"`{items}`", f"`<{wrapper}>{items}</{wrapper}>`"]
        if wrapper == form.element:
            # An element of this name is one of the many.
            forms[1] = "–"  # noqa: RUF001 - a dash, for people
        usual, other = reversed(forms) if form.wrapped else forms
        rows.append(f"| `{form.path}` | {usual} | {other} |")
    return "\n".join(rows) + "\n"


def _supported_table() -> str:
    rows = [
        "| Setting | Type | Default | Allowed | Meaning |",
        "|---|---|---|---|---|",
        *(
            f"| `{s.path}` | {s.kind.value} | {shown(s.default)} | {_range_of(s)} | {s.about} |"
            for s in SETTINGS
        ),
    ]
    return "\n".join(rows) + "\n"


def _range_of(setting: Setting) -> str:
    if setting.kind is SettingKind.BOOLEAN:
        return "true, false"
    if setting.kind is SettingKind.INTEGER:
        return f"{setting.low} to {setting.high}"
    return ", ".join(setting.choices) or "text"


def _refused_table() -> str:
    values = [
        f"| `{setting.path}` | {refused.value} is not supported: {refused.instead} | – |"  # noqa: RUF001 - a dash, for people
        for setting in SETTINGS
        for refused in setting.refused_values
    ]
    elements = [f"| `{each.path}` | {each.why} | {_off_form(each)} |" for each in REFUSED]
    head = ["| Refused | Why | Taken |", "|---|---|---|"]
    return "\n".join([*head, *values, *elements]) + "\n"


def _off_form(refused: RefusedSetting) -> str:
    """Return how an element is written that says nothing."""
    forms = [f"`{refused.switch}: false`"] if refused.switch else []
    forms += [f"`{value}`" for value in refused.off]
    forms += ["empty"] if refused.empty else []
    return ", ".join(forms) or "–"  # noqa: RUF001 - a dash, for people
