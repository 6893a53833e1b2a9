"""The handler of each operation, by the name that the routing table gives the operation."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from grid_member.http.routes import (
    configuration,
    cp,
    data,
    health,
    information,
    management,
    persistence,
    wan,
)
from grid_member.http.table import ROUTES

if TYPE_CHECKING:
    from grid_member.http.routes.calls import Operation

_MODULES: Final = (configuration, cp, data, health, information, management, persistence, wan)
_NAMES: Final = frozenset(row.operation for row in ROUTES)
HANDLERS: Final[dict[str, Operation]] = {
    name: function
    for module in _MODULES
    for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
    if name in _NAMES
}
