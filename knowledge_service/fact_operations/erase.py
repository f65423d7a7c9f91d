"""Erasure: a fact and its promoted copies leave nothing but the fact that they were erased."""

from __future__ import annotations

from knowledge_client.models import ErasureResult
from knowledge_service.event_log import times
from knowledge_service.fact_operations.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import Order

_MADE_FROM = ("derived_from", "supersedes", "promoted_from")


def erase(uow: FactUnitOfWork, fact_id: str, order: Order) -> ErasureResult:
    """Erase a fact, whatever its lifecycle, with its copies of every level.

    Raises:
        NotFound: no such fact.
    """
    uow.begin()
    require_fact(uow, fact_id)
    promoted = copies(uow, fact_id)
    gone = (fact_id, *promoted)
    derived = _derived(uow, gone)
    links, events = uow.erase(gone, actor=order.actor, reason=order.reason)
    erased_at = times.from_us(uow.at_us)
    return ErasureResult(
        facts=gone,
        copies=promoted,
        derived=derived,
        links=links,
        events=events,
        erased_at=erased_at,
        backups=(
            f"copies and replicas of the database made before {erased_at.isoformat()} still hold"
            " the text; let them expire, or erase again after restoring one"
        ),
    )


def copies(uow: FactUnitOfWork, fact_id: str) -> tuple[str, ...]:
    """Return the promoted copies of a fact, of every level, those taken back included.

    An equal fact that existed above independently is no copy: it is named as derived.
    """
    found: list[str] = []
    for copy_id in uow.copies(fact_id):
        found += [copy_id, *copies(uow, copy_id)]
    return tuple(dict.fromkeys(found))


def _derived(uow: FactUnitOfWork, gone: tuple[str, ...]) -> tuple[str, ...]:
    found = [
        link.from_id
        for fact_id in gone
        for link in uow.links(fact_id)
        if link.type in _MADE_FROM and link.to_id == fact_id and link.from_id not in gone
    ]
    return tuple(dict.fromkeys(found))
