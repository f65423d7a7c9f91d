"""Remember facts: validate them, then queue one write for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from knowledge_client.models import FactIn, Remembered
from knowledge_service.domain.fact_text import FactText
from knowledge_service.domain.principals import Principal
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import AnalysedBatch
from knowledge_service.use_cases import authorization, fact_validation, idempotency
from knowledge_service.use_cases.offload import Offload

if TYPE_CHECKING:
    from knowledge_service.ports import IdempotencyKey, Store

# Detecting secrets and injections in a fact of this size is faster than starting a thread.
_INLINE_BYTES = 1024


async def remember_one(offload: Offload, body: FactIn, key: str | None) -> Remembered:
    """Store a single fact of a request, or confirm an equal one.

    `key` is the idempotency key of the request.

    Raises:
        The errors of `submit`.
    """

    def start() -> Awaitable[tuple[Remembered, ...]]:
        repeat = idempotency.bind_key(key, principal, "facts", body)
        return submit(services.store, principal, [body], repeat)

    services, principal = offload.services, offload.principal
    # Looking up a run or another fact reads the database, and detecting secrets takes time for
    # each word; the event loop must wait for neither.
    is_quick = len(offload.body) <= _INLINE_BYTES and not (body.run or body.about)
    (stored,) = await (start() if is_quick else await offload.run(start))
    return stored


def submit(
    store: Store,
    principal: Principal,
    bodies: Sequence[FactIn],
    idempotency_key: IdempotencyKey | None,
    *,
    analyse: Callable[[Sequence[FactText]], AnalysedBatch] = batch_analysis.analyse_batch,
) -> Awaitable[tuple[Remembered, ...]]:
    """Validate facts and queue their write, all or none; await the results.

    The call takes processor time and may read the database, so it may run in any thread. Waiting
    for the commit takes no thread.

    Raises:
        The errors of `fact_validation.prepare_facts`; awaiting, those of `FactStore.remember`.
    """
    facts = fact_validation.prepare_facts(store, principal, bodies, analyse)
    return store.remembered(
        facts, actor=authorization.actor_of(principal), idempotency_key=idempotency_key
    )


def dry_run(store: Store, principal: Principal, bodies: Sequence[FactIn]) -> tuple[Remembered, ...]:
    """Return what `submit` would do, and store nothing; a fact that would be new has no id.

    Raises:
        The errors of `fact_validation.prepare_facts`.
        PreviouslyRetracted: an equal fact was retracted there.
    """
    facts = fact_validation.prepare_facts(store, principal, bodies)
    results = store.rehearse(facts, actor=authorization.actor_of(principal))
    new = {result.fact_id for result in results if result.status == "created"}
    return tuple(
        result.model_copy(
            update={
                "fact_id": "" if result.fact_id in new else result.fact_id,
                "superseded": tuple(fact for fact in result.superseded if fact not in new),
                "contradicts": tuple(fact for fact in result.contradicts if fact not in new),
            }
        )
        for result in results
    )
