"""Why a fact is there and what it has touched, as far as the caller may see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_client.models import FactProvenance, Impact, Receipt
from knowledge_service.domain.access_control import Principal
from knowledge_service.errors import NotFound
from knowledge_service.ports import Reader
from knowledge_service.use_cases import fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import NewReceipt, Store


def why(store: Store, principal: Principal, fact_id: str) -> FactProvenance:
    """Return where a visible fact comes from.

    Raises:
        NotFound: there is none, or it is invisible.
    """
    fact = fact_queries.get_visible_fact(store, principal, fact_id)
    found = store.why(fact.id, reader(principal))
    if found is None:
        raise fact_queries.fact_not_found(fact_id)
    receipts = tuple(_visible_part(store, principal, each) for each in found.receipts)
    return found.model_copy(update={"receipts": receipts})


def impact(store: Store, principal: Principal, fact_id: str, *, limit: int) -> Impact:
    """Return what a visible fact has touched.

    Raises:
        NotFound: there is none, or it is invisible.
    """
    fact = fact_queries.get_visible_fact(store, principal, fact_id)
    found = store.impact(fact.id, reader(principal), limit=limit)
    if found is None:
        raise fact_queries.fact_not_found(fact_id)
    return found


def receipt(store: Store, principal: Principal, receipt_id: str) -> NewReceipt:
    """Return a receipt of one's own, or what one sees of one of a scope that one was granted.

    Raises:
        NotFound: there is none, or it is another's.
    """
    found = store.receipt(receipt_id)
    asking = reader(principal)
    if found is None or not asking.sees_receipt(found.observer, found.receipt.principal):
        raise NotFound(f"receipt {receipt_id} does not exist or is not visible to you")
    if asking.is_own(found.observer, found.receipt.principal):
        return found
    return replace(found, receipt=_visible_part(store, principal, found.receipt))


def _visible_part(store: Store, principal: Principal, receipt: Receipt) -> Receipt:
    """Leave out, uncounted, what of another's recall lies where the caller does not see."""
    view = principal.view
    visible = [at for at, fact in enumerate(receipt.facts) if store.fact(fact, view)]
    asked = receipt.asked
    if asked and asked.scopes is not None:
        named = tuple(path for path in asked.scopes if view.can_read(path))
        asked = asked.model_copy(update={"scopes": named})
    seen = {
        "scopes": tuple(path for path in receipt.scopes if view.can_read(path)),
        "facts": tuple(receipt.facts[at] for at in visible),
        "versions": tuple(receipt.versions[at] for at in visible if receipt.versions),
        "scores": tuple(receipt.scores[at] for at in visible),
        "asked": asked,
    }
    return receipt.model_copy(update=seen)


def reader(principal: Principal) -> Reader:
    """Return who asks, as a store is told."""
    return Reader(principal.view, principal.name)
