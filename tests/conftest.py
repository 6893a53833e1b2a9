"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

import grid_member.engine.api  # noqa: F401  # from its source: compiled modules are for processes

# Members that tests start run what members of users run.
if os.environ.get("CI"):
    os.environ.setdefault("GRID_COMPILED", "required")

# How long an example takes says more about the machine and its other work than about the code. The
# rest is what the environment asks for, such as the same examples each time on a build server.
settings.register_profile(
    "grid", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("grid")
