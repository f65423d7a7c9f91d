"""What a receipt says later: a recall computed again, and what differs from then."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    CorrectIn,
    LinkIn,
    ReasonIn,
    RecallIn,
)
from knowledge_service.ports import IdempotencyKey, Store
from knowledge_service.search import ranker_version
from knowledge_service.search.text import analyser
from knowledge_service.use_cases import recall
from tests.contract.service.callers import CALLERS, Connect, refused, told

CODE = errors.ErrorCode


class TestReplay:
    async def test_of_an_unchanged_store_is_equal_to_the_bit(self, connect: Connect) -> None:
        lead = connect("lead")
        for n in range(6):
            await told(lead, f"rain number {n} falls " + "down " * n)
        recalled = await lead.recall(
            RecallIn(query="rain falls down", limit=4), idempotency_key="k"
        )
        assert recalled.receipt is not None
        for replay_result in (
            await lead.replay(recalled.receipt),
            await lead.diff(recalled.receipt),
        ):
            assert replay_result.equal
            assert replay_result.facts == tuple(fact.id for fact in recalled.facts)
            assert replay_result.scores == tuple(fact.score for fact in recalled.facts)
            assert replay_result.moved == ()
            assert replay_result.reasons == ()

    async def test_diff_says_what_came_and_went_since(self, connect: Connect) -> None:
        lead = connect("lead")
        old = await told(lead, "rain falls down")
        stays = await told(lead, "snow and rain")
        completed_recalled = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert completed_recalled.receipt is not None
        await lead.correct(old, CorrectIn(reason="wrong"))
        new = await told(lead, "rain rain rain")
        diff = await lead.diff(completed_recalled.receipt)
        assert not diff.equal
        moved = {
            rank_change.fact: (rank_change.rank_then is None, rank_change.rank_now is None)
            for rank_change in diff.moved
        }
        assert moved[old] == (False, True)
        assert moved[new] == (True, False)
        assert stays in diff.facts
        assert "1 facts were recorded since" in diff.reasons

    async def test_replay_sees_what_was_known_then(self, connect: Connect) -> None:
        lead = connect("lead")
        old = await told(lead, "rain falls down")
        result = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert result.receipt is not None
        await lead.correct(old, CorrectIn(reason="wrong"))
        await told(lead, "rain rain rain")
        assert (await lead.replay(result.receipt)).facts == (old,)

    async def test_of_what_was_closed_is_asked_for_by_name_and_replayed(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        lead = connect("lead")
        old = await told(lead, "the ferry leaves at six")
        correction = await lead.correct(
            old, CorrectIn(reason="wrong", replacement="the ferry is away")
        )
        matching_recalled = await lead.recall(RecallIn(query="ferry"))
        assert [fact.id for fact in matching_recalled.facts] == [correction.replacement_id]
        both_recalled = await lead.recall(
            RecallIn(query="ferry", include_closed=True), idempotency_key="k"
        )
        assert {fact.id: fact.lifecycle for fact in both_recalled.facts} == {
            old: "superseded", correction.replacement_id: "live",
        }  # fmt: skip
        assert both_recalled.receipt is not None
        assert (await lead.replay(both_recalled.receipt)).equal
        # As clients of the reference say it.
        body = {"query": "ferry", "include_invalidated": True}
        answer = await http.post("/recall", json=body, headers={"Authorization": "Bearer lead"})
        assert {fact["id"] for fact in answer.json()} == {old, correction.replacement_id}

    async def test_replay_computes_and_does_not_repeat_what_it_said(self, connect: Connect) -> None:
        lead = connect("lead")
        deleted_name, stays = await told(lead, "rain rain"), await told(lead, "rain and snow")
        recalled = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert recalled.receipt is not None
        await connect("operator").erase(deleted_name, ReasonIn(reason="asked to"))
        result = await lead.replay(recalled.receipt)
        assert (result.equal, result.facts) == (False, (stays,))
        assert deleted_name in {item.fact for item in result.moved}
        assert "1 of its facts were erased, or are not visible to you" in result.reasons

    async def test_replay_by_other_versions_says_so_even_when_nothing_moved(
        self, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lead = connect("lead")
        await told(lead, "rain falls down")
        done = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert done.receipt is not None
        initial_items = (ranker_version.RANKER, analyser.VERSION)
        monkeypatch.setattr(ranker_version, "RANKER", "next-1")
        monkeypatch.setattr(analyser, "VERSION", "en-99")
        replayed = await lead.replay(done.receipt)
        assert replayed.equal
        assert replayed.reasons == (
            f"the ranker was {initial_items[0]} and is now next-1",
            f"the analyser was {initial_items[1]} and is now en-99",
        )

    async def test_replay_that_links_have_moved_says_that_these_are_of_today(
        self, connect: Connect
    ) -> None:
        lead = connect("lead")
        rain, gutter = await told(lead, "rain falls down"), await told(lead, "the gutter leaks")
        await lead.link(LinkIn(from_=rain, to=gutter))
        done = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert done.receipt is not None
        await lead.unlink(rain, gutter, "related")
        again = await lead.replay(done.receipt)
        assert (again.equal, again.facts) == (False, (rain,))
        assert again.reasons == ("uses, links and the index's statistics are those of today",)

    async def test_receipt_of_a_recall_with_long_filters_is_replayed_and_explained(
        self, connect: Connect, http: httpx.AsyncClient, store: Store
    ) -> None:
        """Earlier versions accepted kinds and tags of any length."""
        lead = connect("lead")
        rain = await told(lead, "rain falls down")
        kind, tag = "k" * 10_000, "t" * 10_000
        query = RecallIn.model_construct(query="rain", kinds=(kind, "fact"), tags=(tag,))
        key = IdempotencyKey("lead", "key", "body")
        now = (await lead.get_fact(rain)).recorded_at
        done = recall.recall(store, CALLERS["lead"], query, now=now, idempotency_key=key)
        assert done.receipt is not None
        assert (await lead.replay(done.receipt)).equal
        receipt = await lead.get_receipt(done.receipt)
        assert receipt.asked is not None
        assert (receipt.asked.kinds, receipt.asked.tags) == ((kind, "fact"), (tag,))
        answer = await http.get(
            f"/v1/receipts/{done.receipt}:explain",
            params={"fact": rain},
            headers={"Authorization": "Bearer lead"},
        )
        assert answer.json()["why"] == f"it does not have all of the tags {tag}"

    async def test_replay_leaves_no_trace(self, connect: Connect) -> None:
        lead = connect("lead")
        fact = await told(lead, "rain")
        done = await lead.recall(RecallIn(query="rain"), idempotency_key="k")
        assert done.receipt is not None
        initial_impact = await lead.impact(fact)
        await lead.replay(done.receipt)
        await lead.diff(done.receipt)
        assert await lead.impact(fact) == initial_impact

    async def test_is_for_who_may_read_the_receipt_and_shows_only_its_own_scopes(
        self, connect: Connect
    ) -> None:
        await told(connect("lead"), "rain")
        done = await connect("lead").recall(RecallIn(query="rain"), idempotency_key="k")
        assert done.receipt is not None
        await told(connect("peer"), "rain of the peer")
        for name in ("peer", "stranger"):
            await refused(connect(name).replay(done.receipt), CODE.NOT_FOUND)
            await refused(connect(name).diff(done.receipt), CODE.NOT_FOUND)
        assert (await connect("ada").diff(done.receipt)).equal

    async def test_secret_in_a_question_is_kept_nowhere_and_asked_masked(
        self, connect: Connect, store: Store
    ) -> None:
        lead = connect("lead")
        secret = "ghp_" + "a" * 36
        await told(lead, "rain")
        done = await lead.recall(RecallIn(query=f"rain {secret}"), idempotency_key="k")
        assert done.receipt is not None
        receipt = await lead.get_receipt(done.receipt)
        assert secret not in receipt.model_dump_json()
        assert (await lead.replay(done.receipt)).equal
