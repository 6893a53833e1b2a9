from __future__ import annotations

import pytest

from tests.unit.member.client.running import Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`grid-member client`."""
    return Command(capsys)
