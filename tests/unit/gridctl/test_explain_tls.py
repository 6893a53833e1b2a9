"""`gridctl explain` of what members speak with each other: plain text unasked, or nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from grid_member.engine.server.output import ServerLog
from tests.unit.gridctl.fake_api import condition
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


@pytest.mark.parametrize(
    "problem",
    ["tls: failed to verify certificate: x509", "remote error: tls: expired certificate"],
)
def test_members_that_do_not_trust_each_other_need_another_secret(problem: str) -> None:
    heard = ServerLog(logging.getLogger("test"), [])
    for at_s in range(4):
        line = f"[1] [ERR] 10.0.0.1:59 - rid:9 - TLS route handshake error: {problem}\n"
        heard.feed(line.encode(), float(at_s))
    message = f"demo-0 is not ready yet: it waits: {heard.apart(4.0)}"
    found = told(condition("Ready", "False", "MembersNotReady", message), spec={"size": 3})
    assert any("*.demo-members.grids.svc" in line for line in found.do)
