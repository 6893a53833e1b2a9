"""The release that this is; `pyproject.toml` says the same.

Asking the installed package for it loads modules that take longer than the whole configuration.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
