"""Entities and observations are found by a part of their text, by name, and about each other."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from knowledge_client.models import AliasIn
from knowledge_service import clock, migrations
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import contains_text
from knowledge_service.ports import ActionContext, Listing, Store
from knowledge_service.search.text import trigrams
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.projections import trigram_index
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.store.sqlite.upgrade import migrate
from tests.knowledge_builders import ALL, LEAD, OPERATOR, OTHER, PERSON, TEAM, new_fact

VIEW = View(LEAD)
ORDER = ActionContext(PERSON, "because")
TEXTS = (
    "Ship the release",
    "SHIP_IT-now 100%",
    "a",
    "ab",
    "知识 is knowledge",
    "Straße and STRASSE",
    "İstanbul",
    "nul\0 inside the text",
    'quotes " and * and ^ AND OR NOT',
    "back\\slash and per_cent%",
    "x" * 400 + " the end of a long text",
    "tabs\tand\nlines",
    "é and E",
)
PARTS = (
    *(
        "ship",
        "SHIP",
        "hip th",
        "release",
        "release ",
        "a",
        "b",
        "ab",
        "zzz",
        "100%",
        "xx the end of",
    ),
    *(
        "知",
        "知识",
        "识 is",
        "ß",
        "SS",
        "stras",
        "straß",
        "i",
        "İ",
        "istanbul",
        "é",
        "É",
        "x" * 300,
    ),
    *("l\0 i", "\0", '"', "* and", "AND", "not", "_", "%", "per_cent%", "\\", "\t", "\nlines"),
)


def stored(store: Store, *texts: str, scope: str = TEAM, kind: str = "entity") -> list[str]:
    facts = [new_fact(text, scope, kind=kind, schema_="graph/1") for text in texts]
    return [result.fact_id for result in store.remember(facts, actor=OPERATOR)]


def found(
    store: Store, text: str, kind: str = "entity", view: View = VIEW, limit: int = 100
) -> list[str]:
    listing = Listing(view, limit, kind=kind, lifecycle="live", contains=text)
    return [fact.id for fact in store.list_facts(listing)]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_finds_the_texts_that_have_it_newest_first(store: Store, part: str) -> None:
    stored(store, *TEXTS)
    everything = store.list_facts(Listing(VIEW, 100, kind="entity"))
    expected = [fact.id for fact in everything if contains_text(fact, part)]
    assert found(store, part) == expected


def test_titles_and_subjects_are_searched_too(store: Store) -> None:
    fact = new_fact("a name", kind="entity", title="Its Title", subject="desired_outcome")
    (result,) = store.remember([fact], actor=OPERATOR)
    assert found(store, "its tit") == found(store, "RED_OUT") == [result.fact_id]
    assert found(store, "name its") == []


def test_a_search_sees_visible_scopes_and_merges_them_by_age(store: Store) -> None:
    own = stored(store, "needle 1", scope=LEAD)
    stored(store, "needle of others", scope=OTHER)
    above = stored(store, "needle 2")
    last = stored(store, "needle 3", scope=LEAD)
    assert found(store, "needle") == [*last, *above, *own]
    assert found(store, "needle", view=View(OTHER)) == found(store, "of others", view=ALL)


def test_pages_of_a_search_follow_each_other(store: Store) -> None:
    ids = stored(store, *(f"needle {n}" for n in range(7)))[::-1]
    before, pages = None, []
    while page := store.list_facts(
        Listing(VIEW, 3, kind="entity", contains="needle", before_id=before)
    ):
        pages.append([fact.id for fact in page])
        before = page[-1].id
    assert pages == [ids[:3], ids[3:6], ids[6:]]


def test_a_closed_fact_is_found_by_its_lifecycle_only(store: Store) -> None:
    (fact_id,) = stored(store, "needle")
    store.retract(fact_id, ORDER)
    assert found(store, "needle") == []
    listing = Listing(VIEW, 10, kind="entity", lifecycle="retracted", contains="needle")
    assert [fact.id for fact in store.list_facts(listing)] == [fact_id]
    store.restore(fact_id, ORDER)
    assert found(store, "needle") == [fact_id]


def test_observations_come_in_order_about_each_version_and_end_at_the_limit(store: Store) -> None:
    first, second = stored(store, "one", "two")
    texts = {"b": 1, "a": 0, "last": None, "c": 2}
    about = [
        new_fact(t, LEAD, kind="observation", about=first, position=p) for t, p in texts.items()
    ]
    store.remember(about, actor=OPERATOR)
    revised = store.revise(first, {"title": "One"}, ORDER).successor_id
    store.remember([new_fact("d", kind="observation", about=revised, position=3)], actor=OPERATOR)
    store.remember([new_fact("e", kind="other", about=revised)], actor=OPERATOR)
    store.remember([new_fact("hidden", OTHER, kind="observation", about=first)], actor=OPERATOR)

    by_id = store.facts_about([revised, second], VIEW, kind="observation", limit=10)
    assert {key: [fact.content for fact in facts] for key, facts in by_id.items()} == {
        revised: ["a", "b", "c", "d", "last"]
    }
    by_id = store.facts_about([first], VIEW, kind="observation", limit=2)
    assert [fact.content for fact in by_id[first]] == ["a", "b"]
    assert store.current_versions([first, second, "unknown"], VIEW).keys() == {first, second}
    assert store.current_versions([first], VIEW)[first].id == revised
    assert store.current_versions([first], View(OTHER)) == {}


def test_facts_are_found_by_their_names(store: Store) -> None:
    named = [
        new_fact(text, scope, kind="entity", aliases=(AliasIn(namespace="entity", value=text),))
        for scope, text in ((TEAM, "a\0b"), (LEAD, "a\0b"), (LEAD, "c"), (OTHER, "c"))
    ]
    store.remember(named, actor=OPERATOR)
    facts = store.facts_named("entity", ("a\0b", "c", "missing"), VIEW)
    assert sorted((name, fact.scope) for name, fact in facts) == [
        ("a\0b", TEAM), ("a\0b", LEAD), ("c", LEAD)
    ]  # fmt: skip
    assert store.facts_named("other", ("c",), VIEW) == ()


@pytest.mark.parametrize("realm_count", [3, 70])
def test_a_reader_of_many_scopes_finds_the_same(store: Store, realm_count: int) -> None:
    ids = [
        *(stored(store, f"needle {n}", scope=f"realm:r{n}")[0] for n in range(realm_count)),
        stored(store, "unrelated", scope="realm:r0")[0],
    ]
    name = AliasIn(namespace="entity", value="n")
    named = [new_fact("named", f"realm:r{n}", aliases=(name,)) for n in (0, 1)]
    store.remember(named, actor=OPERATOR)
    about = [new_fact(f"o{n}", f"realm:r{n}", kind="observation", about=ids[0]) for n in (1, 2)]
    store.remember(about, actor=OPERATOR)
    assert found(store, "needle", view=ALL) == ids[-2::-1]
    assert len(found(store, "needle", view=ALL, limit=2)) == 2
    assert len(store.facts_named("entity", ("n",), ALL)) == 2
    by_id = store.facts_about(ids, ALL, kind="observation", limit=5)
    assert [fact.content for fact in by_id[ids[0]]] == ["o1", "o2"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def rows_of(path: Path, text: str) -> int:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    terms = trigrams.expression(trigrams.of_query(text))
    (count,) = next(
        iter(db.execute("SELECT count(*) FROM trigram WHERE trigram MATCH ?", (terms,)))
    )
    db.close()
    return int(count)


def test_an_erased_text_leaves_the_index(path: Path) -> None:
    store = SqliteStore(path)
    erased, other = stored(store, "xylophone", "zither")
    (observation,) = stored(store, "a xylophone sounds", kind="observation")
    for fact_id in (erased, observation):
        store.erase(fact_id, ORDER)
    assert rows_of(path, "xyl") == rows_of(path, "x") == 0
    assert found(store, "zither") == [other]
    again = stored(store, "xylophones")
    assert found(store, "xylophone") == again
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_an_erased_scope_leaves_no_row_in_the_index(path: Path) -> None:
    store = SqliteStore(path)
    (old,) = stored(store, "xylophone")
    store.delete_scope(TEAM, actor=OPERATOR, erase=True)
    while store.erase_deleted():
        pass
    assert store.fact(old, ALL) is None
    assert rows_of(path, "xyl") == 0
    store.close()


def test_facts_of_an_adopted_scope_are_found_in_it(path: Path) -> None:
    store = SqliteStore(path)
    old = stored(store, "needle of before")
    store.delete_scope("realm:demo", actor=OPERATOR)
    new = stored(store, "needle of after")
    store.adopt_scope("realm:demo", actor=OPERATOR)
    assert found(store, "needle") == [*new, *old]
    assert rows_of(path, "needle") == 2
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_an_older_file_gets_the_index_of_what_it_has(path: Path) -> None:
    store = SqliteStore(path)
    ids = stored(store, *TEXTS)
    store.close()
    db = connection.open_writer(path)
    complete = projection_rebuild.fingerprint(db)
    db.execute("INSERT INTO trigram(trigram) VALUES('delete-all')")
    assert projection_rebuild.fingerprint(db) != complete
    later = db.execute("SELECT * FROM migration WHERE number > 19").fetchall()
    db.execute("DROP TABLE trigram; DROP INDEX fact_entity")
    db.execute("DELETE FROM migration WHERE number >= 19")
    migrate.migrate(db, clock.now, migrations.SQLITE[:19])
    db.executemany("INSERT INTO migration VALUES(?, ?, ?)", later)
    db.close()
    store = SqliteStore(path)
    assert found(store, "ship") == [ids[1], ids[0]]
    store.close()
    db = connection.open_writer(path)
    assert projection_rebuild.fingerprint(db) == complete
    db.close()


class CountedSteps:
    """Counts the steps of all readers, also those of the statements within FTS5."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        for reader in store._readers._free.queue:
            reader.connection.set_progress_handler(self._note, 1)

    def _note(self) -> bool:
        self.count += 1
        return False

    def of(self, read: Callable[[], object]) -> int:
        read()  # statements are prepared by the first use
        self.count = 0
        read()
        return self.count


