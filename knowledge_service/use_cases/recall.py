"""One recall: whose view, which scopes, what fills the answer, and the receipt of it.

search -> fill up (runs only) -> token budget -> receipt -> answer
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from knowledge_client import base_model
from knowledge_client.models import (
    ActAs,
    FactExplanation,
    Injection,
    Recalled,
    RecalledFact,
    RecallIn,
    Receipt,
    RecordedQuery,
    Run,
)
from knowledge_service import uuid7
from knowledge_service.domain import redaction
from knowledge_service.domain.access_control import (
    Principal,
    ScopeRange,
    View,
    contains,
    lineage,
    nearest_first,
    realm_of,
)
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.errors import Forbidden, NotFound, StoreUnavailable
from knowledge_service.ports import Hit, NewReceipt, Once, Search, SearchResult
from knowledge_service.search import ranker_version
from knowledge_service.search.text import analyser
from knowledge_service.use_cases import authorization, fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_CHARACTERS_A_TOKEN = 4
_USERNAME = "system:serviceaccount:{}:{}"


@dataclass(frozen=True)
class _Plan:
    """What is asked of the store, after the scope's own settings."""

    search: Search
    max_tokens: int | None
    enabled: bool


def recall(
    store: Store, principal: Principal, body: RecallIn, *, now: datetime, once: Once | None
) -> Recalled:
    """Return ranked facts and leave a receipt.

    With `run`, the injection settings of the nearest declared scope between reader and run hold,
    and fewer than `limit` matches are filled up with the best facts of the nearest visible scopes
    (score 0, part `recent`): a scope that knows only little serves it to its own missions even
    when no word of the objective matches. The receipt of a run is durable before the answer;
    when the disk takes no writes the answer has none.

    Raises:
        Forbidden: `act_as` without the admin verb there.
        ScopeForbidden: a named scope is out of reach.
        NotFound: the run is not one that the caller works in.
    """
    # What is kept of a question is masked, so what is asked is too: a replay then asks the same.
    query = redaction.mask(body.query)
    if query != body.query:
        body = body.model_copy(update={"query": query})
    reader = _act_as(store, principal, body.act_as) if body.act_as else principal
    run = authorization.run_of(store, body.run, principal, near=reader.home) if body.run else None
    known_at = body.known_at or now
    plan = _plan(store, reader, body, run)
    plan = replace(plan, search=replace(plan.search, now=known_at, explain=body.explain))
    asked_about = tuple(fact_queries.resolve_alias(store, reader, each) for each in body.why_not)
    result = _search(store, plan, fill_up=run is not None, why_not=asked_about)
    facts = _ranked(_within(result.hits, plan.max_tokens))
    scopes = result.scopes
    # What is built of what is known to be right need not be looked at again.
    receipt = base_model.construct_unchecked(
        Receipt,
        {
            "id": uuid7.early_id(now),
            "query_hash": hashlib.sha256(query.encode()).hexdigest(),
            "principal": reader.name,
            "scopes": scopes,
            "known_at": known_at,
            "ranker": ranker_version.RANKER,
            "analyser": analyser.VERSION,
            "run": body.run,
            "attempt": body.attempt,
            "facts": tuple([fact.id for fact in facts]),
            "versions": tuple([fact.version for fact in facts]),
            "scores": tuple([fact.score for fact in facts]),
            "asked": _asked(plan, filled_up=run is not None),
            "acted_by": principal.name if body.act_as else None,
        },
    )
    answer = base_model.construct_unchecked(
        Recalled,
        {
            "receipt": receipt.id,
            "facts": facts,
            "scopes": scopes,
            "known_at": known_at,
            "ranker": ranker_version.RANKER,
            "why_not": (),
        },
    )
    if asked_about:
        explanations = _explained(store, plan, result, receipt.facts, asked_about)
        answer = answer.model_copy(update={"why_not": explanations})
    return _record(
        store,
        NewReceipt(receipt, reader.home, run_realm=realm_of(run.scope) if run else None),
        answer,
        once,
    )


