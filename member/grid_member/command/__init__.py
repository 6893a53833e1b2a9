"""What the command `grid-member` does, a module for each of its verbs, and its exit codes."""

from typing import Final

EXIT_CONFIG: Final = 2
"""Wrong arguments, or a configuration that cannot be used."""
EXIT_START: Final = 3
"""A port is taken, or the data cannot be opened."""
EXIT_UNCONFIRMED: Final = 4
"""Stopped, but the disk did not confirm the last commit in time."""
