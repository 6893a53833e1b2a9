"""Medians of samples, and what the bars say about them. Nothing here measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Literal

from bench.load.wrk import LIMITED_PERCENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.load.wrk import Sample

Outcome = Literal["met", "NOT MET", "FAILED"]


@dataclass(frozen=True, slots=True)
class Figure:
    """The medians of what was seen of one thing; times are per request.

    Attributes:
        bad: of all rounds together, answers other than 2xx and broken connections.
        wrk_us: CPU time of the load generators.
        log_us: what of the servers' CPU time is that of those that keep the members' log.
    """

    name: str
    rate: float
    user_us: float
    system_us: float
    wrk_percent: float
    p50_ms: float
    p99_ms: float
    bad: int
    wrk_us: float = 0.0
    log_us: float = 0.0

    @property
    def cpu_us(self) -> float:
        """CPU time of the server per request."""
        return self.user_us + self.system_us

    @property
    def limited(self) -> bool:
        """Whether the load generator may have set the rate."""
        return self.wrk_percent >= LIMITED_PERCENT


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar: what was measured, what is asked for, and whether that was met."""

    name: str
    measured: float
    bar: float
    at_least: bool
    outcome: Outcome
    unit: str = "x"
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the results: what its rows mean, the rows, and what the bars say."""

    title: str
    meaning: str
    figures: Sequence[Figure] = ()
    verdicts: Sequence[Verdict] = ()
    notes: Sequence[str] = ()


def figure(name: str, samples: Sequence[Sample]) -> Figure:
    """Return the medians of the rounds."""
    return Figure(
        name=name,
        rate=median(s.requests / s.seconds for s in samples),
        user_us=median(1e6 * s.user_s / s.requests for s in samples),
        system_us=median(1e6 * s.system_s / s.requests for s in samples),
        wrk_percent=median(s.wrk_percent for s in samples),
        p50_ms=median(s.p50_ms for s in samples),
        p99_ms=median(s.p99_ms for s in samples),
        bad=sum(s.bad for s in samples),
        wrk_us=median(1e6 * s.wrk_s / s.requests for s in samples),
        log_us=median(1e6 * s.log_s / s.requests for s in samples),
    )


def alternate(contenders: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, Figure]:
    """Measure each in turn, round after round, so that what changes meanwhile meets them all."""
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            samples[name].append(measure())
    return {name: figure(name, seen) for name, seen in samples.items()}


def side_by_side(samples: Sequence[Sample]) -> Sample:
    """Return runs of the same time as if they were one; of the percentiles the worst."""
    total = replace(samples[0])
    for other in samples[1:]:
        total = replace(
            total,
            requests=total.requests + other.requests,
            user_s=total.user_s + other.user_s,
            system_s=total.system_s + other.system_s,
            wrk_percent=max(total.wrk_percent, other.wrk_percent),
            p50_ms=max(total.p50_ms, other.p50_ms),
            p99_ms=max(total.p99_ms, other.p99_ms),
            bad=total.bad + other.bad,
            wrk_s=total.wrk_s + other.wrk_s,
        )
    return total


def at_least(name: str, over: Figure, under: Figure, bar: float) -> Verdict:
    """Hold the ratio of two rates against a bar from below."""
    return _verdict(name, over.rate / under.rate, bar, True, (over, under), _rates(over, under))


def at_least_rate(name: str, over: Figure, rate: float, bar: float, remark: str) -> Verdict:
    """Hold the ratio of a rate and one that was measured elsewhere against a bar from below."""
    return _verdict(name, over.rate / rate, bar, True, (over,), remark)


def cpu_at_most(name: str, over: Figure, under: Figure, bar: float) -> Verdict:
    """Hold the ratio of two costs per request against a bar from above."""
    return _verdict(name, over.cpu_us / under.cpu_us, bar, False, (over, under), "")


def log_at_most(name: str, over: Figure, under: Figure, bar: float) -> Verdict:
    """Hold the ratio of two costs per request against a bar from above: of the log's servers."""
    return _verdict(name, over.log_us / under.log_us, bar, False, (over, under), "")


def p99_at_most(name: str, over: Figure, under: Figure, bar: float) -> Verdict:
    """Hold the ratio of two 99th percentiles against a bar from above."""
    ratio = over.p99_ms / max(under.p99_ms, 1e-3)
    return _verdict(name, ratio, bar, False, (over, under), "")


def absolute_at_most(name: str, measured: float, bar: float, unit: str) -> Verdict:
    """Hold a figure of this machine against a bar from above."""
    return Verdict(name, measured, bar, False, "met" if measured <= bar else "NOT MET", unit)


def absolute_at_least(name: str, measured: float, bar: float, unit: str) -> Verdict:
    """Hold a figure of this machine against a bar from below."""
    return Verdict(name, measured, bar, True, "met" if measured >= bar else "NOT MET", unit)


def _rates(over: Figure, under: Figure) -> str:
    """Say what a load generator at its limit does to a ratio of rates."""
    if over.limited and under.limited:
        return "both limited by wrk: the ratio says little"
    if over.limited:
        return "limited by wrk: the true ratio is higher"
    if under.limited:
        return "what it is compared with is limited by wrk: the true ratio is lower"
    return ""


def _verdict(
    name: str, ratio: float, bar: float, low: bool, of: Iterable[Figure], remark: str
) -> Verdict:
    bad = sum(each.bad for each in of)
    if bad:
        remark = f"{bad} answers were not 2xx or connections broke"
        return Verdict(name, ratio, bar, low, "FAILED", remark=remark)
    met = ratio >= bar if low else ratio <= bar
    return Verdict(name, ratio, bar, low, "met" if met else "NOT MET", remark=remark)
