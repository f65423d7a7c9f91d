"""Erases a fact and its promoted copies; the log keeps only the fact of the erasure."""

from __future__ import annotations

from knowledge_client.models import ErasureResult
from knowledge_service.event_log import times
from knowledge_service.fact_operations.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext

_MADE_FROM = ("derived_from", "supersedes", "promoted_from")


def erase_fact(uow: FactUnitOfWork, fact_id: str, order: ActionContext) -> ErasureResult:
    """Erase a fact in any lifecycle state, with its copies on every level.

    Raises:
        NotFound: no such fact.
    """
    uow.begin()
    require_fact(uow, fact_id)
    promoted = find_copies(uow, fact_id)
    erased_ids = (fact_id, *promoted)
    derived = _find_derived(uow, erased_ids)
    links, events = uow.erase(erased_ids, actor=order.actor, reason=order.reason)
    erased_at = times.from_us(uow.at_us)
    return ErasureResult(
        facts=erased_ids,
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


def find_copies(uow: FactUnitOfWork, fact_id: str) -> tuple[str, ...]:
    """Return the promoted copies of a fact on every level, including undone promotions.

    An equal fact that existed above independently is not a copy; it is reported as derived.
    """
    copy_ids: list[str] = []
    for copy_id in uow.copies(fact_id):
        copy_ids += [copy_id, *find_copies(uow, copy_id)]
    return tuple(dict.fromkeys(copy_ids))


def _find_derived(uow: FactUnitOfWork, erased_ids: tuple[str, ...]) -> tuple[str, ...]:
    derived_ids = [
        link.from_id
        for fact_id in erased_ids
        for link in uow.links(fact_id)
        if link.type in _MADE_FROM and link.to_id == fact_id and link.from_id not in erased_ids
    ]
    return tuple(dict.fromkeys(derived_ids))
