"""Which provider the tests use here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.commands import succeeds
from tests.e2e.provider.existing import CONTEXT_VARIABLE, ExistingProvider
from tests.e2e.provider.host import is_root
from tests.e2e.provider.kind import KindProvider
from tests.e2e.provider.native.cluster import NativeProvider, own_process

if TYPE_CHECKING:
    from tests.e2e.provider.base import Provider

PROVIDER_VARIABLE: Final = "GRID_E2E_PROVIDER"
NATIVE: Final = "native"
KIND: Final = "kind"
EXISTING: Final = "existing"


def chosen_kind() -> str:
    """Return the kind of provider: the caller's word, else what fits this machine.

    Raises:
        MissingPartError: The word is unknown.
    """
    named = os.environ.get(PROVIDER_VARIABLE)
    if named is None and os.environ.get(CONTEXT_VARIABLE):
        return EXISTING
    if named is None:
        return NATIVE if is_root() or not succeeds("docker", "info") else KIND
    if named not in (NATIVE, KIND, EXISTING):
        raise MissingPartError(f"{PROVIDER_VARIABLE}={named}: want {NATIVE}, {KIND}, {EXISTING}")
    return named


def provider_for_tests(name: str) -> Provider:
    """Return the provider for one run of the tests; its cluster dies with this process."""
    match chosen_kind():
        case "kind":
            return KindProvider(name)
        case "existing":
            return ExistingProvider()
        case _:
            return NativeProvider(name, owner=own_process())
