"""Port for reported usage: what callers did with facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge_client.models import UsageKind
from knowledge_service.ports.queries import IdempotencyKey


@dataclass(frozen=True)
class FactUsage:
    """A number of uses of one fact."""

    fact_id: str
    kind: UsageKind
    count: int


@dataclass(frozen=True)
class UsageContext:
    """The context in which facts were used: a run, a session, or an unknown one."""

    run: str | None = None
    session: str | None = None


NO_CONTEXT = UsageContext()


class UsageStore(Protocol):
    """Port for usage that observers report."""

    def count_usage(
        self,
        uses: Sequence[FactUsage],
        *,
        observer: str,
        actor: str,
        context: UsageContext = NO_CONTEXT,
        idempotency_key: IdempotencyKey | None = None,
    ) -> int:
        """Count uses, all or none, and return their number.

        The log records the observer, the actor and the context.
        """
        ...
