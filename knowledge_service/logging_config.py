"""Logs: one JSON object per line on stderr, without secrets, tokens and texts of facts."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= fields
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


def configure(level: str) -> None:
    """Log to stderr as JSON; httpx logs only warnings, since its other lines name each call."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
