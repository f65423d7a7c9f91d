from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.errors import Conflict, IdempotencyConflict, NotFound, PreviouslyRetracted
from knowledge_service.ports import ActionContext, IdempotencyKey, Listing, Store
from tests.contract.store.conftest import Time
from tests.knowledge_builders import AGENT, ALL, LEAD, OTHER, PERSON, TEAM, new_fact

VIEW = View(LEAD)


def test_fact_is_kept_as_it_was_told(store: Store, time: Time) -> None:
    told = new_fact(
        "The build needs Java 21",
        kind="tool-quirk",
        title="Java",
        data={"versions": [21]},
        schema="ko/1",
        tags=("Build", "java"),
        confidence=0.8,
        valid_until=datetime(2027, 1, 1, tzinfo=UTC),
    )
    (remembered,) = store.remember([told], actor=PERSON)
    stored_fact = store.fact(remembered.fact_id, VIEW)
    assert stored_fact is not None
    assert (stored_fact.content, stored_fact.kind, stored_fact.title) == (
        "The build needs Java 21",
        "tool-quirk",
        "Java",
    )
    assert (stored_fact.data, stored_fact.schema_, stored_fact.tags) == (
        {"versions": [21]},
        "ko/1",
        ("Build", "java"),
    )
    assert (stored_fact.confidence, stored_fact.scope, stored_fact.lifecycle) == (0.8, TEAM, "live")
    assert (stored_fact.recorded_at, stored_fact.valid_until) == (
        time.now,
        datetime(2027, 1, 1, tzinfo=UTC),
    )


def test_equal_fact_confirms_the_first_and_merges_tags(store: Store) -> None:
    (first,) = store.remember([new_fact("the build  needs Java 21", tags=("Build",))], actor=PERSON)
    (second,) = store.remember(
        [new_fact("the build needs\nJava 21", tags=("build", "java"), confidence=0.9)], actor=AGENT
    )
    assert (second.status, second.fact_id) == ("confirmed", first.fact_id)
    stored_fact = store.fact(first.fact_id, VIEW)
    assert stored_fact is not None
    assert (stored_fact.tags, stored_fact.confidence) == (("Build", "java"), 0.9)


def test_the_same_words_in_another_scope_are_another_fact(store: Store) -> None:
    first, second = store.remember([new_fact(), new_fact(scope=LEAD)], actor=PERSON)
    assert first.fact_id != second.fact_id
    assert second.status == "created"


def test_batch_with_one_refused_fact_stores_none(store: Store) -> None:
    (retracted_fact,) = store.remember([new_fact("wrong")], actor=PERSON)
    store.correct(retracted_fact.fact_id, "it is not so", None, actor=PERSON)
    with pytest.raises(PreviouslyRetracted, match="it is not so"):
        store.remember([new_fact("right"), new_fact("wrong")], actor=PERSON)
    assert [fact.content for fact in store.list_facts(Listing(VIEW, 10))] == ["wrong"]


def test_corrected_fact_is_closed_with_its_reason_and_cannot_be_corrected_twice(
    store: Store, time: Time
) -> None:
    (remembered,) = store.remember([new_fact()], actor=PERSON)
    closed_at = time.pass_(hours=1)
    assert (
        store.correct(remembered.fact_id, "Java 17 does", None, actor=PERSON).replacement_id is None
    )
    stored_fact = store.fact(remembered.fact_id, VIEW)
    assert stored_fact is not None
    assert (stored_fact.lifecycle, stored_fact.closed_at, stored_fact.valid_until) == (
        "retracted",
        closed_at,
        closed_at,
    )
    with pytest.raises(Conflict, match="is retracted already: Java 17 does"):
        store.correct(remembered.fact_id, "again", None, actor=PERSON)


