"""What becomes of promoted copies when the fact that they were copied from is put right."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge_client.models import ApproveIn, Fact, Promotion, ScopeConfig
from knowledge_service.domain.access_control import ScopeRange
from knowledge_service.errors import PreviouslyRetracted
from knowledge_service.ports import ActionContext, Listing, ReviewQuery, Store
from tests.contract.store.conftest import Time
from tests.fact_actions import WHY, known, live, shown, told
from tests.knowledge_builders import AGENT, ALL, LEAD, PERSON, TEAM

REALM = "realm:demo"
KEYED: dict[str, Any] = {"subject": "build", "predicate": "needs"}
APPROVAL = ApproveIn(reason="good")


def automatic(store: Store, scope: str = TEAM) -> None:
    config = ScopeConfig(promotion=Promotion(policy="Automatic", min_missions=1))
    store.put_scope(scope, config, actor=PERSON)


class TestCorrected:
    def test_copies_of_every_level_are_withdrawn_and_named(self, store: Store) -> None:
        fact_id = told(store, scope=LEAD)
        first = store.promote(fact_id, WHY).copy_id
        second = store.promote(first, WHY).copy_id
        corrected = store.correct(fact_id, "it was wrong", "Java 25", actor=AGENT)
        assert corrected.copies_retracted == (first, second)
        assert corrected.copies_flagged == ()
        for copy in (known(store, first), known(store, second)):
            assert (copy.lifecycle, copy.content) == ("retracted", "the build needs Java 21")
            assert copy.closed_reason == "the fact that it was copied from was corrected"
        assert live(store, TEAM) == live(store, REALM) == []

    def test_retraction_by_correct_names_the_copies_too(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        assert store.correct(fact_id, "wrong", None, actor=AGENT).copies_retracted == (copy,)

    def test_copy_that_others_confirmed_keeps_its_content_and_waits_for_a_review(
        self, store: Store
    ) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.confirm(copy, ActionContext(AGENT, ""), "another-session")
        corrected = store.correct(fact_id, "wrong", "Java 25", actor=AGENT)
        assert (corrected.copies_retracted, corrected.copies_flagged) == ((), (copy,))
        matching_fact = known(store, copy)
        assert (matching_fact.lifecycle, matching_fact.content) == (
            "live",
            "the build needs Java 21",
        )
        assert matching_fact.flags == ("origin-retracted",)
        queue = store.review_queue(ReviewQuery((ScopeRange("platform", subtree=True),), 9))
        assert [fact.id for fact in queue] == [copy]

    def test_history_of_a_flagged_copy_does_not_repeat_why_its_origin_was_closed(
        self, store: Store
    ) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.confirm(copy, ActionContext(AGENT, ""), "another-session")
        store.correct(fact_id, "the secret is elsewhere", "Java 25", actor=AGENT)
        text = repr(store.history(copy, ALL))
        assert "the fact that it was copied from was corrected" in text
        assert "secret" not in text

    def test_copies_of_a_flagged_copy_wait_for_a_review_as_well(self, store: Store) -> None:
        fact_id = told(store, scope=LEAD)
        first = store.promote(fact_id, WHY).copy_id
        second = store.promote(first, WHY).copy_id
        store.confirm(first, ActionContext(AGENT, ""), "another-session")
        corrected = store.correct(fact_id, "wrong", "Java 25", actor=AGENT)
        assert corrected.copies_flagged == (first, second)
        assert known(store, second).flags == ("origin-retracted",)

    @pytest.mark.parametrize("verb", ["retract", "correct"])
    def test_copy_that_a_reviewer_approved_is_not_withdrawn_by_an_agent(
        self, store: Store, verb: str
    ) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.approve(copy, WHY, APPROVAL)
        if verb == "retract":
            store.retract(fact_id, ActionContext(AGENT, "wrong"))
        else:
            store.correct(fact_id, "wrong", "Java 25", actor=AGENT)
        fact = known(store, copy)
        assert (fact.lifecycle, fact.review) == ("live", "approved")
        assert fact.flags == ("origin-retracted",)

    def test_successor_climbs_on_its_own_evidence_and_the_old_words_do_not(
        self, store: Store
    ) -> None:
        automatic(store)
        fact_id = told(store, "Java 21", confidence=0.8, **KEYED)
        shown(store, fact_id, run="m-0")
        assert live(store, REALM) == ["Java 21"]
        successor = store.correct(fact_id, "wrong", "Java 25", actor=AGENT).replacement_id
        assert successor is not None
        assert live(store, REALM) == []
        shown(store, successor, run="m-1")
        assert live(store, REALM) == ["Java 25"]
        with pytest.raises(PreviouslyRetracted):
            told(store, "Java 21", scope=REALM, **KEYED)

    def test_undo_brings_the_copy_back(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.correct(fact_id, "wrong", "Java 25", actor=AGENT)
        store.undo(fact_id, WHY)
        assert [known(store, item).lifecycle for item in (fact_id, copy)] == ["live", "live"]
        assert store.correct(fact_id, "wrong", None, actor=AGENT).copies_retracted == (copy,)


class TestReviewed:
    def test_approval_with_other_words_withdraws_the_copy(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        approved = store.approve(fact_id, WHY, ApproveIn(reason="better", content="Java 25"))
        assert approved.copies_retracted == (copy,)
        assert known(store, copy).lifecycle == "retracted"

    def test_approval_as_it_is_leaves_the_copy(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        assert store.approve(fact_id, WHY, APPROVAL).copies_retracted == ()
        assert known(store, copy).lifecycle == "live"

    def test_rejection_withdraws_the_copy(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.reject(fact_id, WHY)
        fact = known(store, copy)
        assert fact.lifecycle == "retracted"
        assert fact.closed_reason == "the fact that it was copied from was rejected"


class TestSuperseded:
    def test_copy_ends_when_its_origin_does_and_the_later_statement_climbs(
        self, store: Store, time: Time
    ) -> None:
        automatic(store)
        old = told(store, "Java 21", confidence=0.8, **KEYED)
        shown(store, old, run="m-0")
        (above,) = [fact for fact in _facts(store, REALM) if fact.content == "Java 21"]
        since = time.pass_(days=1)
        new = told(store, "Java 25", confidence=0.8, **KEYED)
        copy = known(store, above.id)
        assert (copy.lifecycle, copy.valid_until) == ("superseded", since)
        shown(store, new, run="m-1")
        assert live(store, REALM) == ["Java 25"]

    def test_statement_of_old_may_climb_again_when_it_is_true_again(
        self, store: Store, time: Time
    ) -> None:
        automatic(store)
        for n, content in enumerate(("Java 21", "Java 25", "Java 21")):
            shown(store, told(store, content, confidence=0.8, **KEYED), run=f"m-{n}")
            assert live(store, REALM) == [content]
            time.pass_(days=1)


class TestCorrectedAbove:
    @pytest.mark.parametrize("replacement", [None, "Java 25"])
    def test_origin_does_not_climb_again_by_itself(
        self, store: Store, replacement: str | None
    ) -> None:
        automatic(store)
        fact_id = told(store, confidence=0.8)
        shown(store, fact_id, run="m-0")
        (copy,) = _facts(store, REALM)
        store.correct(copy.id, "not here", replacement, actor=PERSON)
        shown(store, fact_id, run="m-1")
        assert live(store, REALM) == ([replacement] if replacement else [])

    def test_person_may_still_promote_it(self, store: Store) -> None:
        fact_id = told(store)
        copy = store.promote(fact_id, WHY).copy_id
        store.correct(copy, "not here", "Java 25", actor=PERSON)
        assert store.promote(fact_id, WHY).copy_id != copy


def _facts(store: Store, scope: str) -> list[Fact]:
    listing = Listing(ALL, 100, scopes=(scope,), lifecycle="live")
    return list(store.list_facts(listing))
