"""Which modules are compiled: what data requests run through, and who inherits from that."""

from __future__ import annotations

from typing import Final

MODULES: Final = (
    "grid_member/compiled/proof.py",
    "grid_member/http/lane.py",
    "grid_member/http/lane_answers.py",
    "grid_member/http/desk.py",
    "grid_member/http/plain.py",
    "grid_member/engine/engine.py",
    "grid_member/engine/map_side.py",
    "grid_member/engine/system_side.py",
    "grid_member/engine/lane.py",
    "grid_member/engine/log.py",
    "grid_member/engine/state.py",
    "grid_member/engine/maps.py",
    "grid_member/engine/queues.py",
    "grid_member/engine/polls.py",
    "grid_member/engine/landing.py",
    "grid_member/engine/stored.py",
    "grid_member/engine/operations.py",
    "grid_member/engine/api.py",
)
"""Paths below the directory that the package is in."""
