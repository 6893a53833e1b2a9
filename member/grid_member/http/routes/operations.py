"""The functions that carry out what the rows of the routing table name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from grid_member.http.routes import configuration, cp, data, documents, management, persistence
from grid_member.http.table import ROUTES

if TYPE_CHECKING:
    from grid_member.http.routes.calls import Operation

_NAMES: Final = frozenset(row.operation for row in ROUTES)
OPERATIONS: Final[dict[str, Operation]] = {
    name: function
    for module in (configuration, cp, data, documents, management, persistence)
    for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
    if name in _NAMES
}
