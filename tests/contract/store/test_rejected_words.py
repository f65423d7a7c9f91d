"""What a reviewer rejected is not served because somebody tells it again."""

from __future__ import annotations

import pytest

from knowledge_client.models import ApproveIn
from knowledge_service.domain.visibility import View
from knowledge_service.errors import RetractedBefore
from knowledge_service.ports import Order, Search, Store
from tests.builders_knowledge import AGENT, LEAD, PERSON, TEAM, new_fact

VIEW = View(LEAD)
WORDS = "rain falls up"


def reject(store: Store) -> str:
    (stored,) = store.remember([new_fact(WORDS)], actor=AGENT)
    store.reject(stored.fact_id, Order(PERSON, "it falls down"))
    return stored.fact_id


def served(store: Store) -> list[str]:
    return [hit.fact.id for hit in store.search(Search(VIEW, WORDS, 10))]


@pytest.mark.parametrize("others", [(), ("snow",)], ids=["alone", "in a batch"])
def test_equal_words_are_refused_with_the_reviewers_reason(
    store: Store, others: tuple[str, ...]
) -> None:
    reject(store)
    with pytest.raises(RetractedBefore, match=f"rejected in review in {TEAM}: it falls down"):
        store.remember([new_fact(text) for text in (*others, WORDS)], actor=AGENT)
    assert served(store) == []


def test_forced_words_are_a_draft_until_a_reviewer_approves_them(store: Store) -> None:
    before = reject(store)
    (again,) = store.remember([new_fact(WORDS, force=True)], actor=AGENT)
    found = store.fact(again.fact_id, VIEW)
    assert found is not None
    assert (found.review, again.fact_id != before) == ("draft", True)
    assert served(store) == []
    edits = ApproveIn(reason="it does, in a storm")
    store.approve(again.fact_id, Order(PERSON, edits.reason), edits)
    assert served(store) == [again.fact_id]
