"""Frames around data, written by pydantic-ai, which escapes its own tags and ours.

What others send comes to the model in a frame. JSON may contain halves of surrogate pairs, which no
request and no file can; a frame has a question mark in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_ai import framing

from agent_runtime import prompt
from kais.encodable_text import encodable


class PydanticFraming:
    """Writes frames with pydantic-ai, which escapes its own tags and ours."""

    def __init__(self) -> None:
        self._tags = {tag: framing.register_tag(tag) for tag in prompt.TAGS}

    def open_tag(self, tag: str, attributes: Mapping[str, str | None]) -> str:
        """Return the opening tag."""
        return framing.open_tag(self._tags[tag], **_encodable_values(attributes))

    def close_tag(self, tag: str) -> str:
        """Return the closing tag."""
        return framing.close_tag(self._tags[tag])

    def wrap(self, tag: str, body: str, attributes: Mapping[str, str | None]) -> str:
        """Return the body in its frame."""
        return framing.wrap(self._tags[tag], encodable(body), **_encodable_values(attributes))


def _encodable_values(attributes: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: None if value is None else encodable(value) for name, value in attributes.items()}
