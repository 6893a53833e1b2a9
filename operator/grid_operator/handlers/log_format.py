"""Log lines as text or as one JSON object each."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

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
    """Send the log to standard error.

    Args:
        log_format: `text` or `json`.
        level: The least important lines shown, a name of `logging`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else logging.Formatter(TEXT_FORMAT)
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # It warns that the login handler, which never returns, is cancelled at each stop.
    logging.getLogger("kopf.activities.authentication").setLevel(logging.ERROR)
    for noisy in ("kopf", "aiohttp", "asyncio"):  # they tell of each event at info level
        logging.getLogger(noisy).setLevel(
            max(logging.WARNING, logging.getLogger().level)
            if level.upper() != "DEBUG"
            else logging.INFO
        )
