"""What happens to cases that the chosen provider cannot do."""

from __future__ import annotations

from tests.e2e.provider.base import Capability, missing_capabilities
from tests.e2e.provider.existing import ExistingProvider


def test_a_missing_capability_is_named_with_the_way_to_leave_such_cases_out() -> None:
    provider = ExistingProvider("somewhere")
    wanted = {Capability.STORAGE, Capability.SIGNAL, Capability.NODE_CUT}
    message = missing_capabilities(provider, wanted)
    assert message is not None
    assert message.startswith("provider somewhere cannot do: node-cut, signal;")
    assert "-m 'not capability'" in message


def test_nothing_is_missing_of_what_is_offered() -> None:
    assert missing_capabilities(ExistingProvider("somewhere"), {Capability.STORAGE}) is None
