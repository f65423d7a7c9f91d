"""Where a fact came from, what became of it, and who says that it was of use."""

from __future__ import annotations

import httpx

from knowledge_client import errors
from knowledge_client.models import (
    CorrectIn,
    FactIn,
    FactUse,
    LinkIn,
    RecallIn,
    UsageIn,
)
from tests.contract.service.callers import Connect, refused, told
from tests.knowledge_builders import TEAM, run_in

CODE = errors.ErrorCode


class TestProvenance:
    async def test_why_tells_source_run_receipts_chain_and_corrections(
        self, connect: Connect
    ) -> None:
        operator, ada, lead = connect("operator"), connect("ada"), connect("lead")
        await operator.put_run("r", run_in(mission="m-1"))
        served = await told(ada, "volumes need a class", TEAM)
        recalled = await lead.recall(RecallIn(query="volumes", run="r"))
        remembered = await lead.remember(FactIn(content="the class is fast", run="r"))
        await lead.link(LinkIn(from_=remembered.fact_id, to=served, type="derived_from"))
        fact_provenance = await lead.why(remembered.fact_id)
        assert fact_provenance.fact.source.actor == "demo/lead-0"
        assert fact_provenance.run is not None
        assert fact_provenance.run.run_id == "r"
        assert [receipt.id for receipt in fact_provenance.receipts] == [recalled.receipt]
        assert [(link.type, link.to) for link in fact_provenance.derivation] == [
            ("derived_from", served)
        ]
        assert [fact.id for fact in fact_provenance.origins] == [served]
        completed_correction = await lead.correct(
            remembered.fact_id, CorrectIn(reason="measured", replacement="slow")
        )
        (correction,) = (await lead.why(remembered.fact_id)).corrections
        assert (correction.lifecycle, correction.reason) == ("superseded", "measured")
        assert correction.replaced_by == (completed_correction.replacement_id,)
        assert completed_correction.replacement_id is not None
        chain_ = (await lead.why(completed_correction.replacement_id)).derivation
        assert [link.type for link in chain_] == ["supersedes", "derived_from"]

    async def test_impact_lists_recalls_runs_derived_facts_and_uses(self, connect: Connect) -> None:
        operator, ada, lead = connect("operator"), connect("ada"), connect("lead")
        await operator.put_run("r", run_in())
        fact = await told(ada, "volumes need a class", TEAM)
        plain = await lead.recall(RecallIn(query="volumes"), idempotency_key="plain")
        bound = await lead.recall(RecallIn(query="volumes", run="r"))
        derived = await told(lead, "classes are made by people")
        await lead.link(LinkIn(from_=derived, to=fact, type="derived_from"))
        await lead.count_usage(UsageIn(uses=(FactUse(fact=fact, kind="applied", count=3),)))
        await operator.put_run("r", run_in(outcome="Succeeded"))
        impact = await ada.impact(fact)
        assert {recall_exposure.receipt for recall_exposure in impact.recalls} == {
            plain.receipt,
            bound.receipt,
        }
        assert {recall_exposure.principal for recall_exposure in impact.recalls} == {"demo/lead-0"}
        assert impact.runs == ("r",)
        assert impact.derived == (derived,)
        counts = {kind: use.count for kind, use in impact.usage.items()}
        assert counts == {"recalled": 1, "injected": 1, "applied": 3, "succeeded": 1}
        assert (await ada.impact(fact, limit=1)).truncated

    async def test_what_others_did_is_left_out_of_why_and_impact(self, connect: Connect) -> None:
        ada, peer, lead = connect("ada"), connect("peer"), connect("lead")
        fact = await told(ada, "volumes need a class", TEAM)
        initial_impact = await lead.impact(fact)
        await peer.recall(RecallIn(query="volumes"), idempotency_key="k")
        derived = await told(peer, "from it")
        await peer.link(LinkIn(from_=derived, to=fact, type="derived_from"))
        await peer.count_usage(UsageIn(uses=(FactUse(fact=fact, kind="prevented"),)))
        assert await lead.impact(fact) == initial_impact
        assert initial_impact.usage == {}
        assert (await peer.impact(fact)).usage["prevented"].count == 1
        assert len((await ada.impact(fact)).recalls) == 1
        hidden = await told(peer, "a secret reason")
        await connect("operator").link(LinkIn(from_=fact, to=hidden, type="derived_from"))
        assert (await lead.why(fact)).derivation == ()
        assert len((await ada.why(fact)).origins) == 1

    async def test_why_and_impact_of_what_is_invisible_are_the_404_of_what_is_missing(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        hidden = await told(connect("stranger"), "secret")
        missing = "0" * 8 + hidden[8:]
        for view in ("why", "impact", "links", "neighbors"):
            answers = [
                await http.get(f"/v1/facts/{item}/{view}", headers={"Authorization": "Bearer lead"})
                for item in (hidden, missing)
            ]
            assert [item.status_code for item in answers] == [404, 404]
            assert answers[0].text.replace(hidden, missing) == answers[1].text


class TestUsage:
    async def test_agent_says_what_it_did_and_not_how_runs_ended(self, connect: Connect) -> None:
        fact = await told(connect("ada"), "x", TEAM)
        lead = connect("lead")
        for kind in ("consulted", "applied", "prevented"):
            uses = UsageIn(uses=(FactUse(fact=fact, kind=kind),))
            assert (await lead.count_usage(uses)).counted == 1
        for kind in ("recalled", "injected", "succeeded", "failed"):
            uses = UsageIn(uses=(FactUse(fact=fact, kind=kind),))
            detail = await refused(lead.count_usage(uses), CODE.FORBIDDEN)
            assert detail.startswith(f"agents may not report '{kind}', which recalls")
            assert (await connect("ada").count_usage(uses)).counted == 1

    async def test_all_are_counted_or_none_and_a_repeat_counts_once(self, connect: Connect) -> None:
        fact = await told(connect("ada"), "x", TEAM)
        hidden = await told(connect("stranger"), "y")
        lead = connect("lead")
        usage_request = UsageIn(
            uses=(FactUse(fact=fact, kind="applied"), FactUse(fact=hidden, kind="applied"))
        )
        await refused(lead.count_usage(usage_request), CODE.NOT_FOUND)
        assert (await lead.impact(fact)).usage == {}
        own_usage_request = UsageIn(uses=(FactUse(fact=fact, kind="applied"),))
        for _ in range(2):
            await lead.count_usage(own_usage_request, idempotency_key="k")
        assert (await lead.impact(fact)).usage["applied"].count == 1
