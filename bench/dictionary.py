"""Prints how many bytes of memory an entry of a plain `dict` of bytes takes.

python -m bench.dictionary ENTRIES VALUE_BYTES
"""

from __future__ import annotations

import os
import sys

from bench.processes import rss_bytes


def main() -> None:
    count, value_bytes = int(sys.argv[1]), int(sys.argv[2])
    itself = (os.getpid(),)
    before = rss_bytes(itself)
    held = {b"%d" % key: b"%0*d" % (value_bytes, key) for key in range(count)}
    print((rss_bytes(itself) - before) / len(held))


if __name__ == "__main__":
    main()
