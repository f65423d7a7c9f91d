"""Facts that are retired by their scope's bounds or erased on request, on every store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from knowledge_client.models import (
    ApproveIn,
    Fact,
    PrincipalIn,
    Recalled,
    RecalledFact,
    Receipt,
    Retention,
    ScopeConfig,
    Subject,
)
from knowledge_service.domain.access_control import View
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.errors import NotFound
from knowledge_service.ports import (
    ActionContext,
    IdempotencyKey,
    Listing,
    NewReceipt,
    Search,
    Store,
)
from tests.contract.store.conftest import Time
from tests.fact_actions import WHY, known, live, shown, told
from tests.knowledge_builders import ALL, LEAD, PERSON, TEAM

VIEW = View(LEAD)
REALM = "realm:demo"


def recall_of(fact: Fact, receipt_id: str, at: datetime) -> tuple[NewReceipt, Recalled]:
    """Make what a recall that read one fact records, and its answer."""
    recalled = RecalledFact(**fact.model_dump(by_alias=True), rank=1, score=1.0)
    answer = Recalled(receipt=receipt_id, facts=(recalled,), scopes=(), known_at=at, ranker="r")
    receipt = Receipt(
        id=receipt_id, query_hash="", principal="ada", scopes=(TEAM,), known_at=at, ranker="",
        analyser="", facts=(fact.id,), scores=(1.0,),
    )  # fmt: skip
    return NewReceipt(receipt, LEAD), answer


class TestRetaining:
    def bounded(self, store: Store, **fields: Any) -> None:
        store.put_scope(TEAM, ScopeConfig(retention=Retention(**fields)), actor=PERSON)

    def test_scope_nobody_declared_archives_nothing(self, store: Store) -> None:
        for n in range(5):
            told(store, f"fact {n}")
        assert store.retain() == 0

    def test_least_useful_go_first_and_can_be_restored(self, store: Store) -> None:
        self.bounded(store, max_facts=2)
        weak = told(store, "weak", confidence=0.1)
        told(store, "strong", confidence=0.9)
        told(store, "middling", confidence=0.5)
        assert store.retain() == 1
        assert live(store) == ["middling", "strong"]
        fact = known(store, weak)
        assert (fact.lifecycle, fact.closed_reason) == (
            "archived",
            "the scope keeps 2 facts; this one was the least useful",
        )
        assert store.restore(weak, WHY).lifecycle == "live"

    def test_expired_facts_go_before_any_other(self, store: Store, time: Time) -> None:
        self.bounded(store, max_facts=1)
        told(store, "expired", confidence=1.0, expires_at=time.now + timedelta(days=1))
        told(store, "weak", confidence=0.1)
        time.pass_(days=2)
        store.retain()
        assert live(store) == ["weak"]

    def test_facts_older_than_the_ttl_count_as_expired(self, store: Store, time: Time) -> None:
        self.bounded(store, max_facts=1, ttl_days=7)
        told(store, "old", confidence=1.0)
        time.pass_(days=8)
        told(store, "weak", confidence=0.1)
        store.retain()
        assert live(store) == ["weak"]

    def test_confirmation_makes_a_fact_young_again(self, store: Store, time: Time) -> None:
        self.bounded(store, max_facts=1, half_life_days=1)
        told(store, "confirmed", confidence=0.5)
        told(store, "unconfirmed", confidence=0.6)
        time.pass_(days=9)
        told(store, "confirmed", confidence=0.5)
        store.retain()
        assert live(store) == ["confirmed"]

    def test_approved_promoted_and_those_of_open_runs_stay(self, store: Store) -> None:
        approved = told(store, "approved", confidence=0.01)
        store.approve(approved, WHY, ApproveIn(reason="r"))
        store.promote(told(store, "promoted", scope=LEAD, confidence=0.01), WHY)
        open_ = told(store, "of an open run", confidence=0.01)
        shown(store, open_, run="open", outcome=None)
        told(store, "plain", confidence=0.9)
        self.bounded(store, max_facts=1)
        assert store.retain() == 1
        assert live(store) == ["approved", "of an open run", "promoted"]

    def test_archived_fact_is_still_known_then(self, store: Store, time: Time) -> None:
        self.bounded(store, max_facts=1)
        told(store, "rain", confidence=0.1)
        told(store, "sun", confidence=0.9)
        later_time = time.now
        time.pass_(hours=1)
        store.retain()
        search = Search(VIEW, "rain", 5, filters=Filters(known_at=later_time))
        assert [hit.fact.content for hit in store.search(search).hits] == ["rain"]


class TestErasing:
    def test_erased_fact_is_gone_from_every_read(self, store: Store, time: Time) -> None:
        fact_id, second = told(store, "rain falls"), told(store, "sun shines")
        later_time = time.now
        time.pass_(hours=1)
        erased = store.erase(fact_id, ActionContext(PERSON, "asked to"))
        assert erased.facts == (fact_id,)
        assert erased.erased_at == time.now
        assert "made before 2026-03-01T13:00:00+00:00 still hold the text" in erased.backups
        assert store.fact(fact_id, ALL) is None
        assert store.fact(fact_id, ALL, later_time) is None
        assert store.history(fact_id, ALL) is None
        assert [fact.id for fact in store.list_facts(Listing(ALL, 9, known_at=later_time))] == [
            second
        ]
        for filters in (Filters(), Filters(known_at=later_time)):
            assert store.search(Search(VIEW, "rain falls", 5, filters=filters)).hits == ()
        assert store.scope_stats([TEAM], ALL)[0].facts == 1

    def test_answer_of_a_recall_that_read_an_erased_fact_is_not_repeated(
        self, store: Store, time: Time
    ) -> None:
        fact_id = told(store, "rain falls")
        (hit,) = store.search(Search(VIEW, "rain falls", 5)).hits
        store.erase(fact_id, ActionContext(PERSON, "asked to"))
        key = IdempotencyKey("ada", "key", "body")
        recorded = store.record_recall(*recall_of(hit.fact, "first", time.now), key)
        assert [fact.content for fact in recorded.facts] == ["rain falls"]
        second = told(store, "sun shines")
        current = store.fact(second, ALL)
        assert current is not None
        repeated = store.record_recall(*recall_of(current, "second", time.now), key)
        assert [fact.content for fact in repeated.facts] == ["sun shines"]
        again = store.record_recall(*recall_of(hit.fact, "third", time.now), key)
        assert again == repeated

    def test_answer_for_a_repeat_is_not_read_after_24_hours(self, store: Store, time: Time) -> None:
        key = IdempotencyKey("ada", "key", "body")
        fact_id = told(store, "rain falls")
        result = store.erase(fact_id, ActionContext(PERSON, "asked to", key))
        time.pass_(hours=24)
        erased = store.erased(key)
        assert erased is not None
        assert erased.facts == result.facts
        time.pass_(seconds=1)
        assert store.erased(key) is None
        assert store.performed(key) is None

    def test_namespace_of_the_same_name_gets_no_answer_of_the_earlier_one(
        self, store: Store
    ) -> None:
        self.register(store, "uid-1")
        fact_id = told(store, "rain falls")
        context = ActionContext(PERSON, "because", IdempotencyKey("ada", "key", "body"))
        assert store.confirm(fact_id, context) == store.confirm(fact_id, context)
        self.register(store, "uid-2")
        with pytest.raises(NotFound):
            store.confirm(fact_id, context)

    def register(self, store: Store, realm_uid: str) -> None:
        subject = Subject(username="system:serviceaccount:demo:lead-0", uid=realm_uid)
        principal = PrincipalIn(
            name="demo/lead-0", type="agent", subject=subject, home=LEAD, realm_uid=realm_uid
        )
        store.put_principal(principal, actor=PERSON)

    def test_erasure_reaches_copies_and_names_what_was_derived(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        corrected = store.correct(fact_id, "old", "Java 25", actor=PERSON).replacement_id
        erased = store.erase(fact_id, WHY)
        assert erased.facts == (fact_id, copy)
        assert erased.copies == (copy,)
        assert erased.derived == (corrected,)
        assert store.fact(copy, ALL) is None

    def test_equal_fact_that_stood_above_already_is_not_ours_to_erase(self, store: Store) -> None:
        above = told(store, scope=REALM)
        fact_id = told(store)
        store.promote(fact_id, WHY)
        erased = store.erase(fact_id, WHY)
        assert (erased.copies, erased.derived) == ((), (above,))
        assert known(store, above).lifecycle == "live"

    def test_same_words_can_be_told_again(self, store: Store) -> None:
        fact_id = told(store)
        store.erase(fact_id, WHY)
        assert told(store) != fact_id


class TestDeletingScopes:
    def test_facts_of_a_scope_that_is_erased_go_with_their_copies(self, store: Store) -> None:
        fact_id, _ = told(store, "rain falls"), told(store, "sun shines")
        copy = store.promote(fact_id, WHY).copy_id
        assert store.delete_scope(TEAM, actor=PERSON, erase=True)
        assert store.fact(fact_id, ALL) is None
        assert store.erase_deleted() == 2
        assert store.erase_deleted() == 0
        assert store.fact(copy, ALL) is None
        assert store.search(Search(ALL, "rain falls", 5)).hits == ()

    def test_scope_that_is_erased_can_never_be_adopted(self, store: Store) -> None:
        told(store)
        store.delete_scope(TEAM, actor=PERSON, erase=True)
        assert store.adopt_scope(TEAM, actor=PERSON) is None
        store.erase_deleted()
        assert store.adopt_scope(TEAM, actor=PERSON) is None

    def test_facts_of_a_scope_that_is_only_retired_stay(self, store: Store) -> None:
        fact_id = told(store)
        store.delete_scope(TEAM, actor=PERSON)
        assert store.erase_deleted() == 0
        assert store.adopt_scope(TEAM, actor=PERSON) is not None
        assert known(store, fact_id).lifecycle == "live"

    def test_successor_of_an_erased_scope_keeps_its_own(self, store: Store) -> None:
        told(store, "rain falls")
        store.delete_scope(TEAM, actor=PERSON, erase=True)
        fact_id = told(store, "sun shines")
        assert store.erase_deleted() == 1
        assert live(store) == ["sun shines"]
        assert known(store, fact_id).content == "sun shines"
