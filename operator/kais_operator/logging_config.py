"""Logs on stderr, and the levels of the libraries' loggers.

JSON: one object a line, with the keys of the knowledge service's log.

A record's `fields`, given as `extra={"fields": {...}}`, become keys of the object. `text` is for a
terminal: the same fields as `key=value`, always on one line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_QUIET = {
    "kopf": logging.WARNING,
    # Its only warning says that it ignores signals outside of the main thread, as intended.
    "kopf._core.reactor.running": logging.ERROR,
    "httpx": logging.WARNING,
    # It logs each agent card that it reads, of any size.
    "a2a": logging.WARNING,
    # The error that follows repeats the warning.
    "kubernetes.aio.config": logging.ERROR,
}
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Encode time, level, logger, message, the record's fields, and its traceback."""
        written_at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "at": written_at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


class TextFormatter(logging.Formatter):
    """Formats a record as a line for people; a traceback follows on its own lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """Put the record's fields before its message."""
        fields = _fields(record)
        if fields:
            message = " ".join(record.message.split())
            pairs = {**fields, "message": message}
            record.message = " ".join(f"{key}={value}" for key, value in pairs.items())
        return super().formatMessage(record)


def configure(level: str, log_format: str) -> None:
    """Send all logs to stderr as `json` or `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name, lowest_level in _QUIET.items():
        logging.getLogger(name).setLevel(lowest_level)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}
