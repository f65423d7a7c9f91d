"""Facts written together, in bulk, leave what they would leave one by one."""

from __future__ import annotations

import dataclasses
import itertools
import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_client.models import Ref, Source
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import event_payloads, fact_event_json
from knowledge_service.search.text import term_ids
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.uuid7 import Uuid7Generator
from tests.knowledge_builders import LEAD, PERSON, TEAM, new_fact

# The rows of documents of each scope: their key's bucket is the first.
DOCUMENTS = "SELECT key >> 39, sum(size) FROM posting WHERE key >> 28 & 2047 = 0 GROUP BY 1"
NOW = datetime(2026, 5, 4, 3, 2, 1, 5, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
MAYBE = st.none() | TEXTS
FACTS = st.builds(
    new_fact,
    st.sampled_from(["rain", "rain in May 7", 'say "x\\y"', "a\nb", "é\u2028"]) | TEXTS,
    st.sampled_from([TEAM, LEAD]),
    kind=st.sampled_from(["fact", "pitfall"]),
    title=MAYBE,
    tags=st.lists(TEXTS, max_size=3).map(tuple),
    data=st.none() | st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS, max_size=2),
    schema=MAYBE,
    about=MAYBE,
    position=st.none() | st.integers(0, 9),
    subject=MAYBE,
    predicate=MAYBE,
    confidence=st.sampled_from([0.0, 0.5, 1 / 3, 1.0]),
    expires_at=st.none() | st.just(NOW),
    valid_from=st.none() | st.just(NOW),
    review=st.sampled_from(["none", "draft"]),
    flags=st.sampled_from([(), ("instructions",)]),
    source=st.sampled_from(
        [
            Source(type="user_input", actor="é"),
            Source(type="import", refs=(Ref(type="file", id="x"),)),
        ]
    ),
)


def looked_at(facts: list[NewFact]) -> list[NewFact]:
    """Make facts what they are when a batch was looked at: their terms are known."""
    plain = [dataclasses.replace(new, data=None, schema=None, about=None, position=None,
                                 subject=None, predicate=None, expires_at=None, valid_from=None,
                                 flags=()) for new in facts]  # fmt: skip
    for new in plain:
        new.__dict__["terms"] = term_ids.term_ids_of(new.rendering)
    return plain


@given(st.lists(FACTS, min_size=1, max_size=4))
def test_lines_are_the_json_of_the_fields(facts: list[NewFact]) -> None:
    ids = [f"id-{n}" for n in range(len(facts))]
    numbered = zip(itertools.count(7), facts, ids, strict=False)
    expected = [
        msgspec.json.encode({"no": no, **fact_event_json.fields(new, fact_id)})
        for no, new, fact_id in numbered
    ]
    assert fact_event_json.with_ids(fact_event_json.encode_without_ids(facts), ids, 7) == expected


@settings(max_examples=25)
@given(st.lists(FACTS, min_size=1, max_size=12) | st.lists(FACTS, min_size=1).map(looked_at))
def test_rebuild_makes_what_was_written_together_again_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, facts: list[NewFact]
) -> None:
    path = tmp_path_factory.mktemp("batches") / "knowledge.db"
    store = SqliteStore(path)
    store.remember(facts[: len(facts) // 2] or facts, actor=PERSON)
    store.remember(facts, actor=PERSON)
    store.close()
    assert_rebuilt(path)


def assert_rebuilt(path: Path) -> None:
    db = apsw.Connection(str(path))
    initial_fingerprint = projection_rebuild.fingerprint(db)
    assert offline_rebuild.verify(path).problems == ()
    assert offline_rebuild.rebuild(path).changed == ()
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


@settings(max_examples=15)
@given(st.lists(FACTS, min_size=1, max_size=10) | st.lists(FACTS, max_size=10).map(looked_at))
def test_tables_and_index_are_those_of_facts_told_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, facts: list[NewFact]
) -> None:
    apart = {(new.scope, new.content_hash): new for new in facts if new.key_hash is None}
    facts = list(apart.values())
    remaining_contents = contents(tmp_path_factory.mktemp("together"), [facts] if facts else [])
    right = contents(tmp_path_factory.mktemp("apart"), [[new] for new in facts])
    assert remaining_contents == right


def contents(folder: Path, calls: list[list[NewFact]]) -> dict[str, Any]:
    """Return what tables hold, without ids, times and places in the log."""
    path = folder / "knowledge.db"
    store = SqliteStore(path, clock=lambda: NOW)
    for facts in calls:
        store.remember(facts, actor=PERSON)
    store.close()
    db = apsw.Connection(str(path))
    by_scope = (
        "SELECT s.path, f.* FROM fact f JOIN scope s USING(scope_no) ORDER BY content_hash, 1"
    )
    cursor = db.execute(by_scope)
    left_out = {"id", "fact_no", "scope_no", "changed_seq"}
    rows = [
        {
            name: value
            for (name, _), value in zip(cursor.get_description(), row, strict=True)
            if name not in left_out
        }
        for row in cursor
    ]
    tags = db.execute(
        "SELECT s.path, t.tag, f.content_hash FROM fact_tag t JOIN fact f USING(fact_no)"
        " JOIN scope s ON s.scope_no = t.scope_no ORDER BY 1, 2, 3"
    ).fetchall()
    counts = db.execute("SELECT path, live_facts FROM scope ORDER BY path").fetchall()
    output = [
        {name: value for name, value in json.loads(line).items() if name not in ("no", "fact")}
        for salt, data in db.execute(
            "SELECT p.salt, p.bytes FROM payload p JOIN event e USING(seq)"
            " WHERE type = 'fact.recorded'"
        )
        for line in data.split(b"\n")
        if event_payloads.StoredPayload(salt, data).hash
    ]
    documents = db.execute(DOCUMENTS).fetchall()
    db.close()
    key = lambda each: json.dumps(each, sort_keys=True)  # noqa: E731 - one place sorts by it
    return {
        "facts": rows, "tags": tags, "counts": counts, "said": sorted(output, key=key),
        "documents": documents,
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 200, 70_000])
def test_ids_made_together_go_on_from_those_before(count: int) -> None:
    ids = Uuid7Generator()
    first = ids.generate(NOW)
    results = [first, *ids.generate_batch(NOW, count), ids.generate(NOW)]
    assert results == sorted(set(results))
    assert len(results) == count + 2


def test_ids_made_together_count_on_over_their_last_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "randbits", lambda _: 0)  # the steps of both are one
    ids = Uuid7Generator()
    ids._last = (int(NOW.timestamp() * 1000) << 74) | ((1 << 48) - 3)
    apart = Uuid7Generator()
    apart._last = ids._last
    assert ids.generate_batch(NOW, 6) == [apart.generate(NOW) for _ in range(6)]


def test_event_of_one_part_is_hashed_as_it_always_was() -> None:
    for lines in ([b'{"a":1}'], [b'{"a":1}', b'{"b":2}']):
        sealed, result = event_payloads.encode_lines(lines)
        assert result == sealed.hash
