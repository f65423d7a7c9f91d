"""Provenance, impact and receipts, as far as the caller may see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_client.models import FactProvenance, Impact, Receipt
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import NotFound
from knowledge_service.ports import AuditReader
from knowledge_service.use_cases import fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import NewReceipt, Store


def get_provenance(store: Store, principal: Principal, fact_id: str) -> FactProvenance:
    """Return the provenance of a visible fact.

    Raises:
        NotFound: the fact does not exist or is not visible.
    """
    fact = fact_queries.get_readable_fact(store, principal, fact_id)
    provenance = store.why(fact.id, reader_of(principal))
    if provenance is None:
        raise fact_queries.fact_not_found(fact_id)
    receipts = tuple(_redact_receipt(store, principal, receipt) for receipt in provenance.receipts)
    return provenance.model_copy(update={"receipts": receipts})


def get_impact(store: Store, principal: Principal, fact_id: str, *, limit: int) -> Impact:
    """Return the recalls that returned a visible fact, and the outcomes of their runs.

    Raises:
        NotFound: the fact does not exist or is not visible.
    """
    fact = fact_queries.get_readable_fact(store, principal, fact_id)
    impact_report = store.impact(fact.id, reader_of(principal), limit=limit)
    if impact_report is None:
        raise fact_queries.fact_not_found(fact_id)
    return impact_report


def get_visible_receipt(store: Store, principal: Principal, receipt_id: str) -> NewReceipt:
    """Return a receipt of the caller, or the visible part of one in a scope granted to it.

    Raises:
        NotFound: the receipt does not exist or is not visible.
    """
    stored = store.receipt(receipt_id)
    audit_reader = reader_of(principal)
    if stored is None or not audit_reader.can_read_receipt(
        stored.observer, stored.receipt.principal
    ):
        raise NotFound(f"receipt {receipt_id} does not exist or is not visible to you")
    if audit_reader.is_own_receipt(stored.observer, stored.receipt.principal):
        return stored
    return replace(stored, receipt=_redact_receipt(store, principal, stored.receipt))


def _redact_receipt(store: Store, principal: Principal, receipt: Receipt) -> Receipt:
    """Remove what lies in scopes that the caller may not read, without reporting how much it is."""
    view = principal.view
    visible_indexes = [index for index, fact in enumerate(receipt.facts) if store.fact(fact, view)]
    query = receipt.asked
    if query and query.scopes is not None:
        visible_scopes = tuple(path for path in query.scopes if view.can_read(path))
        query = query.model_copy(update={"scopes": visible_scopes})
    redacted_fields = {
        "scopes": tuple(path for path in receipt.scopes if view.can_read(path)),
        "facts": tuple(receipt.facts[index] for index in visible_indexes),
        "versions": tuple(receipt.versions[index] for index in visible_indexes if receipt.versions),
        "scores": tuple(receipt.scores[index] for index in visible_indexes),
        "asked": query,
    }
    return receipt.model_copy(update=redacted_fields)


def reader_of(principal: Principal) -> AuditReader:
    """Return the caller as the store expects it."""
    return AuditReader(principal.view, principal.name)
