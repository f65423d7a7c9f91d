"""Logs on stderr: one JSON object a line, without prompts, answers or keys."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from agent_runtime.model_http import MaskingFilter, ModelKey

_QUIET = ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "anthropic", "pydantic_ai")


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, with the key masked in its traceback."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Encode time, level, logger, message, and the traceback if there is one."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self._mask(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def configure(level: str, key: ModelKey) -> None:
    """Send all logs to stderr, with the key masked; libraries log warnings only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(key.mask))
    handler.addFilter(MaskingFilter(key))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs what servers answer
