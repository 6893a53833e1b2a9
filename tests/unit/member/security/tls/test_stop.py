"""SIGTERM amid many connections over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.member.security.test_listeners import configuration, tls_of
from tests.unit.member.start.test_stop_load import BOTH_PATHS, ENOUGH, stopped_under_load

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import MemberProcess
    from tests.unit.member.security.certificates import Authority


@BOTH_PATHS
async def test_over_tls_every_client_sees_a_clean_end(
    member_process: Callable[..., MemberProcess], authority: Authority, fast_path: bool
) -> None:
    http = f"  http: {{lane: {{enabled: {str(fast_path).lower()}}}, max-connections: 1000}}\n"
    text = configuration(tls_of(authority)).replace(
        "queue: {default: {}}", "queue: {default: {}, two: {}}"
    )
    process = member_process(text + http)
    seen = await stopped_under_load(process, authority.client())
    assert seen.answers >= ENOUGH
