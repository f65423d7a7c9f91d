"""Server-sent events, line by line, into models. Pure, no I/O.

Only what the service writes is read: `id`, `data`, comments, and an empty line after each event.
"""

from __future__ import annotations

import pydantic

from knowledge_client import errors, models


class SseDecoder:
    """Puts the lines of a stream together."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def decode_line(self, text: str) -> models.Event | None:
        """Take one line without its end; return an event when it is whole.

        Raises:
            UnexpectedAnswer: what came is no event of this interface.
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
                f"GET /v1/events: {data[:200]!r} is no event; check the address"
            ) from exc
