"""Run the query of a receipt again: on the facts of that time, or on those of today.

Filters and token budget are those of the recall, and so are the scopes as far as the caller may
read them. Nothing here stores a receipt or counts as usage.
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
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict
from knowledge_service.search.text import analyser
from knowledge_service.use_cases import fact_queries, provenance, recall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from knowledge_client.models import RecalledFact
    from knowledge_service.ports import NewReceipt, Store


def replay(store: Store, principal: Principal, receipt_id: str) -> ReplayResult:
    """Run a query as of the time of its recall, and compare the results.

    Raises:
        NotFound: the receipt does not exist or is not visible.
        Conflict: the receipt contains no query, because an early version wrote it.
    """
    stored = provenance.get_visible_receipt(store, principal, receipt_id)
    return _compare(store, principal, stored, stored.receipt.known_at, is_replay=True)


def diff(store: Store, principal: Principal, receipt_id: str, *, now: datetime) -> ReplayResult:
    """Run a query on the facts of today, and compare the results.

    Raises:
        NotFound: the receipt does not exist or is not visible.
        Conflict: the receipt contains no query, because an early version wrote it.
    """
    stored = provenance.get_visible_receipt(store, principal, receipt_id)
    return _compare(store, principal, stored, now, is_replay=False)


def explain(store: Store, principal: Principal, receipt_id: str, fact_id: str) -> FactExplanation:
    """Explain why a recall returned a fact or did not, as of the time of the recall.

    Raises:
        NotFound: the receipt does not exist or is not visible.
        Conflict: the receipt contains no query, because an early version wrote it.
    """
    stored = provenance.get_visible_receipt(store, principal, receipt_id)
    query = _recorded_query(stored.receipt)
    view, visible_receipt = _visible_receipt(principal, stored)
    target_id = fact_queries.resolve_alias(store, principal, fact_id)
    return recall.explain_fact(store, view, visible_receipt, query, target_id)


def _visible_receipt(principal: Principal, stored: NewReceipt) -> tuple[View, Receipt]:
    """Return the view and receipt of a recall, limited to scopes that the caller may read."""
    scopes = tuple(path for path in stored.receipt.scopes if principal.view.can_read(path))
    scope_ranges = tuple(ScopeRange(path, subtree=False) for path in scopes)
    view = View(stored.observer, scope_ranges, drafts=principal.view.drafts)
    return view, stored.receipt.model_copy(update={"scopes": scopes})


def _compare(
    store: Store, principal: Principal, stored: NewReceipt, known_at: datetime, *, is_replay: bool
) -> ReplayResult:
    receipt = stored.receipt
    query = _recorded_query(receipt)
    view, visible_receipt = _visible_receipt(principal, stored)
    as_of = known_at if is_replay else None
    facts = recall.rerun_query(store, view, visible_receipt, query, known_at=as_of)
    current = [(fact.id, fact.score) for fact in facts]
    recorded = list(zip(receipt.facts, receipt.scores, strict=True))
    rank_changes = _rank_changes(recorded, current)
    change_reasons = (
        _change_reasons(store, principal, receipt, facts, visible_receipt.scopes)
        if rank_changes
        else ()
    )
    changed_facts = () if is_replay else _changed_facts(store, principal, receipt)
    return ReplayResult(
        receipt=receipt.id,
        known_at=known_at,
        equal=recorded == current,
        facts=tuple(fact for fact, _ in current),
        scores=tuple(score for _, score in current),
        moved=rank_changes,
        reasons=(*_version_changes(receipt, store.ranker()), *changed_facts, *change_reasons),
    )


def _recorded_query(receipt: Receipt) -> RecordedQuery:
    if receipt.asked is None:
        raise Conflict(f"receipt {receipt.id} has no recorded query, so it cannot be replayed")
    return receipt.asked


def _rank_changes(
    recorded: Sequence[tuple[str, float]], current: Sequence[tuple[str, float]]
) -> tuple[RankChange, ...]:
    recorded_ranks = {fact: (rank, score) for rank, (fact, score) in enumerate(recorded, start=1)}
    current_ranks = {fact: (rank, score) for rank, (fact, score) in enumerate(current, start=1)}
    no_rank = (None, None)
    return tuple(
        RankChange(
            fact=fact,
            rank_then=recorded_ranks.get(fact, no_rank)[0],
            rank_now=current_ranks.get(fact, no_rank)[0],
            score_then=recorded_ranks.get(fact, no_rank)[1],
            score_now=current_ranks.get(fact, no_rank)[1],
        )
        for fact in dict.fromkeys([*recorded_ranks, *current_ranks])
        if recorded_ranks.get(fact) != current_ranks.get(fact)
    )


def _version_changes(receipt: Receipt, ranker: str) -> Iterator[str]:
    """Yield a reason for each changed version, even if the results are equal."""
    if receipt.ranker != ranker:
        yield f"the ranker was {receipt.ranker} and is now {ranker}"
    if receipt.analyser != analyser.VERSION:
        yield f"the analyser was {receipt.analyser} and is now {analyser.VERSION}"


def _changed_facts(store: Store, principal: Principal, receipt: Receipt) -> Iterator[str]:
    """Yield the number of facts with a newer version, even if their ranks are equal."""
    recorded = zip(receipt.facts, receipt.versions, strict=False)  # old receipts have no versions
    versions = [(store.fact(fact_id, principal.view), version) for fact_id, version in recorded]
    count = sum(fact is not None and fact.version != version for fact, version in versions)
    if count:
        yield f"{count} of its facts have changed since"


def _change_reasons(
    store: Store,
    principal: Principal,
    receipt: Receipt,
    facts: Sequence[RecalledFact],
    scopes: tuple[str, ...],
) -> tuple[str, ...]:
    reasons = []
    if scopes != receipt.scopes:
        reasons.append("not every scope of the recall is visible to you")
    hidden_ids = [
        fact_id for fact_id in receipt.facts if store.fact(fact_id, principal.view) is None
    ]
    if hidden_ids:
        reasons.append(f"{len(hidden_ids)} of its facts were erased, or are not visible to you")
    recorded_ids = set(receipt.facts)
    new_facts = [
        fact
        for fact in facts
        if fact.id not in recorded_ids and fact.recorded_at > receipt.known_at
    ]
    if new_facts:
        reasons.append(f"{len(new_facts)} facts were recorded since")
    return tuple(reasons) or ("uses, links and the index's statistics are those of today",)
