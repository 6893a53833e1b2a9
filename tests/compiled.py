"""Runs the tests of a process with compiled modules: `pytest -p tests.compiled …`."""

from __future__ import annotations

from grid_member.compiled import use

use("required")
