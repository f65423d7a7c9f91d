"""Decodes server-sent events, line by line. No I/O.

Understands what the service sends: `id`, `data`, comments, and an empty line after each event.
"""

from __future__ import annotations

import pydantic

from knowledge_client import errors, models


class SseDecoder:
    """Assembles events from the lines of a stream."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def decode_line(self, text: str) -> models.Event | None:
        """Add one line without its line end; return the event that it completes, if any.

        Raises:
            UnexpectedAnswer: The data is not an event of this API.
        """
        if text:
            name, _, value = text.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return None
        data, self._data = "\n".join(self._data), []
        if not data:
            return None
        try:
            return models.Event.model_validate_json(data)
        except pydantic.ValidationError as exc:
            raise errors.UnexpectedAnswer(
                f"GET /v1/events: {data[:200]!r} is not an event; check the address"
            ) from exc
