"""A member whose metrics a test asks for, read as Prometheus would read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, once

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from grid_member import MemberHandle

_PLACE = "port: {port: 0}, interfaces: {enabled: true, interfaces: [127.0.0.1]}"


def configured(extra: str = "", metrics: str = "enabled: true") -> str:
    """Return a configuration with both listeners and a metrics section."""
    return configuration(extra=f"  metrics: {{{metrics}, {_PLACE}}}\n{extra}")


@dataclass(frozen=True)
class Figures:
    """What was told at one moment."""

    text: str
    families: dict[str, Metric]

    def value(self, series: str, /, **labels: str) -> float:
        """Return the one value of a series."""
        (found,) = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == series and sample.labels == labels
        ]
        return float(found)

    def labels(self, name: str) -> list[dict[str, str]]:
        """Return the labels of every series of a metric."""
        return [
            sample.labels
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name
        ]


@dataclass(frozen=True)
class Scraped:
    """A started member."""

    member: MemberHandle

    async def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        assert self.member.rest_port is not None
        return await once(self.member.rest_port, method, path, body, **headers)

    async def metrics(self, method: str = "GET", path: str = "/metrics") -> Reply:
        assert self.member.metrics_port is not None
        return await once(self.member.metrics_port, method, path)

    async def figures(self) -> Figures:
        reply = await self.metrics()
        assert reply.status == 200
        assert reply.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
        text = reply.body.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        return Figures(text, families)
