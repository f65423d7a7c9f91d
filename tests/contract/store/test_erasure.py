"""Erased words are nowhere: whatever was done before, and at a cost that does not grow."""

from __future__ import annotations

import io
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_client.models import Alias, AliasIn, ApproveIn, Fact
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.principals import administrator
from knowledge_service.errors import Conflict, PreviouslyRetracted
from knowledge_service.ports import ActionContext, IdempotencyKey, Listing
from knowledge_service.ports.operations import RemoveAlias, SetAlias, StoreFact
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.maintenance import exports, offline_rebuild
from knowledge_service.store.sqlite.repositories import scope_erasure, usage_erasure
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import fact_lifecycle
from tests.contract.store.conftest import Time
from tests.contract.store.test_recall import receipt
from tests.knowledge_builders import AGENT, ALL, LEAD, OPERATOR, PERSON, TEAM, new_fact

WHY = ActionContext(PERSON, "because")
VERBS = (
    "tell", "tell", "tell keyed", "name", "correct", "retract", "restore", "confirm", "promote",
    "approve", "approve with edits", "approve with edits", "reject", "undo",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        st.integers(0, 5),
        st.integers(0, 2),
        st.none() | st.integers(0, 20),
    ),
    min_size=1,
    max_size=9,
)
SETTINGS = settings(max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)


def facts(store: SqliteStore) -> list[Fact]:
    return sorted(store.list_facts(Listing(ALL, 1000)), key=lambda fact: fact.id)


