"""The operator's process with shorter times; takes the same arguments.

Its user has no name and a name service does not answer, as it may be in a pod.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from typing import NoReturn

from grid_operator.command import make_options, make_parser
from grid_operator.handlers.operator import OperatorPace, run_operator
from grid_operator.handlers.watching import WatchPace
from grid_operator.ports.errors import OperatorError

LIMIT_S = 5.0


def look_up(*_: object) -> NoReturn:
    raise AssertionError("a look-up that fails, or stops the event loop for as long as it hangs")


def main() -> int:
    vars(getpass)["getuser"] = vars(socket)["gethostbyaddr"] = look_up
    options = make_options(make_parser().parse_args(), os.environ)
    watch = WatchPace(
        life_s=(1, 1), request_s=2.0, grace_s=1.0, retry_first_s=0.05, retry_max_s=0.2
    )
    try:
        asyncio.run(run_operator(options, pace=OperatorPace(watch, LIMIT_S)))
    except OperatorError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
