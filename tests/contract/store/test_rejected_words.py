"""A rejected statement is not served when it is remembered again."""

from __future__ import annotations

import pytest

from knowledge_client.models import ApproveIn
from knowledge_service.domain.access_control import View
from knowledge_service.errors import PreviouslyRetracted
from knowledge_service.ports import ActionContext, Actor, Search, Store
from tests.knowledge_builders import AGENT, LEAD, PERSON, TEAM, new_fact

VIEW = View(LEAD)
MESSAGE = "rain falls up"


def reject(store: Store) -> str:
    (stored,) = store.remember([new_fact(MESSAGE)], actor=AGENT)
    store.reject(stored.fact_id, ActionContext(PERSON, "it falls down"))
    return stored.fact_id


def served(store: Store) -> list[str]:
    return [hit.fact.id for hit in store.search(Search(VIEW, MESSAGE, 10)).hits]


@pytest.mark.parametrize("others", [(), ("snow",)], ids=["alone", "in a batch"])
def test_equal_words_are_refused_with_the_reviewers_reason(
    store: Store, others: tuple[str, ...]
) -> None:
    reject(store)
    with pytest.raises(PreviouslyRetracted, match=f"rejected in review in {TEAM}: it falls down"):
        store.remember([new_fact(text) for text in (*others, MESSAGE)], actor=AGENT)
    assert served(store) == []


def test_forced_words_are_a_draft_until_a_reviewer_approves_them(store: Store) -> None:
    initial_text = reject(store)
    (result,) = store.remember([new_fact(MESSAGE, force=True)], actor=AGENT)
    fact = store.fact(result.fact_id, VIEW)
    assert fact is not None
    assert (fact.review, result.fact_id != initial_text) == ("draft", True)
    assert served(store) == []
    edits = ApproveIn(reason="it does, in a storm")
    store.approve(result.fact_id, ActionContext(PERSON, edits.reason), edits)
    assert served(store) == [result.fact_id]


@pytest.mark.parametrize("verb", ["retract", "correct"])
@pytest.mark.parametrize("force", [False, True])
def test_closing_the_forced_draft_does_not_lift_the_rejection(
    store: Store, verb: str, *, force: bool
) -> None:
    reject(store)
    (draft,) = store.remember([new_fact(MESSAGE, force=True)], actor=AGENT)
    if verb == "retract":
        store.retract(draft.fact_id, ActionContext(AGENT, "x"))
    else:
        store.correct(draft.fact_id, "x", "rain is wet", actor=AGENT)
    if not force:
        with pytest.raises(PreviouslyRetracted):
            store.remember([new_fact(MESSAGE)], actor=AGENT)
        return
    (result,) = store.remember([new_fact(MESSAGE, force=True)], actor=AGENT)
    fact = store.fact(result.fact_id, VIEW)
    assert fact is not None
    assert fact.review == "draft"
    assert served(store) == []


@pytest.mark.parametrize("actor", [AGENT, PERSON], ids=["agent", "person"])
def test_words_that_a_reviewer_approved_since_are_rejected_no_longer(
    store: Store, actor: Actor
) -> None:
    reject(store)
    (result,) = store.remember([new_fact(MESSAGE, force=True)], actor=AGENT)
    store.approve(
        result.fact_id, ActionContext(PERSON, "in a storm"), ApproveIn(reason="in a storm")
    )
    store.correct(result.fact_id, "the storm is over", "rain falls down", actor=PERSON)
    (third,) = store.remember([new_fact(MESSAGE)], actor=actor)
    fact = store.fact(third.fact_id, VIEW)
    assert fact is not None
    assert (fact.lifecycle, fact.review) == ("live", "none")


EDITED = "rain falls down"


def replace(store: Store) -> str:
    """Have a person approve a statement with other text; return the id of the original."""
    (stored,) = store.remember([new_fact(MESSAGE)], actor=AGENT)
    edits = ApproveIn(reason="it falls down", content=EDITED)
    store.approve(stored.fact_id, ActionContext(PERSON, edits.reason), edits)
    return stored.fact_id


@pytest.mark.parametrize("others", [(), ("snow",)], ids=["alone", "in a batch"])
def test_text_that_an_approval_replaced_is_refused_with_the_reviewers_reason(
    store: Store, others: tuple[str, ...]
) -> None:
    replace(store)
    initial_items = served(store)
    message = f"replaced the text of an equal fact in {TEAM}: it falls down"
    with pytest.raises(PreviouslyRetracted, match=message):
        store.remember([new_fact(text) for text in (*others, MESSAGE)], actor=AGENT)
    assert served(store) == initial_items


def test_correction_does_not_bring_back_the_text_that_an_approval_replaced(store: Store) -> None:
    replace(store)
    (other_result,) = store.remember([new_fact("snow falls up")], actor=AGENT)
    with pytest.raises(PreviouslyRetracted, match="replaced the text of an equal fact"):
        store.correct(other_result.fact_id, "x", MESSAGE, actor=AGENT)
    fact = store.fact(other_result.fact_id, VIEW)
    assert fact is not None
    assert fact.lifecycle == "live"


def test_forced_text_that_an_approval_replaced_is_a_draft(store: Store) -> None:
    replace(store)
    initial_items = served(store)
    (result,) = store.remember([new_fact(MESSAGE, force=True)], actor=AGENT)
    fact = store.fact(result.fact_id, VIEW)
    assert fact is not None
    assert fact.review == "draft"
    assert served(store) == initial_items


def test_text_whose_replacement_was_erased_stays_replaced(store: Store) -> None:
    replace(store)
    (successor,) = served(store)
    store.erase(successor, ActionContext(PERSON, "x"))
    with pytest.raises(PreviouslyRetracted, match="replaced the text of an equal fact"):
        store.remember([new_fact(MESSAGE)], actor=AGENT)


def test_text_whose_approval_was_undone_is_confirmed(store: Store) -> None:
    original = replace(store)
    (successor,) = served(store)
    store.undo(successor, ActionContext(PERSON, "x"))
    (result,) = store.remember([new_fact(MESSAGE)], actor=AGENT)
    assert (result.fact_id, result.status) == (original, "confirmed")
