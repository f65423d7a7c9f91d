"""Recall: choose the reader and scopes, search, fit the token budget, and store a receipt.

search -> fill up (runs only) -> token budget -> receipt -> answer
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
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
    ScopeConfig,
)
from knowledge_service import uuid7
from knowledge_service.domain import redaction
from knowledge_service.domain.access_control import (
    ScopeRange,
    View,
    contains,
    lineage,
    nearest_first,
    realm_of,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.errors import Forbidden, NotFound, StoreUnavailable
from knowledge_service.ports import Hit, IdempotencyKey, NewReceipt, Search, SearchResult
from knowledge_service.search.query import expansion
from knowledge_service.search.text import analyser
from knowledge_service.use_cases import arms, authorization, fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_CHARACTERS_PER_TOKEN = 4
_USERNAME = "system:serviceaccount:{}:{}"


@dataclass(frozen=True)
class RecallPlan:
    """The search of a recall, after the settings of the scope are applied.

    `reasons` says why the run of the recall gets no facts.
    """

    search: Search
    max_tokens: int | None
    is_enabled: bool
    reasons: tuple[str, ...] = ()


def recall(
    store: Store,
    principal: Principal,
    body: RecallIn,
    *,
    now: datetime,
    idempotency_key: IdempotencyKey | None,
) -> Recalled:
    """Return ranked facts and leave a receipt.

    With `run`, the injection settings of the nearest declared scope between reader and run apply,
    and fewer than `limit` matches are completed with the best facts of the nearest visible scopes
    (score 0, part `recent`): a scope with few facts serves them to its missions even when no term
    of the objective matches. The receipt of a run is durable before the answer; without a writable
    disk, the answer has no receipt.

    A run in the arms off and holdout gets no facts, and the receipt says so.

    Raises:
        Forbidden: the caller may not use `act_as` for this reader, or its ticket.
        ScopeForbidden: a named scope is out of reach.
        NotFound: the run does not exist or is not accessible.
        InvalidBody: a facet is malformed, or there is no schema.
    """
    body = _with_masked_query(body)
    reader = _impersonated_principal(store, principal, body.act_as) if body.act_as else principal
    run = _authorized_run(store, principal, reader, body.run)
    known_at = body.known_at or now
    plan = _plan_recall(store, reader, body, run)
    reasons = arms.reasons_for_recall(store, principal, run, body.ticket, now=now)
    plan = replace(
        plan,
        search=replace(plan.search, now=known_at, explain=body.explain),
        is_enabled=plan.is_enabled and not reasons,
        reasons=reasons,
    )
    why_not_ids = tuple(
        fact_queries.resolve_alias(store, reader, reference) for reference in body.why_not
    )
    result = _search(store, plan, fill_up=run is not None, why_not=why_not_ids)
    facts = _to_recalled_facts(_fit_token_budget(result.hits, plan.max_tokens))
    receipt = base_model.construct_unchecked(
        Receipt,
        {
            "id": uuid7.provisional_id(now),
            "query_hash": hashlib.sha256(body.query.encode()).hexdigest(),
            "principal": reader.name,
            "scopes": result.scopes,
            "known_at": known_at,
            "ranker": store.ranker(),
            "analyser": analyser.VERSION,
            "run": body.run,
            "attempt": body.attempt,
            "facts": tuple([fact.id for fact in facts]),
            "versions": tuple([fact.version for fact in facts]),
            "scores": tuple([fact.score for fact in facts]),
            "asked": _recorded_query(plan, filled_up=run is not None),
            "acted_by": principal.name if body.act_as else None,
            "reasons": reasons,
        },
    )
    answer = _to_answer(receipt, facts)
    if why_not_ids:
        explanations = _explain_facts(store, plan, result, receipt.facts, why_not_ids)
        answer = answer.model_copy(update={"why_not": explanations})
    run_realm = realm_of(run.scope) if run else None
    new_receipt = NewReceipt(receipt, reader.home, run_realm=run_realm)
    return _store_receipt(store, new_receipt, answer, idempotency_key, reader.view)


def _authorized_run(
    store: Store, principal: Principal, reader: Principal, run_id: str | None
) -> Run | None:
    if not run_id:
        return None
    return authorization.authorized_run(store, run_id, principal, nearby_scope=reader.home)


def _with_masked_query(body: RecallIn) -> RecallIn:
    """Mask secrets in the query: the receipt stores the masked query, which a replay repeats."""
    masked = {
        "query": redaction.mask(body.query),
        "facets": tuple(map(redaction.mask_known_formats, body.facets)),
    }
    is_unmasked = (body.query, body.facets) == (masked["query"], masked["facets"])
    return body if is_unmasked else body.model_copy(update=masked)


def _to_answer(receipt: Receipt, facts: tuple[RecalledFact, ...]) -> Recalled:
    return base_model.construct_unchecked(
        Recalled,
        {
            "receipt": receipt.id,
            "facts": facts,
            "scopes": receipt.scopes,
            "known_at": receipt.known_at,
            "ranker": receipt.ranker,
            "why_not": (),
            "reasons": receipt.reasons,
        },
    )


def rerun_query(
    store: Store,
    view: View,
    receipt: Receipt,
    query: RecordedQuery,
    *,
    known_at: datetime | None,
) -> tuple[RecalledFact, ...]:
    """Repeat the query of a receipt, in those of its scopes that are in the view.

    Searches what was known at `known_at`, or what is known now. The age of facts counts from the
    time of the receipt in both cases, so only changes of knowledge make a difference. Stores no
    receipt.
    """
    plan = _plan_rerun(view, receipt, query, known_at)
    result = _search(store, plan, fill_up=query.filled_up)
    return _to_recalled_facts(_fit_token_budget(result.hits, plan.max_tokens))


def _plan_rerun(
    view: View, receipt: Receipt, query: RecordedQuery, known_at: datetime | None
) -> RecallPlan:
    scopes = tuple(path for path in receipt.scopes if view.can_read(path))
    filters = Filters(
        kinds=query.kinds,
        tags=query.tags,
        schema=query.schema_,
        facets=fact_queries.parse_facets(query.facets, query.schema_),
        min_confidence=query.min_confidence,
        valid_at=query.valid_at,
        known_at=known_at,
        is_injection=query.filled_up,
        include_closed=query.include_closed,
    )
    search = Search(
        view,
        query.query,
        query.limit,
        scopes,
        filters,
        now=receipt.known_at,
        synonyms=query.synonyms,
    )
    return RecallPlan(search=search, max_tokens=query.max_tokens, is_enabled=query.limit > 0)


def explain_fact(
    store: Store, view: View, receipt: Receipt, query: RecordedQuery, fact_id: str
) -> FactExplanation:
    """Repeat the query of a receipt as of then, and explain the result for one fact."""
    plan = replace(_plan_rerun(view, receipt, query, receipt.known_at), reasons=receipt.reasons)
    result = _search(store, plan, fill_up=query.filled_up, why_not=(fact_id,))
    served = [hit.fact.id for hit in _fit_token_budget(result.hits, plan.max_tokens)]
    return _explain_facts(store, plan, result, served, (fact_id,))[0]


def _explain_facts(
    store: Store,
    plan: RecallPlan,
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
            stage, reason = "invisible", "it does not exist, or is in no searched scope"
        elif not plan.is_enabled:
            plan_reasons = "; ".join(plan.reasons) or "the settings of the scope disable injection"
            stage, reason = "off", plan_reasons
        elif fact_id in served:
            stage, reason = "returned", f"it is at position {served.index(fact_id) + 1}"
        elif fact_id in hits:
            stage, reason = "budget", f"it does not fit into {plan.max_tokens} tokens"
        else:
            stage, reason = explanation.stage, explanation.why
        explanations.append(FactExplanation(fact=fact_id, stage=stage, why=reason))
    return tuple(explanations)


def _recorded_query(plan: RecallPlan, *, filled_up: bool) -> RecordedQuery:
    filters = plan.search.filters
    return base_model.construct_unchecked(
        RecordedQuery,
        {
            "query": plan.search.query,
            "limit": plan.search.limit if plan.is_enabled else 0,
            "max_tokens": plan.max_tokens,
            "kinds": filters.kinds,
            "tags": filters.tags,
            "schema_": filters.schema,
            "facets": tuple(f"{facet.name}={facet.value}" for facet in filters.facets),
            "min_confidence": filters.min_confidence,
            "valid_at": filters.valid_at,
            "known_at": filters.known_at,
            "scopes": plan.search.scopes,
            "filled_up": filled_up,
            "include_closed": filters.include_closed,
            "synonyms": plan.search.synonyms,
        },
    )


def _impersonated_principal(store: Store, principal: Principal, act_as: ActAs) -> Principal:
    realm = f"realm:{act_as.namespace}"
    if not principal.administers_all_below(realm):
        raise Forbidden(f"{principal.name} may not impersonate principals of {realm}")
    username = _USERNAME.format(act_as.namespace, act_as.service_account)
    registration = store.principal(username)
    if registration is None:
        raise NotFound(f"{username} is not registered; register it before you impersonate it")
    reader = Principal(
        registration.name,
        registration.type,
        registration.home,
        registration.grants,
        registration.quota,
    )
    for reach in (ScopeRange(registration.home, subtree=False), *reader.view.scope_ranges):
        all_below = principal.administers_all_below(reach.scope)
        if not (all_below or (not reach.subtree and principal.has_verb("admin", reach.scope))):
            raise Forbidden(
                f"{principal.name} may not impersonate a principal that can read {reach.scope}"
            )
    return reader


def _plan_recall(store: Store, reader: Principal, body: RecallIn, run: Run | None) -> RecallPlan:
    path = lineage(reader.home)
    scopes = authorization.authorize_read(body.scopes, reader) if body.scopes else None
    named_paths = chain.from_iterable(map(lineage, scopes or ()))
    declaring_scopes = tuple(dict.fromkeys([*path, *filter(reader.view.can_read, named_paths)]))
    configs = store.scope_configs(declaring_scopes)
    if scopes is None:
        isolating_scope = next((p for p in path if p in configs and not configs[p].inherit), None)
        if isolating_scope:
            hidden_scopes = set(path[path.index(isolating_scope) + 1 :])
            scopes = tuple(
                p for p in store.visible_scopes(reader.view, None) if p not in hidden_scopes
            )
    settings = Injection(max_facts=100, max_tokens=100_000, min_confidence=0)
    if run:
        scopes_within_run = [p for p in path if contains(run.scope, p)] or [run.scope]
        declared = store.scope_configs(scopes_within_run)
        settings = next(
            (declared[p].injection for p in scopes_within_run if p in declared), Injection()
        )
    filters = Filters(
        kinds=body.kinds,
        tags=body.tags,
        schema=body.schema_,
        facets=fact_queries.parse_facets(body.facets, body.schema_),
        min_confidence=max(body.min_confidence, settings.min_confidence),
        valid_at=body.valid_at,
        known_at=body.known_at,
        is_injection=run is not None,
        include_closed=body.include_closed,
    )
    limit = min(body.limit, settings.max_facts)
    return RecallPlan(
        search=Search(
            reader.view,
            body.query,
            limit,
            scopes,
            filters,
            synonyms=_declared_synonyms(body.query, declaring_scopes, configs),
        ),
        max_tokens=min(body.max_tokens or 100_000, settings.max_tokens),
        is_enabled=settings.enabled and limit > 0,
    )


def _declared_synonyms(
    query: str, paths: Iterable[str], configs: Mapping[str, ScopeConfig]
) -> tuple[tuple[str, ...], ...]:
    """Return the groups of synonyms of these scopes from which the query contains a word."""
    groups = [group for path in paths if path in configs for group in configs[path].synonyms]
    return expansion.applicable_synonyms(query, groups) if groups else ()


def _search(
    store: Store, plan: RecallPlan, *, fill_up: bool, why_not: tuple[str, ...] = ()
) -> SearchResult:
    """Search, and complete the hits from the reader's own scopes; none if injection is off."""
    search = replace(plan.search, why_not=why_not)
    if not plan.is_enabled:
        if why_not:
            return replace(store.search(search), hits=())
        return SearchResult((), store.visible_scopes(search.view, search.scopes), {})
    result = store.search(search)
    missing = search.limit - len(result.hits)
    if not fill_up or missing <= 0:
        return result
    # Only scopes on the reader's own path, nearest first; no granted ones.
    nearest_scopes = nearest_first(lineage(search.view.home))
    own_scopes = tuple(
        path for path in nearest_scopes if search.scopes is None or path in search.scopes
    )
    served = {hit.fact.id for hit in result.hits}
    recent = store.recent(replace(search, scopes=own_scopes))
    recent_hits = [Hit(fact, 0.0, {"recent": 0.0}) for fact in recent if fact.id not in served]
    return replace(result, hits=(*result.hits, *recent_hits[:missing]))


