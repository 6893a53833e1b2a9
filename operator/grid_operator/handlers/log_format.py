"""Log lines as text or as one JSON object each."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from grid_operator.ports.output import gap_text, replace_stderr

TEXT_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(log_format: str, level: str) -> None:
    """Send the log, and what else is written to `sys.stderr`, to standard error.

    Nothing waits for its reader but, for a second, the end of the process.

    Args:
        log_format: `text` or `json`.
        level: The least important lines shown, a name of `logging`.
    """
    formatter = JsonFormatter() if log_format == "json" else logging.Formatter(TEXT_FORMAT)
    handler = logging.StreamHandler(replace_stderr(lambda lines: formatter.format(_gap(lines))))
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # It warns that the login handler, which never returns, is cancelled at each stop.
    logging.getLogger("kopf.activities.authentication").setLevel(logging.ERROR)
    for noisy in ("kopf", "aiohttp", "asyncio"):  # they tell of each event at info level
        logging.getLogger(noisy).setLevel(
            max(logging.WARNING, logging.getLogger().level)
            if level.upper() != "DEBUG"
            else logging.INFO
        )


def _gap(lines: int) -> logging.LogRecord:
    return logging.LogRecord(__name__, logging.WARNING, "", 0, gap_text(lines), (), None)
