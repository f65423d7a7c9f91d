"""Erases a fact and its promoted copies; the log records only that it was erased."""

from __future__ import annotations

from knowledge_client.models import ErasureResult
from knowledge_service.domain.access_control import View, lineage
from knowledge_service.event_log import times
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext

_MADE_FROM = ("derived_from", "supersedes", "promoted_from")


def erase_fact(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> ErasureResult:
    """Erase a fact in any lifecycle state, with its copies on every level.

    The result names only what the actor may see. It is complete, because a repeated request can no
    longer read the scope of the fact.

    Raises:
        NotFound: no such fact.
    """
    uow.begin()
    scope = require_fact(uow, fact_id).scope
    promoted = find_copies(uow, fact_id)
    erased_ids = (fact_id, *promoted)
    derived = _find_derived(uow, erased_ids)
    view = context.actor.view
    # Each wider scope has at most one copy.
    widest = lineage(scope)[: len(promoted) + 1][-1]
    sees_all = view is None or view.can_read_subtree(widest)
    if view is not None and not sees_all:
        derived = tuple(derived_id for derived_id in derived if _is_visible(uow, derived_id, view))
    links, events = uow.erase(erased_ids, actor=context.actor, reason=context.reason)
    erased_at = times.from_us(uow.at_us)
    return ErasureResult(
        facts=erased_ids,
        copies=promoted,
        derived=derived,
        links=links if sees_all else None,
        events=events if sees_all else None,
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


def _is_visible(uow: FactUnitOfWork, fact_id: str, view: View) -> bool:
    fact = uow.fact(fact_id)
    return fact is not None and view.can_read_fact(fact.scope, fact.review)


def _find_derived(uow: FactUnitOfWork, erased_ids: tuple[str, ...]) -> tuple[str, ...]:
    derived_ids = [
        link.from_id
        for fact_id in erased_ids
        for link in uow.links(fact_id)
        if link.type in _MADE_FROM and link.to_id == fact_id
    ]
    versions = [version for fact_id in erased_ids for version in _find_versions(uow, fact_id)]
    fact_ids = dict.fromkeys((*derived_ids, *versions))
    return tuple(named_id for named_id in fact_ids if named_id not in erased_ids)


def _find_versions(uow: FactUnitOfWork, fact_id: str) -> list[str]:
    """Return the other versions of a revised fact; they may have the same text."""
    root, version_ids, queue = uow.root(fact_id), {fact_id}, [fact_id]
    while queue:
        for link in uow.links(queue.pop()):
            for end_id in (link.from_id, link.to_id):
                is_new = link.type == "supersedes" and end_id not in version_ids
                if is_new and uow.root(end_id) == root:
                    version_ids.add(end_id)
                    queue.append(end_id)
    return sorted(version_ids - {fact_id})
