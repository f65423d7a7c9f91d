"""What the tests of facts' lives do with a store: tell, read, list, and show to a mission."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from knowledge_client.models import (
    Fact,
    Recalled,
    Receipt,
)
from knowledge_service.ports import ActionContext, Listing, NewReceipt, Store
from tests.knowledge_builders import ALL, LEAD, OPERATOR, PERSON, TEAM, new_fact, run_in

WHY = ActionContext(PERSON, "because")


def told(store: Store, content: str = "the build needs Java 21", **fields: Any) -> str:
    actor = fields.pop("actor", PERSON)
    (remembered,) = store.remember([new_fact(content, **fields)], actor=actor)
    return remembered.fact_id


def known(store: Store, fact_id: str, at: datetime | None = None) -> Fact:
    fact = store.fact(fact_id, ALL, at)
    assert fact is not None
    return fact


def live(store: Store, scope: str = TEAM) -> list[str]:
    listing = Listing(ALL, 100, scopes=(scope,), lifecycle="live")
    return sorted(fact.content for fact in store.list_facts(listing))


def shown(store: Store, *fact_ids: str, run: str, outcome: str | None = "Succeeded") -> None:
    """Put facts in front of a mission of its own, and close its run."""
    store.put_run(run, run_in(mission=run), actor=OPERATOR)
    receipt = Receipt(
        id=f"receipt-{run}", query_hash="", principal="demo/lead-0", scopes=(TEAM,),
        known_at=datetime(2026, 1, 1, tzinfo=UTC), ranker="", analyser="", run=run,
        facts=fact_ids, scores=tuple(1.0 for _ in fact_ids),
    )  # fmt: skip
    answer = Recalled(receipt=receipt.id, facts=(), scopes=(), known_at=receipt.known_at, ranker="")
    store.record_recall(NewReceipt(receipt, LEAD), answer, None)
    if outcome:
        store.put_run(run, run_in(mission=run, outcome=outcome), actor=OPERATOR)
