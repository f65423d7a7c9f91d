"""Why a fact is there and what it has touched, as far as the caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.models import Impact, Why
from knowledge_service.domain.visibility import Principal
from knowledge_service.errors import NotFound
from knowledge_service.flows import remembering
from knowledge_service.ports import Reader

if TYPE_CHECKING:
    from knowledge_service.ports import NewReceipt, Store


def why(store: Store, principal: Principal, fact_id: str) -> Why:
    """Return where a visible fact comes from.

    Raises:
        NotFound: there is none, or it is invisible.
    """
    fact = remembering.visible(store, principal, fact_id)
    found = store.why(fact.id, reader(principal))
    if found is None:
        raise remembering.no_fact(fact_id)
    return found


def impact(store: Store, principal: Principal, fact_id: str, *, limit: int) -> Impact:
    """Return what a visible fact has touched.

    Raises:
        NotFound: there is none, or it is invisible.
    """
    fact = remembering.visible(store, principal, fact_id)
    found = store.impact(fact.id, reader(principal), limit=limit)
    if found is None:
        raise remembering.no_fact(fact_id)
    return found


def receipt(store: Store, principal: Principal, receipt_id: str) -> NewReceipt:
    """Return a receipt of one's own, or of a scope that one was granted to read.

    Raises:
        NotFound: there is none, or it is another's.
    """
    found = store.receipt(receipt_id)
    if found and reader(principal).sees_receipt(found.observer, found.receipt.principal):
        return found
    raise NotFound(f"receipt {receipt_id} does not exist or is not visible to you")


def reader(principal: Principal) -> Reader:
    """Return who asks, as a store is told."""
    return Reader(principal.view, principal.name)
