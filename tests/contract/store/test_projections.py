"""The log as the source of truth: a rebuild makes the same tables, and `verify` sees any change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import AliasIn, Grant, PrincipalIn, ScopeConfig, Subject
from knowledge_service.domain import conversation_metadata
from knowledge_service.domain.access_control import View
from knowledge_service.errors import FileLocked
from knowledge_service.event_log import event_payloads
from knowledge_service.ports import ActionContext, Listing, NewLink, Search
from knowledge_service.ports.operations import LinkFacts, RetractFact, StoreFact
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection, posting_table
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import (
    AGENT,
    ALL,
    LEAD,
    OPERATOR,
    PERSON,
    TEAM,
    episode,
    new_fact,
    run_in,
    run_key,
)

M001 = Path(__file__).with_name("m001.sql")
VIEW = View(LEAD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def live_a_little(path: Path) -> None:
    """Make a file in which something of everything happened."""
    store = SqliteStore(path)
    for name in ("lead-0", "gone-0"):
        store.put_principal(
            PrincipalIn(
                subject=Subject(username=name, uid=name),
                name=name,
                type="agent",
                home=f"{TEAM}/cell:{name}",
                grants=(Grant(scope=TEAM, verbs=("read",)),),
                realm_uid="uid-1",
            ),
            actor=OPERATOR,
        )
    store.delete_principal("gone-0", actor=OPERATOR)
    store.put_scope(TEAM, ScopeConfig(read_only=False), actor=OPERATOR)
    keyed = {"subject": "web", "predicate": "port"}
    early = datetime(2026, 1, 1, tzinfo=UTC)
    remembered = store.remember(
        [
            new_fact("the build needs Java 21", tags=("Build",), data={"é": [1, 0.1]}),
            new_fact("the build needs  Java 21", tags=("java",), confidence=0.9),
            new_fact("port 80", **keyed),
            new_fact("port 79", valid_from=early, **keyed),
            new_fact("port 78", valid_from=early, **keyed),
            *(new_fact(f"number {n}", scope=LEAD) for n in range(40)),
            *(new_fact(f"a {kind}", LEAD, kind=kind) for kind in ("entity", "observation")),
        ],
        actor=PERSON,
    )
    store.correct(remembered[0].fact_id, "old", "the build needs Java 25", actor=AGENT)
    store.remember([new_fact("the build needs Java 21")], actor=PERSON)
    store.put_run("r", run_in(), actor=OPERATOR)
    store.add_episodes(run_key("r"), [episode("a"), episode("a"), episode("b")], actor=AGENT)
    store.put_run("r", run_in(outcome="Succeeded", cost=0.1), actor=OPERATOR)
    store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
    store.begin_extraction(run_key("r"))
    store.fail_extraction(run_key("r"), "busy", retry=True)
    store.begin_extraction(run_key("r"))
    store.finish_extraction(run_key("r"), [new_fact("learnt")], "one", actor=OPERATOR)
    chart = new_fact("a chart", LEAD, aliases=(AliasIn(namespace="chart", prefix="c"),))
    acts = (StoreFact(chart), StoreFact(new_fact("done", LEAD, about="act:0")),
            LinkFacts(NewLink("act:0", "act:1", "contains", data={"a": 1})))  # fmt: skip
    context = ActionContext(PERSON, "together")
    first = store.perform(acts, context)
    revised = store.revise(first[0].fact_id, {"data": {"x": 1}, "tags": ("now",)}, context)
    store.revise(revised.successor_id, {"title": "the chart"}, context)
    second = store.perform((RetractFact(first[1].fact_id), StoreFact(new_fact("b", LEAD))), context)
    store.undo(second[1].fact_id, context)
    store.undo(store.perform(acts, context)[0].fact_id, context)
    store.put_scope("realm:old", ScopeConfig(), actor=OPERATOR)
    store.delete_scope("realm:old", actor=OPERATOR)
    store.close()


def database(path: Path) -> apsw.Connection:
    return connection.open_writer(path)


def test_rebuild_makes_the_same_tables_to_the_byte(path: Path) -> None:
    live_a_little(path)
    db = database(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.close()
    rebuilt = offline_rebuild.rebuild(path)
    assert rebuilt.changed == ()
    assert rebuilt.events > 15
    db = database(path)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    assert len(set(initial_fingerprint.values())) > 10
    db.close()


def test_rebuild_brings_back_what_was_changed_beside_the_log(path: Path) -> None:
    live_a_little(path)
    db = database(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.execute("UPDATE fact SET confidence = 0.123 WHERE fact_no = 3; DELETE FROM episode")
    db.execute("DELETE FROM posting WHERE key = (SELECT min(key) FROM posting)")
    db.execute("UPDATE scope SET live_facts = 999")
    db.close()
    assert offline_rebuild.rebuild(path).changed == ("episode", "fact", "posting", "scope")
    db = database(path)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


def test_index_of_another_version_is_made_anew_when_the_file_is_opened(path: Path) -> None:
    live_a_little(path)
    db = database(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.execute("UPDATE meta SET value = 'older' WHERE key = 'index'; DELETE FROM posting")
    db.close()
    SqliteStore(path).close()
    db = database(path)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


def test_file_that_an_older_analyser_indexed_finds_every_fact_and_who_told_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The analyser before read nothing of data.
    report = {f"word{a}{b}": f"Name{b}{a}" for a in "pqrstuvx" for b in "klmnopq"}
    with monkeypatch.context() as older:
        older.setattr(conversation_metadata, "parse", lambda _: conversation_metadata.NO_METADATA)
        older.setattr(posting_table, "VERSION", "segments-2 en-2")
        store = SqliteStore(path)
        new = [
            new_fact(f"{term} here", data={"speaker": principal})
            for term, principal in report.items()
        ]
        store.remember(new, actor=AGENT)
        assert store.search(Search(VIEW, "Namekp", 10)).hits == ()
        store.close()
    store = SqliteStore(path)
    for term, principal in report.items():
        for query in (term, principal):
            hit, *_ = store.search(Search(VIEW, query, 10)).hits
            assert hit.fact.content == f"{term} here", query
    store.close()
    db = database(path)
    made_by = db.execute("SELECT value FROM meta WHERE key = 'index'").fetchall()
    assert made_by == [(posting_table.VERSION,)]
    db.close()


def test_rebuild_that_fails_leaves_everything_as_it_was(path: Path) -> None:
    live_a_little(path)
    db = database(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.execute("UPDATE event SET type = 'fact.unheard' WHERE seq = (SELECT max(seq) FROM event)")
    with pytest.raises(KeyError, match=r"fact\.unheard"):
        projection_rebuild.rebuild(db)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


def test_running_service_keeps_its_file_from_rebuild_and_verify(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(FileLocked):
        offline_rebuild.rebuild(path)
    with pytest.raises(FileLocked):
        offline_rebuild.verify(path)
    store.close()


class TestVerify:
    def test_log_that_nobody_touched_is_sound(self, path: Path) -> None:
        live_a_little(path)
        report = offline_rebuild.verify(path)
        assert report.problems == ()
        assert report.events > 15

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("UPDATE event SET actor = 'eve' WHERE seq = 5", "event 6 does not follow"),
            ("DELETE FROM event WHERE seq = 5", "event 6 does not follow the one before it"),
            ("DELETE FROM payload WHERE seq = 5", "event 5 has lost its payload"),
            (
                "UPDATE payload SET bytes = CAST(replace(bytes, 'Java', 'Ruby') AS BLOB)",
                "has another payload than was recorded",
            ),
            ("UPDATE payload SET salt = x'00' WHERE seq = 5", "event 5 has another payload"),
            ("INSERT INTO payload VALUES(999, x'', x'')", "payload 999 belongs to no event"),
        ],
    )
    def test_change_is_seen(self, path: Path, change: str, said: str) -> None:
        live_a_little(path)
        db = database(path)
        db.execute(change)
        db.close()
        assert any(said in problem for problem in offline_rebuild.verify(path).problems)


class TestOldestFile:
    """A file as the first released schema left it."""

    @pytest.fixture
    def old(self, path: Path) -> Path:
        db = apsw.Connection(str(path))
        db.execute(M001.read_text())
        db.close()
        return path

    def test_everything_known_is_still_known(self, old: Path) -> None:
        db = apsw.Connection(str(old))
        rows: list[Any] = db.execute(
            "SELECT id, content, tags, confidence, lifecycle, recorded_at FROM fact ORDER BY id"
        ).fetchall()
        db.close()
        store = SqliteStore(old)
        facts = {fact.id: fact for fact in store.list_facts(Listing(ALL, 100))}
        assert len(facts) == len(rows) == 14
        for fact_id, content, _, confidence, lifecycle, _ in rows:
            fact = facts[fact_id]
            assert (fact.content, fact.confidence, fact.lifecycle) == (
                content,
                confidence,
                lifecycle,
            )
        java = next(fact for fact in facts.values() if fact.content == "the build needs Java 21")
        assert (java.tags, java.confidence) == (("Build", "java"), 0.9)
        assert store.search(Search(VIEW, "number 3", 1)).hits[0].fact.content == "number 3 of many"
        assert store.scope_stats([TEAM], ALL)[0].facts == 3
        assert [e.content for e in store.episodes(run_key("run-1"))] == ["looked", "OOMKilled"]
        extraction = store.extraction(run_key("run-1"))
        assert extraction is not None
        assert (extraction.state, extraction.attempts) == ("done", 2)
        assert store.principals()[0].name == "demo/lead-0"
        receipt = store.receipt("receipt-1")
        assert receipt is not None
        store.close()

    def test_its_log_is_enough_to_rebuild_and_still_verifies(self, old: Path) -> None:
        SqliteStore(old).close()
        assert offline_rebuild.rebuild(old).changed == ()
        assert offline_rebuild.verify(old).problems == ()

    def test_its_links_are_in_histories_by_the_scope_of_their_other_end(self, old: Path) -> None:
        SqliteStore(old).close()
        initial_open_writer = connection.open_writer(old)
        query = """SELECT x.other_scope FROM fact_event x JOIN event e USING(seq)
          WHERE e.type = 'link.made'"""
        numbers = [number for (number,) in initial_open_writer.execute(query)]
        initial_open_writer.close()
        assert numbers
        assert set(numbers) == {3}
        assert offline_rebuild.rebuild(old).changed == ()
        final_connection = connection.open_writer(old)
        assert [number for (number,) in final_connection.execute(query)] == numbers
        final_connection.close()

    def test_it_goes_on_from_where_it_was(self, old: Path) -> None:
        store = SqliteStore(old)
        (remembered,) = store.remember(
            [new_fact("port 82", subject="web", predicate="port")], actor=AGENT
        )
        assert len(remembered.superseded) == 1
        store.close()
        assert offline_rebuild.rebuild(old).changed == ()

    def test_migration_that_fails_leaves_it_as_it_was(
        self, old: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> int:
            raise apsw.FullError("database or disk is full")

        monkeypatch.setattr(projection_rebuild, "replay", fail)
        with pytest.raises(Exception, match="disk is full"):
            SqliteStore(old)
        monkeypatch.undo()
        db = apsw.Connection(str(old))
        assert db.execute("SELECT max(number) FROM migration").fetchall() == [(1,)]
        db.close()
        SqliteStore(old).close()


class TestPayloads:
    PARTS = ({"fact": "a", "text": "one\ntwo"}, {"fact": "b"}, {"fact": "c", "n": 0.1})

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_parts_come_back_as_they_were(self, count: int) -> None:
        assert (
            event_payloads.decode(event_payloads.encode(self.PARTS[:count])) == self.PARTS[:count]
        )

    def test_erased_part_leaves_the_hash_and_the_others(self) -> None:
        sealed = event_payloads.encode(self.PARTS)
        remaining_stored_payload = event_payloads.without_parts(sealed, {1})
        assert remaining_stored_payload is not None
        assert remaining_stored_payload.hash == sealed.hash
        assert event_payloads.decode(remaining_stored_payload) == (
            self.PARTS[0],
            None,
            self.PARTS[2],
        )
        assert b'"b"' not in remaining_stored_payload.data
        assert sealed.salt[16:32] not in remaining_stored_payload.salt
        stored_payload = event_payloads.without_parts(remaining_stored_payload, {0})
        assert stored_payload is not None
        assert stored_payload.hash == sealed.hash

    def test_payload_of_which_nothing_is_left_goes(self) -> None:
        assert event_payloads.without_parts(event_payloads.encode(self.PARTS[:1]), {0}) is None
        assert event_payloads.without_parts(event_payloads.encode(self.PARTS), {0, 1, 2}) is None
