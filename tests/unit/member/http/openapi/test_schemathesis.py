"""Whatever is asked by chance, a running member answers as its description says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from grid_member.http.openapi.description import description
from tests.unit.member.running import MemberProcess, configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case

EXTRA = "  cp-subsystem: {cp-member-count: 3}"
ENDS = r"Shutdown$|/queues/\{name\}/\{seconds\}$"
"""What would stop the member, or wait for up to 68 years."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
"""Left out are those that ask for less than there is (PUT and HEAD are not described), or for more
than a description can say (what parameters mean decides whether it is 400)."""
VALUE = "/grid/rest/maps/{name}/{key}"
"""A value that was written without a type comes back without one, which no document can say."""
schema = schemathesis.openapi.from_dict(description("0.2.0"))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    process = MemberProcess(configuration(extra=EXTRA), tmp_path_factory.mktemp("member"))
    process.wait_for("ready")
    yield process.port
    process.kill()


@schema.exclude(path_regex=ENDS).parametrize()
@settings(
    max_examples=20,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: Case[Any], port: int) -> None:
    checks = [c for c in CHECKS if c is not content_type_conformance or case.path != VALUE]
    case.call_and_validate(base_url=f"http://127.0.0.1:{port}", checks=checks, timeout=20)
