"""The engine of a member: maps, queues and system state over a log. `api` is the contract."""

from grid_member.engine.local.engine import LocalEngine, open_engine
from grid_member.engine.log.log import wall_clock_ms

__all__ = ["LocalEngine", "open_engine", "wall_clock_ms"]
