"""Usage of facts that callers report, counted with their home as the observer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.models import UsageCounted, UsageIn
from knowledge_service.domain import redaction
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden
from knowledge_service.ports import FactUsage, UsageContext
from knowledge_service.use_cases import authorization, fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import IdempotencyKey, Store

# The service counts these itself, by recalls and by outcomes of runs.
_COUNTED_BY_SERVICE = frozenset({"recalled", "injected", "succeeded", "failed"})


def count_usage(
    store: Store, principal: Principal, body: UsageIn, idempotency_key: IdempotencyKey | None
) -> UsageCounted:
    """Count uses of visible facts, all or none.

    Raises:
        NotFound: a fact does not exist or is not visible.
        NotFound, Conflict: the run does not exist or is not the caller's; or several runs match.
        Forbidden: an agent reports a kind that the service counts itself.
    """
    for use in body.uses:
        if principal.type == "agent" and use.kind in _COUNTED_BY_SERVICE:
            raise Forbidden(
                f"agents may not report {use.kind!r}, which recalls and the ends of runs count; "
                f"{principal.name} may report consulted, applied or prevented"
            )
    run = authorization.authorized_run(store, body.run, principal) if body.run else None
    session = redaction.mask_known_formats(body.session) if body.session else None
    facts = {
        fact_id: fact_queries.get_visible_fact(store, principal, fact_id).id
        for fact_id in _fact_ids(body)
    }
    uses = [FactUsage(facts[use.fact], use.kind, use.count) for use in body.uses]
    counted = store.count_usage(
        uses,
        observer=principal.home,
        actor=principal.name,
        context=UsageContext(run.run_id if run else None, session),
        idempotency_key=idempotency_key,
    )
    return UsageCounted(counted=counted)


def _fact_ids(body: UsageIn) -> list[str]:
    return list(dict.fromkeys(use.fact for use in body.uses))
