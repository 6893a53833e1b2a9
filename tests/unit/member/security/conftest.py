from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.security import TlsConfig
from tests.unit.member.security.certificates import Authority
from tests.unit.member.security.tls.tls_port import Port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.unit.member.running import RunningMember
    from tests.unit.member.security.certificates import Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("first")


@pytest.fixture
async def open_port(
    member: RunningMember, authority: Authority, pair: Pair
) -> AsyncIterator[Callable[..., Port]]:
    opened: list[Port] = []

    def make(**changes: object) -> Port:
        config = TlsConfig("network.ssl", pair.certificate, pair.key)
        opened.append(Port(member, authority, replace(config, **changes)))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for each in opened:
        await each.close()


@pytest.fixture
async def port(open_port: Callable[..., Port]) -> Port:
    return await open_port().open()
