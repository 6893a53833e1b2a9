"""What polls of a lite member that stops are told."""

from __future__ import annotations

import asyncio

import pytest

from grid_member.engine.api import Refused
from grid_member.engine.forward import client
from tests.unit.engine.drive import condition
from tests.unit.engine.forward.parties import Parties
from tests.unit.engine.forward.test_client import LONG_S, PATIENCE_S, waiting


@pytest.mark.parametrize("answers", [True, False])
async def test_a_stop_ends_polls_with_nothing_only_where_a_host_says_so(
    monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    monkeypatch.setattr(client, "DRAIN_S", 0.5)
    async with Parties() as parties:
        poll = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: waiting(parties) == 1)
        if not answers:
            parties.silence()
        await parties.lite.stop()
        ended = await asyncio.wait_for(poll, PATIENCE_S)
        assert ended is None if answers else isinstance(ended, Refused)


async def test_a_stop_without_a_host_tells_no_poll_of_an_empty_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "DRAIN_S", 0.5)
    async with Parties() as parties:
        parties.silence()
        poll = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: bool(parties.lite._waiting))
        await parties.lite.stop()
        assert isinstance(await asyncio.wait_for(poll, PATIENCE_S), Refused)
