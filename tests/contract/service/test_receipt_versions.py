"""Receipts name the versions of the facts that were returned."""

from __future__ import annotations

from knowledge_client.models import FactIn, RecallIn, Receipt
from tests.contract.service.callers import Connect, told


async def test_receipt_names_the_version_of_each_fact_in_their_order(connect: Connect) -> None:
    lead = connect("lead")
    changed = await told(lead, "rain falls down")
    await told(lead, "rain and snow")
    await lead.remember(FactIn(content="rain falls down", tags=("weather",)))
    recalled = await lead.recall(RecallIn(query="rain falls"), idempotency_key="k")
    assert recalled.receipt is not None
    receipt = await lead.get_receipt(recalled.receipt)
    assert receipt.versions == tuple(fact.version for fact in recalled.facts)
    assert dict(zip(receipt.facts, receipt.versions, strict=True))[changed] == 2
    assert sorted(receipt.versions) == [1, 2]


async def test_version_that_a_receipt_names_is_the_one_in_the_history(connect: Connect) -> None:
    lead = connect("lead")
    fact = await told(lead, "rain falls down")
    recalled = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
    await lead.remember(FactIn(content="rain falls down", tags=("weather",)))
    assert recalled.receipt is not None
    (version,) = (await lead.get_receipt(recalled.receipt)).versions
    (later_fact,) = [
        item for item in (await lead.history(fact)).versions if item.version == version
    ]
    assert later_fact.tags == ()


async def test_diff_says_how_many_facts_have_changed_since(connect: Connect) -> None:
    lead = connect("lead")
    await told(lead, "rain falls down")
    await told(lead, "rain and snow")
    recalled = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
    assert recalled.receipt is not None
    assert (await lead.diff(recalled.receipt)).reasons == ()
    await lead.remember(FactIn(content="rain falls down", tags=("weather",)))
    assert "1 of its facts have changed since" in (await lead.diff(recalled.receipt)).reasons
    assert (await lead.replay(recalled.receipt)).reasons == (), "it is asked as of then"


def test_receipt_from_before_versions_were_kept_is_read() -> None:
    old = {
        "id": "r", "query_hash": "", "principal": "demo/lead-0", "scopes": [],
        "known_at": "2026-01-01T00:00:00Z", "ranker": "", "analyser": "", "facts": ["a"],
        "scores": [1.0],
    }  # fmt: skip
    assert Receipt.model_validate(old).versions == ()
