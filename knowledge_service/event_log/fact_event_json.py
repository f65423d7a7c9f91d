"""A fact as the log has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import times


def fields(
    new: NewFact, fact_id: str, sources: dict[int, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Write a fact; what it has not is left out. `sources` remembers those of facts before it."""
    known = {} if sources is None else sources
    source = known.get(id(new.source))
    if source is None:
        source = new.source.model_dump(mode="json", exclude_none=True)
        known[id(new.source)] = source
    given = {
        "fact": fact_id, "kind": new.kind, "title": new.title, "content": new.content,
        "data": new.data, "schema": new.schema, "about": new.about, "position": new.position,
        "subject": new.subject, "predicate": new.predicate, "tags": new.tags,
        "confidence": new.confidence,
        "source": source,
        "expires_at": times.to_us(new.expires_at), "valid_from": times.to_us(new.valid_from),
        "valid_until": times.to_us(new.valid_until), "flags": new.flags or None,
        "review": None if new.review == "none" else new.review,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


class _Line(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """The names of `fields` in their order, behind the fact's id."""

    kind: str
    title: str | None = None
    content: str
    data: Any = None
    schema: str | None = None
    about: str | None = None
    position: int | None = None
    subject: str | None = None
    predicate: str | None = None
    tags: tuple[str, ...]
    confidence: float
    source: msgspec.Raw
    expires_at: int | None = None
    valid_from: int | None = None
    valid_until: int | None = None
    flags: tuple[str, ...] | None = None
    review: str | None = None


def encode_without_ids(facts: Sequence[NewFact]) -> list[bytes]:
    """Write what `fields` says of each fact as JSON, up to its number and id, at half the cost."""
    to_us = times.to_us
    sources: dict[int, msgspec.Raw] = {}  # facts told together mostly share the object
    found = []
    for new in facts:
        source = sources.get(id(new.source))
        if source is None:
            told = new.source.model_dump(mode="json", exclude_none=True)
            source = sources[id(new.source)] = msgspec.Raw(msgspec.json.encode(told))
        line = _Line(
            kind=new.kind, title=new.title, content=new.content, data=new.data, schema=new.schema,
            about=new.about, position=new.position, subject=new.subject, predicate=new.predicate,
            tags=new.tags, confidence=new.confidence, source=source, flags=new.flags or None,
            expires_at=to_us(new.expires_at), valid_from=to_us(new.valid_from),
            valid_until=to_us(new.valid_until),
            review=None if new.review == "none" else new.review,
        )  # fmt: skip
        found.append(line)
    return _LINES.encode_lines(found).split(b"\n")[:-1]


def with_ids(lines: Sequence[bytes], fact_ids: Sequence[str], first: int) -> list[bytes]:
    """Put numbers, from the first on, and ids before what `encode_without_ids` gives."""
    numbered = enumerate(zip(lines, fact_ids, strict=True), first)
    return [
        b'{"no":%d,"fact":"%b",%b' % (no, fact_id.encode(), line[1:])
        for no, (line, fact_id) in numbered
    ]


_LINES = msgspec.json.Encoder()
