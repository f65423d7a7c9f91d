"""The text of a fact, as it is indexed. Pure.

The analysis worker imports this module, so it imports no models of the wire: they would be most of
the worker's start and of its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kais import facts
from knowledge_service.domain import conversation_metadata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class FactText(NamedTuple):
    """The text of a fact without data, key, validity or alias."""

    kind: str
    content: str
    title: str | None
    tags: tuple[str, ...]

    @property
    def rendering(self) -> str:
        """Return the `rendering` of a fact with this text, provided that no gate changes it."""
        if not (self.title or self.tags):
            return self.content
        tags = tuple(facts.merge_tags((), self.tags))
        return rendering({"title": self.title, "content": self.content, "tags": tags})


def rendering(fact: Mapping[str, Any]) -> str:
    """Return the text to index from a fact's fields in the event log.

    It includes the first day of validity, so that a query with that day matches, and speaker and
    time from the data.
    """
    since = fact.get("valid_from")
    day = None if since is None else (_EPOCH + since * _MICROSECOND).date().isoformat()
    turn = conversation_metadata.parse(fact.get("data"))
    parts = (
        fact.get("title"), fact["content"], fact.get("subject"), " ".join(fact["tags"]), day,
        turn.speaker, turn.time_text,
    )  # fmt: skip
    return "\n".join(part for part in parts if part)
