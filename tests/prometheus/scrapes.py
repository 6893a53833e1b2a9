"""What scrapes tell, and whether expressions name only that."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.parser import text_string_to_metric_families

from tests.prometheus.expressions import (
    grouping_labels,
    made_labels,
    matchers,
    metrics,
    replaced_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.prometheus.expressions import Matcher

OF_A_POD: Final = frozenset({"namespace", "pod", "container", "endpoint", "job", "instance"})
"""Labels that Prometheus gives to what a PodMonitor reads."""
OF_A_MEMBER: Final = OF_A_POD | {"cluster"}
"""The chart's PodMonitor of members makes that one from a label of the pod."""


@dataclass(slots=True)
class Scraped:
    """Series by the name of their metric: labels with the values that were seen."""

    labels: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    targets: dict[str, frozenset[str]] = field(default_factory=dict)
    """Labels that Prometheus adds, by the name of the metric."""

    def add(self, text: str, target_labels: frozenset[str]) -> None:
        """Add what a process has told."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                seen = self.labels.setdefault(sample.name, {})
                self.targets[sample.name] = target_labels
                for label, value in sample.labels.items():
                    seen.setdefault(label, set()).add(value)

    def know(self, metric: str, **labels: set[str]) -> None:
        """Add a metric that Prometheus makes itself, with its labels."""
        self.labels[metric] = labels
        self.targets[metric] = frozenset()

    def all_labels(self, metric: str) -> set[str]:
        """Return every label that series of a metric may have in Prometheus."""
        return self.labels[metric].keys() | self.targets[metric]

    def without(self, metric: str) -> Scraped:
        """Return the same without a metric, as after it was renamed."""
        left = {name: labels for name, labels in self.labels.items() if name != metric}
        return Scraped(left, self.targets)


def problems(
    expression: str, scraped: Scraped, values: Mapping[str, Iterable[str]]
) -> Iterator[str]:
    """Yield what an expression names that is not there.

    Args:
        expression: In PromQL.
        scraped: What is there.
        values: More values of labels that the code can show, by label.
    """
    named = metrics(expression)
    unknown = sorted(named - scraped.labels.keys())
    yield from (f"no scrape has the metric {name}" for name in unknown)
    known = named & scraped.labels.keys()
    there = {label for metric in known for label in scraped.all_labels(metric)}
    there |= made_labels(expression)
    for label in sorted((grouping_labels(expression) | replaced_labels(expression)) - there):
        yield f"no metric has the label {label}"
    for matcher in matchers(expression):
        if matcher.metric in known:
            yield from _unmatched(matcher, scraped, values)


def _unmatched(
    matcher: Matcher, scraped: Scraped, values: Mapping[str, Iterable[str]]
) -> Iterator[str]:
    metric, label = matcher.metric, matcher.label
    if label not in scraped.all_labels(metric):
        yield f"{metric} has no label {label}"
        return
    # What a person chooses in a dashboard, and what is about names that users choose.
    if "$" in matcher.value or matcher.value == "" or label not in scraped.labels[metric]:
        return
    seen = scraped.labels[metric][label] | set(values.get(label, ()))
    wanted = matcher.value.split("|") if "~" in matcher.operation else [re.escape(matcher.value)]
    for pattern in wanted:
        if not any(re.fullmatch(pattern, value) for value in seen):
            yield f"{metric} has no {label} that is {pattern}"