def test_replacement_takes_the_place_of_the_corrected_fact(store: Store) -> None:
    (remembered,) = store.remember([new_fact(kind="pitfall", tags=("build",))], actor=PERSON)
    corrected = store.correct(remembered.fact_id, "old", "the build needs Java 25", actor=AGENT)
    assert corrected.replacement_id is not None
    old, new = store.fact(remembered.fact_id, VIEW), store.fact(corrected.replacement_id, VIEW)
    assert old is not None
    assert new is not None
    assert (old.lifecycle, new.lifecycle) == ("superseded", "live")
    assert (new.content, new.kind, new.tags) == ("the build needs Java 25", "pitfall", ("build",))
    assert new.source.actor == AGENT.name


def test_replacement_with_the_same_words_is_refused(store: Store) -> None:
    (remembered,) = store.remember([new_fact()], actor=PERSON)
    with pytest.raises(Conflict, match="says the same"):
        store.correct(remembered.fact_id, "typo", "the build needs  Java 21", actor=PERSON)
    stored_fact = store.fact(remembered.fact_id, VIEW)
    assert stored_fact is not None
    assert stored_fact.lifecycle == "live"


def test_unknown_fact_cannot_be_corrected(store: Store) -> None:
    with pytest.raises(NotFound, match="fact nobody does not exist or is not visible to you"):
        store.correct("nobody", "why", None, actor=PERSON)


def test_equal_to_a_superseded_fact_is_new(store: Store) -> None:
    (remembered,) = store.remember([new_fact()], actor=PERSON)
    store.correct(remembered.fact_id, "old", "the build needs Java 25", actor=PERSON)
    (repeated,) = store.remember([new_fact()], actor=PERSON)
    assert repeated.status == "created"
    assert repeated.fact_id != remembered.fact_id


class TestSupersession:
    def test_later_statement_about_the_same_thing_closes_the_earlier(
        self, store: Store, time: Time
    ) -> None:
        keyed = {"subject": "build", "predicate": "needs"}
        (old,) = store.remember([new_fact("Java 21", **keyed)], actor=PERSON)
        later_time = time.pass_(days=1)
        (new,) = store.remember(
            [new_fact("Java 25", subject="BUILD ", predicate="Needs")], actor=AGENT
        )
        assert new.superseded == (old.fact_id,)
        stored_fact = store.fact(old.fact_id, VIEW)
        assert stored_fact is not None
        assert (stored_fact.lifecycle, stored_fact.valid_until) == ("superseded", later_time)

    def test_statement_that_arrives_late_is_recorded_already_closed(
        self, store: Store, time: Time
    ) -> None:
        keyed = {"subject": "build", "predicate": "needs"}
        (new,) = store.remember([new_fact("Java 25", **keyed)], actor=PERSON)
        past = time.now - timedelta(days=9)
        (old,) = store.remember([new_fact("Java 21", valid_from=past, **keyed)], actor=PERSON)
        assert old.superseded == ()
        read_fact, standing = store.fact(old.fact_id, VIEW), store.fact(new.fact_id, VIEW)
        assert read_fact is not None
        assert standing is not None
        assert (read_fact.lifecycle, read_fact.valid_until) == ("superseded", standing.recorded_at)
        assert standing.lifecycle == "live"

    def test_equal_beginnings_stay_both_and_the_answer_says_so(
        self, store: Store, time: Time
    ) -> None:
        keyed = {"subject": "build", "predicate": "needs", "valid_from": time.now}
        (first_fact,) = store.remember([new_fact("Java 21", **keyed)], actor=PERSON)
        (two,) = store.remember([new_fact("Java 25", **keyed)], actor=PERSON)
        assert (two.contradicts, two.superseded) == ((first_fact.fact_id,), ())

    def test_without_a_predicate_nothing_is_superseded(self, store: Store, time: Time) -> None:
        store.remember([new_fact("Java 21", subject="build")], actor=PERSON)
        time.pass_(days=1)
        (new,) = store.remember([new_fact("Java 25", subject="build")], actor=PERSON)
        assert new.superseded == ()


