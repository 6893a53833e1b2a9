"""Which metrics, labels and values PromQL expressions name.

Not a parser of PromQL: promtool checks that. Each word that is no function, operator or label is
taken for the name of a metric, so an unknown function is found as a metric that no scrape has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR: Final = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING: Final = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_WORD: Final = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*")
_LABEL_REPLACE: Final = re.compile(r'label_replace\(.*?"(\w+)",\s*"[^"]*",\s*"(\w+)",', re.S)
_NO_METRICS: Final = frozenset(
    {
        *("by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool"),
        *(
            "and",
            "or",
            "unless",
            "sum",
            "min",
            "max",
            "count",
            "avg",
            "topk",
            "bottomk",
            "quantile",
        ),
        *("rate", "increase", "histogram_quantile", "label_replace", "predict_linear", "absent"),
        *("time", "max_over_time", "quantile_over_time", "clamp_min", "vector", "changes"),
        "count_values",
    }
)


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label of a selector."""

    metric: str
    label: str
    operation: str
    value: str


def matchers(expression: str) -> Iterator[Matcher]:
    """Yield every matcher of every selector."""
    for metric, inside in _SELECTOR.findall(expression):
        for label, operation, value in _MATCHER.findall(inside):
            yield Matcher(metric, label, operation, value.replace("\\\\", "\\"))


def metrics(expression: str) -> set[str]:
    """Return the names of all metrics."""
    plain = _SELECTOR.sub(r"\1 ", expression)
    plain = _GROUPING.sub(r"\1 ", _RANGE.sub("", _TEXT.sub("", plain)))
    return set(_WORD.findall(plain)) - _NO_METRICS


def grouping_labels(expression: str) -> set[str]:
    """Return the labels that series are aggregated or matched by."""
    found = (inside for _, inside in _GROUPING.findall(_TEXT.sub("", expression)))
    return {label.strip() for inside in found for label in inside.split(",") if label.strip()}


def made_labels(expression: str) -> set[str]:
    """Return the labels that the expression itself makes."""
    return {made for made, _ in _LABEL_REPLACE.findall(expression)}


def replaced_labels(expression: str) -> set[str]:
    """Return the labels that others are made from."""
    return {source for _, source in _LABEL_REPLACE.findall(expression)}
