"""Each alert fires when it should, keeps quiet beside that, and has a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.prometheus.files import RULES, RUNBOOKS, TESTS, alert_names, alerts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.monitoring.conftest import Promtool

# The first test may have to fetch promtool.
pytestmark = pytest.mark.timeout(300, func_only=True)

NAMES = alert_names()
PAGES = [RUNBOOKS.parent / "monitoring.md", *sorted(RUNBOOKS.glob("*.md"))]
CHAPTERS = ["What it means", "What to look at", "What to do", "When it is false"]


def test_the_rules_are_valid(promtool: Promtool) -> None:
    assert promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES)) == ""


def test_promtool_refuses_what_is_wrong(promtool: Promtool, tmp_path: Path) -> None:
    text = RULES.read_text(encoding="utf-8")
    broken = tmp_path / "rules.yaml"
    broken.write_text(text.replace("max by (namespace", "max buy (namespace", 1))

    assert "parse error" in promtool("check", "rules", str(broken))


def test_every_alert_has_a_file_of_tests_and_a_page() -> None:
    assert [path.stem for path in sorted(TESTS.glob("*.yaml"))] == NAMES
    assert [path.stem for path in sorted(RUNBOOKS.glob("*.md"))] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_fires_when_it_should_and_only_then(promtool: Promtool, name: str) -> None:
    assert promtool("test", "rules", str(TESTS / f"{name}.yaml")) == ""


@pytest.mark.parametrize("name", NAMES)
def test_both_are_asked(name: str) -> None:
    text = (TESTS / f"{name}.yaml").read_text(encoding="utf-8")
    cases = [one for test in yaml.safe_load(text)["tests"] for one in test["alert_rule_test"]]
    fired = [one["exp_labels"]["severity"] for case in cases for one in case["exp_alerts"]]

    assert {case["alertname"] for case in cases} == {name}
    assert set(fired) == {a["labels"]["severity"] for a in alerts() if a["alert"] == name}
    assert any(case["exp_alerts"] == [] for case in cases)
    assert text.count("  # ") == text.count("  - interval:"), "each case says what it is"


@pytest.mark.parametrize("name", NAMES)
def test_a_test_that_expects_something_else_fails(
    promtool: Promtool, name: str, tmp_path: Path
) -> None:
    tests = yaml.safe_load((TESTS / f"{name}.yaml").read_text(encoding="utf-8"))
    tests["rule_files"] = [str(RULES)]
    for test in tests["tests"]:
        for case in test["alert_rule_test"]:
            case["exp_alerts"] = [] if case["exp_alerts"] else [{"exp_labels": {}}]
    other = tmp_path / "tests.yaml"
    other.write_text(yaml.safe_dump(tests))

    assert promtool("test", "rules", str(other)).count("alertname:") == len(tests["tests"])


@pytest.mark.parametrize("alert", alerts(), ids=lambda a: f"{a['alert']}-{a['labels']['severity']}")
def test_it_says_what_is_wrong_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert set(alert["labels"]) == {"severity"}
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["runbook_url"] == f"docs/runbooks/{alert['alert']}.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_its_chapters(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    title, first, *_ = [line for line in text.splitlines() if line]
    severities = {a["labels"]["severity"] for a in alerts() if a["alert"] == name}

    assert title == f"# {name}"
    assert {word.lower() for word in re.findall("(?i)warning|critical", first)} == severities
    assert re.findall(r"^## (.*)$", text, re.M) == CHAPTERS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_the_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        linked = page.parent / path
        assert linked.exists(), target
        if anchor:
            text = linked.read_text(encoding="utf-8")
            assert anchor in {slug(h) for h in re.findall(r"^#+ (.*)$", text, re.M)}, target


def test_the_list_of_alerts_is_complete() -> None:
    text = (RUNBOOKS.parent / "monitoring.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \| ([a-z, ]+) \|", text, re.M)
    severities: dict[str, set[str]] = {}
    for alert in alerts():
        severities.setdefault(alert["alert"], set()).add(alert["labels"]["severity"])

    assert all(name == page for name, page, _ in rows)
    assert {name: set(told.split(", ")) for name, _, told in rows} == severities


def slug(heading: str) -> str:
    """Return the anchor of a heading, as Markdown viewers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
