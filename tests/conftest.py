"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about the machine and its other work than about the code. The
# rest is what the environment asks for, such as the same examples each time on a build server.
settings.register_profile(
    "grid", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("grid")
