"""New facts written as they were told: what `facts.record_all` does of their events, in bulk.

Facts that differ in number, id, words and hash alone are packed and given to one statement, which
takes them apart inside SQLite: there it holds no lock that Python needs for anything else.
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

# What is packed: hash, id, number, and the content to the end.
_PACKED = b"%b%b%012d%b"
_PLAIN = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, lifecycle, review, flags, recorded_at, content_hash, changed_at, changed_seq)
  SELECT CAST(substr(value, 69, 12) AS INTEGER), CAST(substr(value, 33, 36) AS TEXT), ?2, ?3,
  CAST(substr(value, 81) AS TEXT), ?4, ?5, ?6, ?7, 'live', ?8, '[]', ?9, substr(value, 1, 32), ?9,
  ?10 FROM carray(?1)"""
_EVENTS = """WITH RECURSIVE n(no) AS (VALUES(?1) UNION ALL SELECT no + 1 FROM n WHERE no < ?2)
  INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone) SELECT no, ?3, ?3, 0 FROM n"""


# Facts of one event: below, a statement of their own costs more than it saves.
_FEW = 8


class New(NamedTuple):
    """New facts without a key that one event records, as they were told and by their first number.

    Nothing else was done with them: they are live, and the event is an operation of its own.
    """

    scope_no: int
    seq: int
    first: int
    fact_ids: Sequence[str]
    facts: Sequence[NewFact]


class _Alike(NamedTuple):
    """What facts that are packed together have in common."""

    kind: str
    tags: tuple[str, ...]
    confidence: float
    review: str
    source: int


def record(connection: apsw.Connection, told: Sequence[New], at: int) -> None:
    """Write new facts."""
    sources: dict[int, str] = {}  # facts told together mostly share the object
    live: Counter[int] = Counter()
    rows: list[tuple[Any, ...]] = []
    events: list[tuple[int, int, int, int]] = []
    for one in told:
        rows += _record(connection, one, at, sources)
        last = one.first + len(one.facts) - 1
        if len(one.facts) < _FEW:
            events += [(no, one.seq, one.seq, 0) for no in range(one.first, last + 1)]
        else:
            connection.execute(_EVENTS, (one.first, last, one.seq))
        live[one.scope_no] += len(one.facts)
    if rows:
        facts.insert(connection, rows)
    if events:
        facts.enter(connection, events)
    facts.tag(
        connection,
        [
            (one.scope_no, no, new.tags)
            for one in told
            for no, new in enumerate(one.facts, one.first)
            if new.tags
        ],
    )
    facts.count(connection, live, at)


def _record(
    connection: apsw.Connection, told: New, at: int, sources: dict[int, str]
) -> list[tuple[Any, ...]]:
    """Write facts that can be packed; return the rows of the others."""
    rows: list[tuple[Any, ...]] = []
    packed: dict[_Alike, list[bytes]] = {}
    numbered = enumerate(zip(told.facts, told.fact_ids, strict=True), told.first)
    for no, (new, fact_id) in numbered:
        if id(new.source) not in sources:
            sources[id(new.source)] = canonical(fact_event_json.encode_source(new.source))
        # One with a title, or that was not looked at, may say more than these columns hold.
        if new.terms is None or new.title or len(told.facts) < _FEW:
            own = OwnColumns(
                no, fact_id, told.scope_no, None, new.source.type, "live", at, None, None, None,
                new.content_hash, at, told.seq,
            )  # fmt: skip
            payload = fact_event_json.payload_values(new, None)
            rows.append(fact_columns.row(own, payload, sources[id(new.source)]))
            continue
        alike = _Alike(new.kind, new.tags, new.confidence, new.review, id(new.source))
        words = new.content.encode()
        data = _PACKED % (new.content_hash, fact_id.encode(), no, words)
        packed.setdefault(alike, []).append(data)
    types = {id(new.source): new.source.type for new in told.facts}
    for alike, data_of in packed.items():
        source = (sources[alike.source], types[alike.source])
        tags = fact_columns.json_list(alike.tags)
        shared = (told.scope_no, alike.kind, tags, alike.confidence, *source, alike.review)
        connection.execute(_PLAIN, (apsw.carray(tuple(data_of)), *shared, at, told.seq))
    return rows