class TestListing:
    def test_lists_newest_first_in_pages(self, store: Store) -> None:
        remembered = store.remember([new_fact(f"fact {n}") for n in range(5)], actor=PERSON)
        ids = [remembered_fact.fact_id for remembered_fact in remembered][::-1]
        first = store.list_facts(Listing(VIEW, 3))
        assert [fact.id for fact in first] == ids[:3]
        rest = store.list_facts(Listing(VIEW, 3, before_id=first[-1].id))
        assert [fact.id for fact in rest] == ids[3:]

    def test_filters_narrow(self, store: Store) -> None:
        stored = store.remember(
            [
                new_fact("a", kind="pitfall", tags=("Build",)),
                new_fact("b", kind="pattern"),
                new_fact("c", scope=LEAD),
                new_fact("d", scope=OTHER),
            ],
            actor=PERSON,
        )
        store.correct(stored[1].fact_id, "no", None, actor=PERSON)

        def names(**filters: object) -> list[str]:
            listed = store.list_facts(Listing(VIEW, 10, **filters))  # type: ignore[arg-type]
            return sorted(fact.content for fact in listed)

        assert names() == ["a", "b", "c"]
        assert names(kind="pitfall") == ["a"]
        assert names(tag="BUILD") == ["a"]
        assert names(lifecycle="retracted") == ["b"]
        assert names(scopes=(LEAD,)) == ["c"]
        assert names(scopes=(OTHER,)) == []
        assert names(source="import") == []

    def test_what_is_invisible_is_not_found_by_id(self, store: Store) -> None:
        (told,) = store.remember([new_fact(scope=OTHER)], actor=PERSON)
        assert store.fact(told.fact_id, VIEW) is None
        assert store.fact(told.fact_id, ALL) is not None


class TestRepeats:
    def test_readable_facts_are_those_that_are_visible_in_any_state(self, store: Store) -> None:
        stored = store.remember(
            [new_fact("live"), new_fact("closed"), new_fact("hidden", OTHER), new_fact("rejected")],
            actor=PERSON,
        )
        ids = [each.fact_id for each in stored]
        live, closed, _, rejected = ids
        context = ActionContext(PERSON, "because")
        store.retract(closed, context)
        store.reject(rejected, context)
        assert store.readable_facts([*ids, "unknown"], VIEW) == {live, closed, rejected}
        agent = View(LEAD, drafts=False)
        assert store.readable_facts(ids, agent) == {live, closed}
        assert store.readable_facts(ids, ALL) == set(ids)
        for view in (VIEW, agent, ALL):
            assert store.readable_facts(ids, view) == {i for i in ids if store.fact(i, view)}

    def test_same_key_and_body_get_the_first_answer(self, store: Store) -> None:
        first_key = IdempotencyKey("ada", "key-1", "body-a")
        first = store.remember([new_fact("a")], actor=PERSON, idempotency_key=first_key)
        assert store.remember([new_fact("a")], actor=PERSON, idempotency_key=first_key) == first
        assert first[0].status == "created"

    def test_same_key_with_another_body_is_refused(self, store: Store) -> None:
        store.remember(
            [new_fact("a")], actor=PERSON, idempotency_key=IdempotencyKey("ada", "key-1", "body-a")
        )
        with pytest.raises(IdempotencyConflict, match="used with another body within 24 h"):
            store.remember(
                [new_fact("b")],
                actor=PERSON,
                idempotency_key=IdempotencyKey("ada", "key-1", "body-b"),
            )

    def test_keys_are_each_principals_own(self, store: Store) -> None:
        store.remember(
            [new_fact("a")], actor=PERSON, idempotency_key=IdempotencyKey("ada", "key-1", "body-a")
        )
        (other_fact,) = store.remember(
            [new_fact("b")], actor=PERSON, idempotency_key=IdempotencyKey("bob", "key-1", "body-b")
        )
        assert other_fact.status == "created"

    def test_refused_write_leaves_its_key_free(self, store: Store) -> None:
        once = IdempotencyKey("ada", "key-1", "body")
        with pytest.raises(NotFound):
            store.correct("nobody", "why", None, actor=PERSON, idempotency_key=once)
        (remembered,) = store.remember([new_fact()], actor=PERSON)
        assert store.correct(
            remembered.fact_id, "why", None, actor=PERSON, idempotency_key=once
        ).fact_id
