"""`gridctl explain` of members that speak plain text with each other while clients speak TLS."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gridctl.test_explain import READY, told


@pytest.mark.parametrize(
    ("tls", "status", "is_said"),
    [
        ({"secretName": "t"}, {"membersTls": False}, True),
        ({"secretName": "t"}, {"membersTls": True}, False),
        ({"secretName": "t"}, {}, False),
        ({"secretName": "t", "members": False}, {"membersTls": False}, False),
        (None, {"membersTls": False}, False),
    ],
    ids=["kept from before", "encrypted", "single", "as wanted", "no TLS at all"],
)
def test_members_that_speak_plain_text_unasked_are_told_of(
    tls: dict[str, Any] | None, status: dict[str, Any], is_said: bool
) -> None:
    found = told(READY, spec={"size": 3, **({"tls": tls} if tls else {})}, **status)
    assert any("plain text" in line for line in found.why) is is_said
    assert any("gridctl stop demo" in line for line in found.do) is is_said