def test_reads_take_as_many_steps_however_many_others_there_are(path: Path) -> None:
    store = SqliteStore(path)
    (first,) = stored(store, "needle 0", scope=LEAD)
    counted = CountedSteps(store)
    reads: tuple[Callable[[], object], ...] = (
        lambda: found(store, "needle"),
        lambda: found(store, "ne"),
        lambda: store.list_facts(Listing(VIEW, 5, kind="entity", lifecycle="live")),
        lambda: store.facts_about([first], VIEW, kind="observation", limit=5),
        lambda: store.facts_named("entity", ("needle 0",), VIEW),
    )
    stored(store, *(f"filler {n}" for n in range(20)))
    among_few = [counted.of(read) for read in reads]
    stored(store, *(f"needle {n}" for n in range(2000)), scope=OTHER)
    stored(store, *(f"filler {n}" for n in range(20, 2000)))
    among_many = [counted.of(read) for read in reads]
    # Each commit can add a segment, which costs some steps.
    assert max(b - a for a, b in zip(among_few, among_many, strict=True)) < 1000
    store.close()


@pytest.mark.parametrize("missing", range(18))
def test_a_search_reads_only_facts_that_have_the_rarest_trigram(path: Path, missing: int) -> None:
    text = string.ascii_lowercase[:20]
    # All trigrams of the text but one.
    filler = f"{text[: missing + 2]} {text[missing + 1 :]}"
    store = SqliteStore(path)
    stored(store, *(f"{filler} {n}" for n in range(20)), text)
    stored(store, *(f"{filler} {n}" for n in range(20, 40)))
    db = store._readers._free.queue[0].connection
    scopes = [number for (number,) in db.execute("SELECT scope_no FROM scope")]
    assert len(list(trigram_index.candidates(db, scopes, "entity", text))) == 1
    assert len(found(store, text)) == 1
    store.close()


