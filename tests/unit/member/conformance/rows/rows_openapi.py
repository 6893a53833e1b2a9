"""The description of the interface: answers section 3, its place among the endpoints."""

from __future__ import annotations

import re

from tests.unit.member.conformance.language import Role, Row, call, matching, row
from tests.unit.member.conformance.paths import PATHS

OPENAPI = "/grid/rest/openapi.json"
SHOWN = "".join(
    f'(?=.*"{re.escape(path.path.replace("...}", "}"))}":\\{{"(get|post|delete)":)'
    for path in PATHS
)
DESCRIPTION = matching(rf'{SHOWN}\{{"openapi":"3\.1\.0","info":\{{.*\}}\}}')

ROWS: tuple[Row, ...] = tuple(
    row(
        "answers §3 17; answers §1 9; answers §1 13",
        call("GET", OPENAPI, DESCRIPTION),
        call("HEAD", OPENAPI, DESCRIPTION),
        call("GET", f"{OPENAPI}/", DESCRIPTION),
        call("GET", f"{OPENAPI}?format=yaml", DESCRIPTION),
        role=role,
    )
    for role in (Role.OPEN, Role.DEFAULTS)
)