class Telling:
    """Does verbs on facts; each text that it gives has a word of its own."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.words: list[str] = []

    def word(self, selector: int) -> str:
        """Return a new word, or one that was given before: two facts may say the same."""
        if selector < len(self.words) and selector % 2:
            return self.words[selector]
        self.words.append(f"zwq{len(self.words)}vex")
        return self.words[-1]

    def take(self, verb: str, which: int, second: int) -> None:
        try:
            self._take(verb, which, second)
        except (Conflict, PreviouslyRetracted):
            return

    def _take(self, verb: str, which: int, second_index: int) -> None:
        intervals = facts(self.store)
        if verb in {"tell", "tell keyed", "name"} or not intervals:
            self._tell(verb, which, second_index)
            return
        fact_id = intervals[which % len(intervals)].id
        if verb == "correct":
            self.store.correct(fact_id, "old", f"it is {self.word(second_index)}", actor=PERSON)
        elif verb == "approve with edits":
            fact: dict[str, Any] = {"content": f"rather {self.word(second_index)}"}
            fact |= {"title": f"on {self.word(9)}"} if second_index else {}
            fact |= {"tags": (self.word(9),)} if second_index == 2 else {}
            self.store.approve(fact_id, WHY, ApproveIn(reason="r", **fact))
        elif verb == "approve":
            self.store.approve(fact_id, WHY, ApproveIn(reason="r"))
        else:
            getattr(self.store, verb)(fact_id, WHY)

    def _tell(self, verb: str, which: int, other: int) -> None:
        value: dict[str, Any] = {}
        if verb == "tell keyed":
            value = {"subject": f"build {other}", "predicate": "needs"}
        if verb == "name":
            value = {"aliases": (AliasIn(namespace="name", value=self.word(which)),)}
        scope = (TEAM, LEAD, "realm:demo")[other]
        fact = new_fact(f"it is {self.word(which)}", scope=scope, **value)
        self.store.remember([fact], actor=AGENT if which % 3 else PERSON)

    def gone(self) -> set[str]:
        """Return the words that no fact has any more, as it is now or was before."""
        remaining_count = set()
        for fact in facts(self.store):
            history = self.store.history(fact.id, ALL)
            assert history is not None
            remaining_count.add(" ".join(version.model_dump_json() for version in history.versions))
            with self.store._readers.snapshot() as reading:
                result: Any = reading.execute("SELECT value FROM alias").fetchall()
                remaining_count |= {value for (value,) in result}
        return {term for term in self.words if not any(term in text for text in remaining_count)}


@SETTINGS
@given(steps=STEPS)
def test_words_of_erased_facts_are_nowhere_whatever_verb_came_before(
    tmp_path_factory: Any, steps: list[tuple[str, int, int, int | None]]
) -> None:
    time, path = Time(), tmp_path_factory.mktemp("erasing") / "knowledge.db"
    store = SqliteStore(path, time)
    telling = Telling(store)
    for verb, selector, second, erased in steps:
        telling.take(verb, selector, second)
        time.pass_(minutes=1)
        intervals = facts(store)
        if erased is not None and intervals:
            store.erase(intervals[erased % len(intervals)].id, WHY)
            data, exported = bytes_of(path), export_of(path)
            for term in telling.gone():
                assert term.encode() not in data
                assert term.encode() not in exported
    store.close()
    db = connection.open_writer(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.close()
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
    db = connection.open_writer(path)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


def bytes_of(path: Path) -> bytes:
    """Read the raw bytes of the file and its write-ahead log."""
    files = [path.with_name(path.name + suffix) for suffix in ("", "-wal")]
    return b"".join(file.read_bytes() for file in files if file.exists())


def export_of(path: Path) -> bytes:
    stream = io.BytesIO()
    exports.export(path, stream)
    return stream.getvalue()


def test_edited_words_of_an_approval_go_with_the_fact_that_has_them(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    (old,) = store.remember([new_fact("it rains")], actor=AGENT)
    edits = ApproveIn(reason="checked", content="xylophone plays", title="on xylophones")
    successor = store.approve(old.fact_id, WHY, edits).fact.id
    assert b"xylophone" in export_of(path)
    store.erase(successor, WHY)
    assert b"xylophone" not in export_of(path)
    assert b"xylophone" not in bytes_of(path)
    history = store.history(old.fact_id, ALL)
    assert history is not None
    (review,) = [entry for entry in history.entries if entry.type == "fact.reviewed"]
    assert (review.actor, review.reason) == (PERSON.name, "because")
    store.close()


def test_name_goes_with_the_fact_that_holds_it_and_a_rebuild_knows_that(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    fact = new_fact("it rains", aliases=(AliasIn(namespace="name", value="xylophone"),))
    (old,) = store.remember([fact], actor=PERSON)
    successor = store.correct(old.fact_id, "old", "it pours", actor=PERSON).replacement_id
    assert successor
    store.erase(successor, WHY)
    assert b"xylophone" not in export_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_name_that_was_taken_from_a_retracted_fact_goes_with_its_last_holder(
    tmp_path: Path,
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    name = (AliasIn(namespace="name", value="xylophone"),)
    for content in ("it rains", "it pours", "it drips"):
        (last,) = store.remember([new_fact(content, aliases=name)], actor=PERSON)
        store.retract(last.fact_id, WHY)
    store.erase(last.fact_id, WHY)
    assert b"xylophone" not in export_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_name_goes_with_its_last_holder_although_one_between_was_erased(
    tmp_path: Path, is_rebuilt: bool
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    fact = new_fact("it rains", aliases=(AliasIn(namespace="name", value="xylophone"),))
    (first,) = store.remember([fact], actor=PERSON)
    second = store.correct(first.fact_id, "old", "it pours", actor=PERSON).replacement_id or ""
    third = store.correct(second, "old", "it drips", actor=PERSON).replacement_id or ""
    store.erase(second, WHY)
    if is_rebuilt:
        store.close()
        assert offline_rebuild.rebuild(path).changed == ()
        store = SqliteStore(path)
    assert store.named(Name("name", "xylophone"), ALL) == ((TEAM, third),)
    store.erase(third, WHY)
    assert b"xylophone" not in export_of(path)
    assert store.fact(first.fact_id, ALL) is not None
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_name_that_nobody_holds_any_more_goes_with_the_fact_that_had_it_last(
    tmp_path: Path,
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    fact = new_fact("it rains", aliases=(AliasIn(namespace="name", value="xylophone"),))
    (made,) = store.perform([StoreFact(fact)], WHY)
    store.undo(made.fact_id, WHY)
    store.erase(made.fact_id, WHY)
    assert b"xylophone" not in export_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


@pytest.mark.parametrize("erases_the_first", [True, False])
def test_name_goes_from_the_answers_that_are_kept_for_a_repeat(
    tmp_path: Path, *, erases_the_first: bool
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    name = (AliasIn(namespace="name", value="xylophone"),)
    first_key, elsewhere = (
        IdempotencyKey("ada", "key", "body"),
        IdempotencyKey("eve", "key", "body"),
    )
    new_facts = [new_fact("it rains", aliases=name), new_fact("snow")]
    first = store.remember(new_facts, actor=PERSON, idempotency_key=first_key)
    other_new_facts = [new_fact("hail", scope="realm:other", aliases=name)]
    (stays,) = store.remember(other_new_facts, actor=PERSON, idempotency_key=elsewhere)
    holders = [first[0].fact_id]
    for text in ("it pours", "it drips"):
        holders.append(store.correct(holders[-1], "old", text, actor=PERSON).replacement_id or "")
    for fact_id in holders if erases_the_first else holders[2:]:
        store.erase(fact_id, WHY)
    result = store.remember(new_facts, actor=PERSON, idempotency_key=first_key)
    assert result == (first[0].model_copy(update={"aliases": ()}), first[1])
    assert store.remember(other_new_facts, actor=PERSON, idempotency_key=elsewhere) == (stays,)
    store.erase(stays.fact_id, WHY)
    assert b"xylophone" not in bytes_of(path)
    store.close()


NAMES = ("Zo\u00eb", "J\u00fcrgen", "\U0001f409 of the \u201clake\u201d")
IN_ASCII = "UPDATE idempotency SET response = ?"


@pytest.mark.parametrize("in_ascii", [False, True], ids=["as stored", "as earlier releases wrote"])
@pytest.mark.parametrize("in_one_fact", [True, False])
def test_names_with_any_letters_go_from_the_answers_that_are_kept(
    tmp_path: Path, *, in_one_fact: bool, in_ascii: bool
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    aliases = tuple(AliasIn(namespace="name", value=name) for name in NAMES)
    portions = [aliases] if in_one_fact else [(alias,) for alias in aliases]
    new_facts = [new_fact(f"fact {n}", aliases=portion) for n, portion in enumerate(portions)]
    key = IdempotencyKey("ada", "key", "body")
    remembered = store.remember(new_facts, actor=PERSON, idempotency_key=key)
    if in_ascii:
        database = apsw.Connection(str(path))
        rows: Any = database.execute("SELECT response FROM idempotency").fetchall()
        database.execute(IN_ASCII, (json.dumps(json.loads(rows[0][0])),))
        database.close()
    for result in remembered:
        store.erase(result.fact_id, WHY)
    again = store.remember(new_facts, actor=PERSON, idempotency_key=key)
    assert again == tuple(each.model_copy(update={"aliases": ()}) for each in remembered)
    written = bytes_of(path)
    for name in NAMES:
        assert name.encode() not in written
        assert json.dumps(name).strip('"').encode() not in written
    store.close()


def test_data_that_looks_like_a_name_in_a_kept_answer_stays(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    name = AliasIn(namespace="name", value="xylophone")
    data = {"aliases": [{"namespace": "name", "value": "xylophone"}]}
    facts = [new_fact("it rains", aliases=(name,)), new_fact("it snows", data=data)]
    named, alike = store.remember(facts, actor=PERSON)
    context = ActionContext(PERSON, "it does", IdempotencyKey("ada", "key", "body"))
    confirmed = store.confirm(alike.fact_id, context, None)
    store.erase(named.fact_id, WHY)
    assert store.confirm(alike.fact_id, context, None) == confirmed
    store.close()


def test_name_that_was_handed_over_outlives_the_fact_that_had_it_before(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    fact = new_fact("it rains", aliases=(AliasIn(namespace="name", value="xylophone"),))
    (old,) = store.remember([fact], actor=PERSON)
    store.correct(old.fact_id, "old", "it pours", actor=PERSON)
    store.erase(old.fact_id, WHY)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
    store = SqliteStore(path)
    with store._readers.snapshot() as reading:
        assert reading.execute("SELECT value FROM alias").fetchall() == [("xylophone",)]
    store.close()


def test_erasure_in_a_large_scope_writes_the_rows_of_one_run_and_one_block(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    remembered = store.remember(
        [new_fact(f"rain {n} word{n % 97}") for n in range(9_000)], actor=PERSON
    )
    initial_rows = rows_of(path)
    store.erase(remembered[5_000].fact_id, WHY)
    final_rows = rows_of(path)
    changed = {
        item
        for item in initial_rows.keys() | final_rows.keys()
        if initial_rows.get(item) != final_rows.get(item)
    }
    firsts = {key & ((1 << 28) - 1) for table, key in changed if table == "posting"}
    assert firsts == {4_096}, "only the run of documents 4,096 to 8,191 has the fact"
    assert len([key for table, key in changed if table == "posting"]) <= 1 + 5, "terms, and one"
    assert len([key for table, key in changed if table == "equal"]) == 1
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def rows_of(path: Path) -> dict[tuple[str, int], bytes]:
    reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    result = {
        (table, key): data
        for table in ("posting", "equal")
        for key, data in reading.execute(f"SELECT key, data FROM {table}")  # noqa: S608 - two names
    }
    reading.close()
    return result


def test_erasure_is_answered_when_reads_that_began_before_it_have_ended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    (remembered,) = store.remember([new_fact("xylophone")], actor=PERSON)
    is_reading, is_over, answered = threading.Event(), threading.Event(), threading.Event()

    def read() -> None:
        with store._readers.snapshot() as reading:
            reading.execute("SELECT count(*) FROM fact").fetchall()
            is_reading.set()
            is_over.wait(10)
            assert not answered.is_set()

    def erase() -> None:
        store.erase(remembered.fact_id, WHY)
        answered.set()

    threads = [threading.Thread(target=task) for task in (read, erase)]
    threads[0].start()
    assert is_reading.wait(10)
    threads[1].start()
    while store.fact(remembered.fact_id, ALL) is not None:  # until the erasure is committed
        pass
    is_over.set()
    for thread in threads:
        thread.join(10)
    assert answered.is_set()
    store.close()


def test_repeated_deletion_of_a_scope_waits_for_no_read_that_began_after_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db", reads_within=timedelta(hours=1))
    store.remember([new_fact("xylophone")], actor=PERSON)
    assert store.delete_scope(TEAM, actor=PERSON, erase=True)
    repeats: list[bool] = []

    def repeat() -> None:
        repeats.append(store.delete_scope(TEAM, actor=PERSON, erase=True))

    with store._readers.snapshot():
        thread = threading.Thread(target=repeat)
        thread.start()
        thread.join(10)
        assert repeats == [False]
    store.close()


def test_deleted_scope_leaves_nothing_and_is_erased_a_little_to_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    store.remember([new_fact(f"xylophone {n}") for n in range(10)], actor=PERSON)
    store.remember([new_fact("it rains", scope="realm:demo")], actor=PERSON)
    store.delete_scope(TEAM, actor=PERSON, erase=True)
    portions = [store._writer.submit(scope_erasure.erase_some) for _ in range(4)]
    assert portions == [4, 4, 2, 0], "other writes come between the commits"
    assert b"xylophone" not in export_of(path)
    assert b"xylophone" not in bytes_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
    store = SqliteStore(path)
    assert [fact.content for fact in facts(store)] == ["it rains"]
    assert store.deleted_facts() == 0
    store.close()


def test_uses_of_a_famous_fact_go_in_commits_of_their_own_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_erasure, "_PORTION", 10)
    store = SqliteStore(tmp_path / "knowledge.db")
    remembered = store.remember([new_fact("it rains"), new_fact("the sun shines")], actor=PERSON)
    famous, second = (item.fact_id for item in remembered)
    for number in range(35):
        store.record_recall(*receipt(f"r{number}", famous, second), None)
    deleted, forget = [], usage_erasure.forget_some

    def noted(tx: Transaction, fact_id: str) -> int:
        deleted.append(forget(tx, fact_id))
        return deleted[-1]

    monkeypatch.setattr(usage_erasure, "forget_some", noted)
    store.erase(famous, WHY)
    # Of 35 rows that lead to receipts, and one use.
    assert deleted == [11, 10, 10, 5, 0]
    with store._readers.snapshot() as reading:
        assert reading.execute("SELECT count(*) FROM served").fetchall() == [(35,)]
        assert reading.execute("SELECT total(count) FROM usage").fetchall() == [(35.0,)]
    store.close()


def test_repeated_erasure_by_an_alias_keeps_the_uses_of_a_later_fact_of_that_alias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_erasure, "_PORTION", 2)
    store = SqliteStore(tmp_path / "knowledge.db")
    alias, operator = AliasIn(namespace="shop", value="one"), administrator("operator", "system")
    first, second = (
        item.fact_id
        for item in store.remember([new_fact("it rains"), new_fact("it pours")], actor=PERSON)
    )
    store.perform([SetAlias(first, alias)], WHY)
    key = IdempotencyKey(operator.identity, "key", "body")
    result = fact_lifecycle.erase(store, operator, "alias:shop:one", "because", key)
    store.perform([SetAlias(second, alias)], WHY)
    for number in range(3):
        store.record_recall(*receipt(f"r{number}", second), None)
    assert fact_lifecycle.erase(store, operator, "alias:shop:one", "because", key) == result
    with store._readers.snapshot() as reading:
        assert reading.execute("SELECT count(*) FROM served").fetchall() == [(3,)]
        assert reading.execute("SELECT total(count) FROM usage").fetchall() == [(3.0,)]
    store.close()


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("scope", [TEAM, "realm:demo"])
def test_alias_that_was_moved_and_freed_goes_with_its_last_holder(
    tmp_path: Path, scope: str, is_rebuilt: bool
) -> None:
    """In a namespace that is unique in a realm, it may have moved between scopes."""
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    facts = [new_fact("it rains"), new_fact("it pours", scope=scope)]
    first, second = (each.fact_id for each in store.remember(facts, actor=PERSON))
    alias = AliasIn(namespace="ko-issue", value="xylophone")
    store.perform([SetAlias(first, alias)], WHY)
    store.perform([SetAlias(second, alias, move=True)], WHY)
    store.perform([RemoveAlias(second, Alias(namespace="ko-issue", value="xylophone"))], WHY)
    if is_rebuilt:
        store.close()
        assert offline_rebuild.rebuild(path).changed == ()
        store = SqliteStore(path)
    store.erase(second, WHY)
    store.erase(first, WHY)
    assert b"xylophone" not in export_of(path)
    assert b"xylophone" not in bytes_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


@pytest.mark.parametrize("moves_before_adoption", [True, False])
@pytest.mark.parametrize("erases_the_first", [True, False])
def test_name_of_facts_that_an_adoption_moved_goes_with_its_last_holder_alone(
    tmp_path: Path, *, moves_before_adoption: bool, erases_the_first: bool
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    store.remember([new_fact("it snows")], actor=PERSON)
    store.delete_scope(TEAM, actor=OPERATOR)
    facts = [new_fact("it rains"), new_fact("it pours")]
    first, second = (each.fact_id for each in store.remember(facts, actor=PERSON))
    alias = AliasIn(namespace="name", value="xylophone")
    store.perform([SetAlias(first, alias)], WHY)
    if not moves_before_adoption:
        store.adopt_scope(TEAM, actor=OPERATOR)
    store.perform([SetAlias(second, alias, move=True)], WHY)
    if moves_before_adoption:
        store.adopt_scope(TEAM, actor=OPERATOR)
    if erases_the_first:
        store.erase(first, WHY)
        store.close()
        assert offline_rebuild.rebuild(path).changed == ()
        store = SqliteStore(path)
        assert store.named(Name("name", "xylophone"), ALL) == ((TEAM, second),)
    store.erase(second, WHY)
    assert b"xylophone" not in export_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


@pytest.mark.parametrize("erases_the_first", [True, False])
def test_name_that_facts_of_both_scopes_had_before_an_adoption_goes_with_its_holder(
    tmp_path: Path, *, erases_the_first: bool
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    alias = AliasIn(namespace="name", value="xylophone")

    def named_fact(content: str) -> str:
        (told,) = store.remember([new_fact(content)], actor=PERSON)
        store.perform([SetAlias(told.fact_id, alias)], WHY)
        return told.fact_id

    first = named_fact("it snows")
    store.delete_scope(TEAM, actor=OPERATOR)
    second = named_fact("it rains")
    store.adopt_scope(TEAM, actor=OPERATOR)
    assert store.named(Name("name", "xylophone"), ALL) == ((TEAM, second),)
    if erases_the_first:
        store.erase(first, WHY)
        assert store.named(Name("name", "xylophone"), ALL) == ((TEAM, second),)
    store.erase(second, WHY)
    assert b"xylophone" not in export_of(path)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
