"""The lines of the specification, numbered within their sections from top to bottom."""

from __future__ import annotations

INTERFACE = {
    "What": 8,
    "Settings": 6,
    "Map": 4,
    "Queue": 1,
    "Path encoding": 1,
    "Cluster document": 8,
    "Instance document": 1,
    "Version document": 2,
    "WAN sync start": 1,
    "WAN progress": 1,
    "States": 4,
    "Data": 8,
    "Information": 3,
    "Management": 8,
    "WAN": 9,
    "Groups": 7,
    "Authentication": 7,
    "Errors": 5,
    "Limits": 4,
    "Versioning": 4,
}
"""Sections of interface.md and how many lines each has: table rows, then the rules below them."""

ANSWERS = {"1": 13, "2": 7, "3": 18, "4": 3, "5": 2}
"""Sections of answers.md and how many rows or bullets each has."""

CONFIGURATION = "the members under test are configured by it, and the tests of the configuration"
NOTHING = "says nothing that an answer could show"

ELSEWHERE = {
    "interface §What 2": "test_conformance.test_disabled_there_is_no_port",
    "interface §What 4": "tests of the configuration",
    "interface §What 5": "comes with several members",
    "interface §What 6": NOTHING,
    "interface §What 7": NOTHING,
    "interface §What 8": NOTHING,
    "interface §Settings 1": CONFIGURATION,
    "interface §Settings 2": CONFIGURATION,
    "interface §Settings 3": CONFIGURATION,
    "interface §Settings 4": CONFIGURATION,
    "interface §Settings 5": CONFIGURATION,
    "interface §Settings 6": CONFIGURATION,
    "interface §Map 4": NOTHING,
    "interface §States 4": "tests.unit.member.wan.agreement.test_live",
    "interface §Errors 2": "test_http_refusals: an unexpected error inside the member",
    "interface §Errors 4": "test_http_table.test_before_the_join",
    "interface §Limits 2": "processes.management.test_wan.test_three_members_agree",
    "interface §Versioning 1": NOTHING,
    "interface §Versioning 4": NOTHING,
    "answers §1 1": "test_conformance.test_disabled_there_is_no_port",
    "answers §5 1": CONFIGURATION,
}
"""Lines that no row can show, and where else they are."""


def lines() -> set[str]:
    """Return all lines."""
    return {
        *(f"interface §{name} {n + 1}" for name, count in INTERFACE.items() for n in range(count)),
        *(f"answers §{name} {n + 1}" for name, count in ANSWERS.items() for n in range(count)),
    }
