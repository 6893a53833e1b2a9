"""The operations on the license."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.cluster.values.licenses import license_problem, new_license, stored_license
from grid_member.http.routes.idempotent import management_of, settle
from grid_member.http.routes.preconditions import (
    lagging_problem,
    starting_problem,
    unjoined_problem,
)
from grid_member.http.wire.answers import Answer, document, error

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall


async def license_get(call: HttpCall) -> Answer:
    """Return what is told of the license."""
    problem = starting_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    info = stored_license(management_of(call).store)
    return error(404, "no license is set") if info is None else document({"licenseInfo": info})


async def license_set(call: HttpCall) -> Answer:
    """Keep a license key for the whole cluster."""
    key = call.parameters[2]
    wrong = license_problem(key)
    if wrong is not None:
        return error(400, wrong)
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    info, put = new_license(key)
    return await settle(call, document({"status": "success", "licenseInfo": info}), put)
