"""How tests with generated examples run."""

from __future__ import annotations

from hypothesis import settings


def test_no_example_fails_for_being_slow() -> None:
    assert settings.get_current_profile_name() == "grid"
    assert settings().deadline is None
