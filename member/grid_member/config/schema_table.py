"""The tables of the manual: every setting with its type and meaning, and all that is refused."""

from __future__ import annotations

from typing import Final

from grid_member.config.refused import REFUSED
from grid_member.config.settings import SETTINGS, Kind, Setting, Value

BEGIN: Final = "<!-- settings: written by `make schema`, do not edit -->\n"
END: Final = "<!-- end of settings -->\n"


def with_tables(manual: str) -> str:
    """Return the manual's text with the tables between its two marks made anew.

    Raises:
        ValueError: the marks are not there.
    """
    before, mark, rest = manual.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the manual needs the lines {BEGIN}and {END}")
    return f"{before}{BEGIN}\n{_supported()}\n{_refused()}\n{END}{after}"


def _supported() -> str:
    rows = [
        "| Setting | Type | Default | Allowed | Meaning |",
        "|---|---|---|---|---|",
        *(
            f"| `{s.path}` | {s.kind.value} | {_shown(s.default)} | {_allowed(s)} | {s.about} |"
            for s in SETTINGS
        ),
    ]
    return "\n".join(rows) + "\n"


def _allowed(setting: Setting) -> str:
    if setting.kind is Kind.BOOLEAN:
        return "true, false"
    if setting.kind is Kind.INTEGER:
        return f"{setting.low} to {setting.high}"
    return ", ".join(setting.choices) or "text"


def _shown(value: Value | None) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - a dash, for people
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refused() -> str:
    values = [
        f"| `{setting.path}` | {refused.value} is not supported: {refused.instead} |"
        for setting in SETTINGS
        for refused in setting.refused_values
    ]
    elements = [f"| `{refused.path}` | {refused.why} |" for refused in REFUSED]
    return "\n".join(["| Refused | Why |", "|---|---|", *values, *elements]) + "\n"
