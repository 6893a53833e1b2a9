"""Runs a member that takes WAN replication though it is one of several, with the words behind it.

Members of several refuse it as long as none of them sends; what they agree on works before that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from grid_member.__main__ import main
from grid_member.config import wan_of_several

if TYPE_CHECKING:
    from grid_member.config import ClusterConfig


def no_problem(cluster: ClusterConfig | None) -> str | None:
    """Say nothing against any cluster."""
    del cluster
    return None


if __name__ == "__main__":
    wan_of_several.several_problem = no_problem
    # python -m grid_member …
    sys.exit(main(sys.argv[4:]))
