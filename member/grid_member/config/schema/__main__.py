"""Writes the published description of configurations."""

from __future__ import annotations

import sys

from grid_member.config.schema.publication import main

if __name__ == "__main__":
    main(sys.argv[1:])
