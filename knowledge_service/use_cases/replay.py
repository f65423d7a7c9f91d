"""A recall's question asked again: of what was known then, or of what is known now.

Both really compute, through the same search, filters and budget, with the scopes that the recall
had as far as the caller sees them. Neither leaves a receipt nor counts a use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.models import (
    FactExplanation,
    RankChange,
    Receipt,
    RecordedQuery,
    ReplayResult,
)
from knowledge_service.domain.access_control import Principal, ScopeRange, View
from knowledge_service.errors import Conflict
from knowledge_service.search import ranker_version
from knowledge_service.search.text import analyser
from knowledge_service.use_cases import fact_queries, provenance, recall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from knowledge_client.models import RecalledFact
    from knowledge_service.ports import NewReceipt, Store


def replay(store: Store, principal: Principal, receipt_id: str) -> ReplayResult:
    """Ask again as of then, and say whether the answer is equal.

    Raises:
        NotFound: there is no such receipt, or it is another's.
        Conflict: the receipt is from before questions were kept.
    """
    found = provenance.receipt(store, principal, receipt_id)
    return _compared(store, principal, found, found.receipt.known_at, as_of_then=True)


def diff(store: Store, principal: Principal, receipt_id: str, *, now: datetime) -> ReplayResult:
    """Ask again as of now, and say what is different.

    Raises:
        NotFound: there is no such receipt, or it is another's.
        Conflict: the receipt is from before questions were kept.
    """
    found = provenance.receipt(store, principal, receipt_id)
    return _compared(store, principal, found, now, as_of_then=False)


def explain(store: Store, principal: Principal, receipt_id: str, fact_id: str) -> FactExplanation:
    """Ask again as of then, and tell what becomes of one fact: why it was not recalled.

    Raises:
        NotFound: there is no such receipt, or it is another's.
        Conflict: the receipt is from before questions were kept.
    """
    found = provenance.receipt(store, principal, receipt_id)
    asked = _asked(found.receipt)
    view, seen = _seen(principal, found)
    named = fact_queries.resolve_alias(store, principal, fact_id)
    return recall.explained(store, view, seen, asked, named)


def _seen(principal: Principal, found: NewReceipt) -> tuple[View, Receipt]:
    """Return the recall's view and receipt, as far as the caller sees its scopes."""
    scopes = tuple(path for path in found.receipt.scopes if principal.view.can_read(path))
    reaches = tuple(ScopeRange(path, subtree=False) for path in scopes)
    view = View(found.observer, reaches, drafts=principal.view.drafts)
    return view, found.receipt.model_copy(update={"scopes": scopes})


def _compared(
    store: Store, principal: Principal, found: NewReceipt, at: datetime, *, as_of_then: bool
) -> ReplayResult:
    receipt = found.receipt
    asked = _asked(receipt)
    view, seen = _seen(principal, found)
    then_at = at if as_of_then else None
    facts = recall.again(store, view, seen, asked, known_at=then_at)
    now = [(fact.id, fact.score) for fact in facts]
    then = list(zip(receipt.facts, receipt.scores, strict=True))
    moved = _moved(then, now)
    why = _reasons(store, principal, receipt, facts, seen.scopes) if moved else ()
    changed = () if as_of_then else _changed(store, principal, receipt)
    return ReplayResult(
        receipt=receipt.id,
        known_at=at,
        equal=then == now,
        facts=tuple(fact for fact, _ in now),
        scores=tuple(score for _, score in now),
        moved=moved,
        reasons=(*_versions(receipt), *changed, *why),
    )


def _asked(receipt: Receipt) -> RecordedQuery:
    if receipt.asked is None:
        raise Conflict(
            f"receipt {receipt.id} is from before questions were kept; it cannot be asked again"
        )
    return receipt.asked


def _moved(
    then: Sequence[tuple[str, float]], now: Sequence[tuple[str, float]]
) -> tuple[RankChange, ...]:
    before = {fact: (rank, score) for rank, (fact, score) in enumerate(then, start=1)}
    after = {fact: (rank, score) for rank, (fact, score) in enumerate(now, start=1)}
    nowhere = (None, None)
    return tuple(
        RankChange(
            fact=fact,
            rank_then=before.get(fact, nowhere)[0],
            rank_now=after.get(fact, nowhere)[0],
            score_then=before.get(fact, nowhere)[1],
            score_now=after.get(fact, nowhere)[1],
        )
        for fact in dict.fromkeys([*before, *after])
        if before.get(fact) != after.get(fact)
    )


def _versions(receipt: Receipt) -> Iterator[str]:
    """Name what computes otherwise today, also when it comes to the same."""
    if receipt.ranker != ranker_version.RANKER:
        yield f"the ranker was {receipt.ranker} and is now {ranker_version.RANKER}"
    if receipt.analyser != analyser.VERSION:
        yield f"the analyser was {receipt.analyser}, now it is {analyser.VERSION}"


def _changed(store: Store, principal: Principal, receipt: Receipt) -> Iterator[str]:
    """Count facts of which there is a newer version, also when they stand where they stood."""
    then = zip(receipt.facts, receipt.versions, strict=False)  # an old receipt has no versions
    now = [(store.fact(fact_id, principal.view), version) for fact_id, version in then]
    count = sum(fact is not None and fact.version != version for fact, version in now)
    if count:
        yield f"{count} of its facts have changed since"


def _reasons(
    store: Store,
    principal: Principal,
    receipt: Receipt,
    facts: Sequence[RecalledFact],
    scopes: tuple[str, ...],
) -> tuple[str, ...]:
    said = []
    if scopes != receipt.scopes:
        said.append("not every scope of the recall is visible to you")
    gone = [each for each in receipt.facts if store.fact(each, principal.view) is None]
    if gone:
        said.append(f"{len(gone)} of its facts were erased, or are not visible to you")
    known = set(receipt.facts)
    new = [fact for fact in facts if fact.id not in known and fact.recorded_at > receipt.known_at]
    if new:
        said.append(f"{len(new)} facts were recorded since")
    return tuple(said) or ("uses, links and the index's statistics are those of today",)
