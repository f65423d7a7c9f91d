"""The `OperationStore` port over tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from knowledge_client.models import ActResult, Revised
from knowledge_service.fact_transactions import perform, revise
from knowledge_service.ports import ActionContext, IdempotencyKey
from knowledge_service.ports.operations import StoreAct
from knowledge_service.store.sqlite.repositories import base
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_RESULTS: TypeAdapter[tuple[ActResult, ...]] = TypeAdapter(tuple[ActResult, ...])
_REVISED: TypeAdapter[Revised] = TypeAdapter(Revised)


class Operations(base.SqliteRepository):
    """Operations of one or several acts, each in one transaction."""

    def perform(self, acts: Sequence[StoreAct], context: ActionContext) -> tuple[ActResult, ...]:
        """Perform all acts or none."""
        return self._idempotent(
            context.idempotency_key,
            _RESULTS,
            lambda tx: perform.perform_acts(SqliteUnitOfWork(tx), acts, context),
        )

    def revise(self, fact_id: str, changes: Mapping[str, Any], context: ActionContext) -> Revised:
        """Replace a fact by a successor."""
        return self._idempotent(
            context.idempotency_key,
            _REVISED,
            lambda tx: revise.revise_fact(SqliteUnitOfWork(tx), fact_id, changes, context),
        )

    def performed(self, idempotency_key: IdempotencyKey) -> tuple[ActResult, ...] | None:
        """Read the stored answer of a key."""
        with self._readers.snapshot() as connection:
            stored = base.read_stored_response(connection, idempotency_key, self._writer.now())
        return None if stored is None else _RESULTS.validate_json(stored)