def again(
    store: Store,
    view: View,
    receipt: Receipt,
    asked: RecordedQuery,
    *,
    known_at: datetime | None,
) -> tuple[RecalledFact, ...]:
    """Ask a receipt's question once more, in those of its scopes that are in the view.

    As of `known_at`, or of what is known now. The age of facts is counted from the moment of the
    receipt either way, so that what differs is what is known. Leaves no receipt.
    """
    plan = _plan_again(view, receipt, asked, known_at)
    result = _search(store, plan, fill_up=asked.filled_up)
    return _ranked(_within(result.hits, plan.max_tokens))


def _plan_again(
    view: View, receipt: Receipt, asked: RecordedQuery, known_at: datetime | None
) -> _Plan:
    scopes = tuple(path for path in receipt.scopes if view.can_read(path))
    filters = Filters(
        kinds=asked.kinds,
        tags=asked.tags,
        min_confidence=asked.min_confidence,
        valid_at=asked.valid_at,
        known_at=known_at,
        is_injection=asked.filled_up,
        include_closed=asked.include_closed,
    )
    search = Search(view, asked.query, asked.limit, scopes, filters, now=receipt.known_at)
    return _Plan(search=search, max_tokens=asked.max_tokens, enabled=asked.limit > 0)


def explained(
    store: Store, view: View, receipt: Receipt, asked: RecordedQuery, fact_id: str
) -> FactExplanation:
    """Ask a receipt's question once more as of then, and tell what becomes of one fact."""
    plan = _plan_again(view, receipt, asked, receipt.known_at)
    result = _search(store, plan, fill_up=asked.filled_up, why_not=(fact_id,))
    served = [hit.fact.id for hit in _within(result.hits, plan.max_tokens)]
    return _explained(store, plan, result, served, (fact_id,))[0]


def _explained(
    store: Store,
    plan: _Plan,
    result: SearchResult,
    served: Sequence[str],
    fact_ids: Sequence[str],
) -> tuple[FactExplanation, ...]:
    hits = {hit.fact.id for hit in result.hits}
    explanations = []
    for fact_id in fact_ids:
        is_visible = store.fact(fact_id, plan.search.view) is not None
        explanation = result.explanations.get(fact_id) if is_visible else None
        if explanation is None:
            stage, why = "invisible", "it does not exist, or is in no scope that was searched"
        elif not plan.enabled:
            stage, why = "off", "the scope's settings inject nothing"
        elif fact_id in served:
            stage, why = "returned", f"it is at place {served.index(fact_id) + 1}"
        elif fact_id in hits:
            stage, why = "budget", f"it does not fit into {plan.max_tokens} tokens"
        else:
            stage, why = explanation.stage, explanation.why
        explanations.append(FactExplanation(fact=fact_id, stage=stage, why=why))
    return tuple(explanations)


def _asked(plan: _Plan, *, filled_up: bool) -> RecordedQuery:
    filters = plan.search.filters
    return base_model.construct_unchecked(
        RecordedQuery,
        {
            "query": plan.search.query,
            "limit": plan.search.limit if plan.enabled else 0,
            "max_tokens": plan.max_tokens,
            "kinds": filters.kinds,
            "tags": filters.tags,
            "min_confidence": filters.min_confidence,
            "valid_at": filters.valid_at,
            "known_at": filters.known_at,
            "scopes": plan.search.scopes,
            "filled_up": filled_up,
            "include_closed": filters.include_closed,
        },
    )


