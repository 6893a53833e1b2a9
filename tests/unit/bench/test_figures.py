"""Medians, turns and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.figures import (
    absolute_at_least,
    absolute_at_most,
    alternate,
    at_least,
    cpu_at_most,
    figure,
    p99_at_most,
    side_by_side,
)
from bench.load.wrk import Sample

SAMPLE = Sample(
    requests=1000,
    seconds=1.0,
    user_s=0.008,
    system_s=0.002,
    wrk_percent=50.0,
    p50_ms=1.0,
    p99_ms=4.0,
    bad=0,
)


def of_rate(requests: int, **changed: float) -> Sample:
    return replace(SAMPLE, requests=requests, **changed)  # type: ignore[arg-type]


def test_a_figure_is_the_median_of_each_thing_by_itself() -> None:
    samples = [
        replace(SAMPLE, requests=1000, user_s=0.010, p99_ms=9.0, bad=1),
        replace(SAMPLE, requests=4000, user_s=0.020, p99_ms=3.0),
        replace(SAMPLE, requests=2000, user_s=0.016, p99_ms=5.0, bad=2),
    ]
    seen = figure("x", samples)
    assert seen.rate == 2000
    assert seen.user_us == pytest.approx(8.0)
    assert seen.system_us == pytest.approx(1.0)
    assert seen.cpu_us == pytest.approx(9.0)
    assert seen.p99_ms == 5.0
    assert seen.bad == 3


def test_contenders_take_turns() -> None:
    turns: list[str] = []

    def measured(name: str, requests: int) -> Sample:
        turns.append(name)
        return of_rate(requests)

    figures = alternate(
        {"a": lambda: measured("a", 300), "b": lambda: measured("b", 100)}, rounds=3
    )
    assert turns == ["a", "b", "a", "b", "a", "b"]
    assert {name: f.rate for name, f in figures.items()} == {"a": 300, "b": 100}


@pytest.mark.parametrize(("requests", "outcome"), [(3499, "NOT MET"), (3500, "met")])
def test_a_rate_is_held_against_its_bar(requests: int, outcome: str) -> None:
    over, under = figure("o", [of_rate(requests)]), figure("u", [of_rate(1000)])
    verdict = at_least("rate", over, under, 3.5)
    assert (verdict.measured, verdict.outcome) == (requests / 1000, outcome)


@pytest.mark.parametrize(("user_s", "outcome"), [(0.0121, "NOT MET"), (0.0119, "met")])
def test_cpu_time_is_held_against_its_bar(user_s: float, outcome: str) -> None:
    over = figure("o", [replace(SAMPLE, user_s=user_s)])
    assert cpu_at_most("cpu", over, figure("u", [SAMPLE]), 1.4).outcome == outcome


@pytest.mark.parametrize(
    ("p99_ms", "outcome"), [(4.1, "NOT MET"), (4.0, "met"), (float("nan"), "NOT MET")]
)
def test_p99_is_held_against_its_bar(p99_ms: float, outcome: str) -> None:
    over = figure("o", [replace(SAMPLE, p99_ms=p99_ms)])
    assert p99_at_most("p99", over, figure("u", [SAMPLE]), 1.0).outcome == outcome


@pytest.mark.parametrize(("measured", "outcome"), [(0.5, "met"), (0.51, "NOT MET")])
def test_an_absolute_figure_is_held_against_its_bar(measured: float, outcome: str) -> None:
    assert absolute_at_most("start", measured, 0.5, "s").outcome == outcome


@pytest.mark.parametrize(("measured", "outcome"), [(0.5, "met"), (0.49, "NOT MET")])
def test_an_absolute_figure_is_held_against_a_bar_below_it(measured: float, outcome: str) -> None:
    assert absolute_at_least("share", measured, 0.5, "x").outcome == outcome


@pytest.mark.parametrize("which", [0, 1])
def test_a_bad_answer_fails_the_row_on_either_side(which: int) -> None:
    samples = [of_rate(4000), of_rate(1000)]
    samples[which] = replace(samples[which], bad=1)
    over, under = (figure("f", [sample]) for sample in samples)
    verdict = at_least("rate", over, under, 3.5)
    assert verdict.outcome == "FAILED"
    assert "1 answers were not 2xx" in verdict.remark


@pytest.mark.parametrize(
    ("over_percent", "under_percent", "remark"),
    [
        (89.9, 89.9, ""),
        (90.0, 50.0, "limited by wrk: the true ratio is higher"),
        (50.0, 90.0, "what it is compared with is limited by wrk: the true ratio is lower"),
        (90.0, 90.0, "both limited by wrk: the ratio says little"),
    ],
)
def test_a_limited_load_generator_is_said(
    over_percent: float, under_percent: float, remark: str
) -> None:
    over = figure("o", [replace(SAMPLE, wrk_percent=over_percent)])
    under = figure("u", [replace(SAMPLE, wrk_percent=under_percent)])
    assert at_least("rate", over, under, 1.0).remark == remark


def test_runs_side_by_side_are_added_and_their_worst_latency_stays() -> None:
    other = replace(SAMPLE, requests=500, p99_ms=7.0, wrk_percent=20.0, bad=2)
    both = side_by_side([SAMPLE, other])
    assert (both.requests, both.p99_ms, both.wrk_percent, both.bad) == (1500, 7.0, 50.0, 2)
    assert both.user_s == pytest.approx(0.016)