def _fit_token_budget(hits: Sequence[Hit], max_tokens: int | None) -> list[Hit]:
    """Return the hits that fit the budget, in order; a smaller one may follow one that does not."""
    remaining_tokens = max_tokens
    fitting_hits = []
    for hit in hits:
        tokens = -(-len(hit.fact.content) // _CHARACTERS_PER_TOKEN)
        if remaining_tokens is None or tokens <= remaining_tokens:
            fitting_hits.append(hit)
            remaining_tokens = None if remaining_tokens is None else remaining_tokens - tokens
    return fitting_hits


def _to_recalled_facts(hits: Sequence[Hit]) -> tuple[RecalledFact, ...]:
    return tuple(
        base_model.construct_unchecked(
            RecalledFact,
            {**hit.fact.__dict__, "rank": rank, "score": hit.score, "parts": dict(hit.parts)},
        )
        for rank, hit in enumerate(hits, start=1)
    )


def _store_receipt(
    store: Store,
    new_receipt: NewReceipt,
    answer: Recalled,
    idempotency_key: IdempotencyKey | None,
    view: View,
) -> Recalled:
    """Store a receipt, and return the answer or the first answer with the same key.

    A first answer with something that the reader may no longer read is not repeated.
    """
    try:
        receipt = new_receipt.receipt
        if receipt.run or receipt.reasons or idempotency_key:
            first = store.record_recall(new_receipt, answer, idempotency_key)
            if first.receipt == answer.receipt or _is_readable(store, first, view):
                return first
            return store.record_recall(new_receipt, answer, None)
        store.record_recall_later(new_receipt)
    except StoreUnavailable:
        return answer.model_copy(update={"receipt": None})
    return answer


def _is_readable(store: Store, answer: Recalled, view: View) -> bool:
    fact_ids = [fact.id for fact in answer.facts]
    return all(view.can_read(scope) for scope in answer.scopes) and (
        store.readable_facts(fact_ids, view).issuperset(fact_ids)
    )