def store_in_many_commits(store: Store, commits: int) -> list[str]:
    dice = random.Random(13)  # noqa: S311 - texts of a test
    ids: list[str] = []
    for number in range(commits):
        texts = ("".join(dice.choices(string.ascii_lowercase, k=400)) for _ in range(10))
        ids += stored(store, f"needle {number}", *texts)
    return ids


def segments_of(path: Path) -> int:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    (count,) = next(iter(db.execute("SELECT count(DISTINCT segid) FROM trigram_idx")))
    db.close()
    return int(count)


def test_a_merge_leaves_one_segment_and_the_same_answers_and_then_ends(path: Path) -> None:
    store = SqliteStore(path)
    store_in_many_commits(store, 60)
    before = segments_of(path), found(store, "needle 1"), found(store, "ab")
    steps = 0
    while store.merge_index():
        steps += 1
    assert before[0] > 1
    assert steps > 1
    assert (segments_of(path), found(store, "needle 1"), found(store, "ab")) == (1, *before[1:])
    assert not store.merge_index()
    stored(store, "one more needle")
    assert not store.merge_index(), "a small segment is worth no rewrite of the others"
    store.close()


def test_a_merge_continues_after_a_restart_and_returns_no_text_erased_meanwhile(
    path: Path,
) -> None:
    store = SqliteStore(path)
    ids = store_in_many_commits(store, 60)
    assert store.merge_index()
    store.erase(ids[0], ORDER)
    store.close()
    store = SqliteStore(path)
    while store.merge_index():
        pass
    assert segments_of(path) == 1
    assert ids[0] not in found(store, "needle")
    assert len(found(store, "needle")) == 59
    assert rows_of(path, "needle 0") == 0
    store.close()


def test_an_empty_index_has_nothing_to_merge(store: Store) -> None:
    assert store.merge_index() is False
