"""Writes new facts in bulk, with the result of `facts.record_all` for their events.

Facts that differ only in number, id, content and hash are packed and passed to one statement, which
unpacks them inside SQLite, where it does not hold the interpreter's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.event_log import fact_event_json
from knowledge_service.store.sqlite.projections import fact_columns, facts
from knowledge_service.store.sqlite.projections.fact_columns import OwnColumns

# The packed form: hash, id, number, then the content to the end.
_PACKED = b"%b%b%012d%b"
_PLAIN = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, lifecycle, review, flags, recorded_at, content_hash, changed_at, changed_seq)
  SELECT CAST(substr(value, 69, 12) AS INTEGER), CAST(substr(value, 33, 36) AS TEXT), ?2, ?3,
  CAST(substr(value, 81) AS TEXT), ?4, ?5, ?6, ?7, 'live', ?8, '[]', ?9, substr(value, 1, 32), ?9,
  ?10 FROM carray(?1)"""
_EVENTS = """WITH RECURSIVE n(no) AS (VALUES(?1) UNION ALL SELECT no + 1 FROM n WHERE no < ?2)
  INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone) SELECT no, ?3, ?3, 0 FROM n"""


# The minimum number of facts in an event: below it, a separate statement costs more than it saves.
_MIN_PACKED = 8


class NewFactsEvent(NamedTuple):
    """New facts without a key that one event records; `first` is the first of their numbers.

    No other change belongs to the event: the facts are live, and the event is its own operation.
    """

    scope_no: int
    seq: int
    first: int
    fact_ids: Sequence[str]
    facts: Sequence[NewFact]


class _SharedColumns(NamedTuple):
    """The values that facts packed together share."""

    kind: str
    tags: tuple[str, ...]
    confidence: float
    review: str
    source: int


def record(connection: apsw.Connection, events_of_facts: Sequence[NewFactsEvent], at: int) -> None:
    """Write new facts."""
    sources: dict[int, str] = {}  # facts of one call mostly share the object
    live: Counter[int] = Counter()
    rows: list[tuple[Any, ...]] = []
    events: list[tuple[int, int, int, int]] = []
    for event in events_of_facts:
        rows += _record(connection, event, at, sources)
        last = event.first + len(event.facts) - 1
        if len(event.facts) < _MIN_PACKED:
            events += [
                (fact_no, event.seq, event.seq, 0) for fact_no in range(event.first, last + 1)
            ]
        else:
            connection.execute(_EVENTS, (event.first, last, event.seq))
        live[event.scope_no] += len(event.facts)
    if rows:
        facts.insert_rows(connection, rows)
    if events:
        facts.insert_fact_events(connection, events)
    facts.insert_tags(
        connection,
        [
            (event.scope_no, fact_no, new.tags)
            for event in events_of_facts
            for fact_no, new in enumerate(event.facts, event.first)
            if new.tags
        ],
    )
    facts.count_live(connection, live, at)


def _record(
    connection: apsw.Connection, event: NewFactsEvent, at: int, sources: dict[int, str]
) -> list[tuple[Any, ...]]:
    """Write facts that can be packed; return the rows of the others."""
    rows: list[tuple[Any, ...]] = []
    packed: dict[_SharedColumns, list[bytes]] = {}
    numbered = enumerate(zip(event.facts, event.fact_ids, strict=True), event.first)
    for fact_no, (new, fact_id) in numbered:
        if id(new.source) not in sources:
            sources[id(new.source)] = canonical(fact_event_json.encode_source(new.source))
        # A fact with a title, or without prepared terms, may have values for other columns.
        if new.terms is None or new.title or len(event.facts) < _MIN_PACKED:
            own_columns = OwnColumns(
                fact_no, fact_id, event.scope_no, None, new.source.type, "live", at, None, None,
                None, new.content_hash, at, event.seq,
            )  # fmt: skip
            payload = fact_event_json.payload_values(new, None)
            rows.append(fact_columns.row(own_columns, payload, sources[id(new.source)]))
            continue
        shared_columns = _SharedColumns(
            new.kind, new.tags, new.confidence, new.review, id(new.source)
        )
        content = new.content.encode()
        data = _PACKED % (new.content_hash, fact_id.encode(), fact_no, content)
        packed.setdefault(shared_columns, []).append(data)
    types = {id(new.source): new.source.type for new in event.facts}
    for shared_columns, data_of in packed.items():
        source = (sources[shared_columns.source], types[shared_columns.source])
        tags = fact_columns.json_list(shared_columns.tags)
        shared = (
            event.scope_no,
            shared_columns.kind,
            tags,
            shared_columns.confidence,
            *source,
            shared_columns.review,
        )
        connection.execute(_PLAIN, (apsw.carray(tuple(data_of)), *shared, at, event.seq))
    return rows