def _act_as(store: Store, principal: Principal, act_as: ActAs) -> Principal:
    realm = f"realm:{act_as.namespace}"
    if not principal.administers_all_below(realm):
        raise Forbidden(f"{principal.name} may not act for others in {realm}")
    username = _USERNAME.format(act_as.namespace, act_as.service_account)
    found = store.principal(username)
    if found is None:
        raise NotFound(f"{username} is not registered; register it before acting for it")
    reader = Principal(found.name, found.type, found.home, found.grants, found.quota)
    for reach in (ScopeRange(found.home, subtree=False), *reader.view.scope_ranges):
        all_below = principal.administers_all_below(reach.scope)
        if not (all_below or (not reach.subtree and principal.has_verb("admin", reach.scope))):
            raise Forbidden(f"{principal.name} may not act for who may read {reach.scope}")
    return reader


def _plan(store: Store, reader: Principal, body: RecallIn, run: Run | None) -> _Plan:
    path = lineage(reader.home)
    configs = store.scope_configs(path)
    scopes = authorization.readable(body.scopes, reader) if body.scopes else None
    if scopes is None:
        closed = next((p for p in path if p in configs and not configs[p].inherit), None)
        if closed:
            above = set(path[path.index(closed) + 1 :])
            scopes = tuple(p for p in store.visible_scopes(reader.view, None) if p not in above)
    settings = Injection(max_facts=100, max_tokens=100_000, min_confidence=0)
    if run:
        own = [p for p in path if contains(run.scope, p)] or [run.scope]
        declared = store.scope_configs(own)
        settings = next((declared[p].injection for p in own if p in declared), Injection())
    filters = Filters(
        kinds=body.kinds,
        tags=body.tags,
        min_confidence=max(body.min_confidence, settings.min_confidence),
        valid_at=body.valid_at,
        known_at=body.known_at,
        is_injection=run is not None,
        include_closed=body.include_closed,
    )
    limit = min(body.limit, settings.max_facts)
    return _Plan(
        search=Search(reader.view, body.query, limit, scopes, filters),
        max_tokens=min(body.max_tokens or 100_000, settings.max_tokens),
        enabled=settings.enabled and limit > 0,
    )


def _search(
    store: Store, plan: _Plan, *, fill_up: bool, why_not: tuple[str, ...] = ()
) -> SearchResult:
    """Search, and fill up from the reader's own scopes; no hits where the settings inject none."""
    search = replace(plan.search, why_not=why_not)
    if not plan.enabled:
        if why_not:
            return replace(store.search(search), hits=())
        return SearchResult((), store.visible_scopes(search.view, search.scopes), {})
    result = store.search(search)
    missing = search.limit - len(result.hits)
    if not fill_up or missing <= 0:
        return result
    # The own scopes of the run first; granted ones beside the path are not filled up from.
    near = nearest_first(lineage(search.view.home))
    own = tuple(path for path in near if search.scopes is None or path in search.scopes)
    served = {hit.fact.id for hit in result.hits}
    recent = store.recent(replace(search, scopes=own))
    added = [Hit(fact, 0.0, {"recent": 0.0}) for fact in recent if fact.id not in served]
    return replace(result, hits=(*result.hits, *added[:missing]))


def _within(hits: Sequence[Hit], max_tokens: int | None) -> list[Hit]:
    """Keep, in order, what fits into the budget; one that does not fit makes room for a later."""
    left = max_tokens
    kept = []
    for hit in hits:
        tokens = -(-len(hit.fact.content) // _CHARACTERS_A_TOKEN)
        if left is None or tokens <= left:
            kept.append(hit)
            left = None if left is None else left - tokens
    return kept


def _ranked(hits: Sequence[Hit]) -> tuple[RecalledFact, ...]:
    return tuple(
        base_model.construct_unchecked(
            RecalledFact,
            {**hit.fact.__dict__, "rank": rank, "score": hit.score, "parts": dict(hit.parts)},
        )
        for rank, hit in enumerate(hits, start=1)
    )


def _record(store: Store, new: NewReceipt, answer: Recalled, once: Once | None) -> Recalled:
    try:
        if new.receipt.run or once:
            return store.record_recall(new, answer, once)
        store.record_recall_later(new)
    except StoreUnavailable:
        return answer.model_copy(update={"receipt": None})
    return answer
