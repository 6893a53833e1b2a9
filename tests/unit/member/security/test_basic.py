"""How a Basic header is read."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.security.credentials import basic_credentials


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@given(
    st.text(st.characters(exclude_characters=":", codec="utf-8")),
    st.text(st.characters(codec="utf-8")),
)
def test_a_header_gives_back_what_was_put_in(user: str, password: str) -> None:
    assert basic_credentials(basic(user, password)) == (user, password)


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    for header in (text, f"Basic {text}"):
        found = basic_credentials(header)
        assert found is None or ":" not in found[0]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        "Basic !!!!",
        "Basic YWRh",
        "Basic YWRhOnMzY3JldA",
        "Basic /zo6",
        "Bearer YWRhOnMzY3JldA==",
        "Basic YWRhOnMzY3JldA== x",
        "Basic \u00e9",
        "BasicYWRhOnMzY3JldA==",
    ],
)
def test_what_is_no_basic_header_holds_nothing(header: str) -> None:
    assert basic_credentials(header) is None
