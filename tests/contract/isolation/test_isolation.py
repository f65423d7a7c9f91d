"""What a reader gets is the same to the bit whether others are there or not.

10,000 cases by default; `KAIS_ISOLATION_CASES` sets another number, as `make soak` does.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import Fact, PromotionRecord, PromotionResult
from knowledge_service.domain.access_control import EVERYTHING, View
from knowledge_service.fact_transactions import close_with_copies, promote
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork
from knowledge_service.ports import ActionContext, Actor, Listing
from knowledge_service.search.ranking import bm25
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.repositories import (
    base,
    event_stream,
    fact_history,
    provenance,
    recall_search,
    run_credit,
    runs,
    usage,
)
from knowledge_service.store.sqlite.repositories.recall_snapshot import ReaderScopes, SqliteSnapshot
from tests import settings
from tests.contract.isolation import stateful_machine, worlds

CASES = settings.isolation_cases()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder in memory where there is one: nothing here is about disks."""
    memory = Path("/dev/shm")  # noqa: S108 - made by tempfile
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as created:
        yield Path(created)


def test_no_tenant_can_tell_whether_the_others_are_there(folder: Path) -> None:
    # More cases in a world are cheaper, more worlds are more varied.
    a_world = 500 if CASES <= 20_000 else 2_000
    part = settings.soak_part()
    assert stateful_machine.differences_on_every_core(folder, CASES, a_world, part=part) == 0


def test_worlds_have_what_a_leak_would_need(folder: Path) -> None:
    world = worlds.world(2)
    assert {fact.author for fact in world.facts} == {None, *world.homes}
    for tenant in range(worlds.TENANTS):
        own_facts = [fact for fact in world.facts if fact.owner == tenant]
        assert len(own_facts) == worlds.FACTS
        texts = set(" ".join(fact.content for fact in own_facts).split())
        assert len(texts & set(world.facts[0].content.split())) > 1
        assert any(use.by == tenant for use in world.uses)
        assert len(world.alone(tenant).facts) == worlds.FACTS + worlds.SHARED
        verbs = {act.verb for act in world.acts if act.by == tenant}
        assert verbs == {"promote", "correct", "retract", "restore", "confirm", "reject",
                         "approve", "erase", "undo", "run", "rule", "revise"}  # fmt: skip
    stored = worlds.Stored(worlds.open_store(folder / "k.db")).tell(world)
    recall_request = worlds.question(random.Random(1))  # noqa: S311
    assert worlds.recalled(stored, world.homes[0], recall_request)
    facts = stored.store.list_facts(Listing(View(world.homes[0]), 500, source="promoted"))
    by_rule = [fact for fact in facts if fact.source.actor == promote.ACTOR.name]
    endings = sorted((fact.lifecycle, bool(fact.flags)) for fact in by_rule)
    endings_of_a_tenant = [("live", False), ("live", True), ("retracted", False)]
    assert endings == sorted(endings_of_a_tenant * worlds.TENANTS)
    flagged = [fact for fact in facts if fact.flags]
    assert {fact in by_rule for fact in flagged} == {True, False}
    assert len(flagged) == 2 * worlds.TENANTS
    stored.store.close()


class GlobalStatistics(SqliteSnapshot):
    """Scores with the statistics of the whole table, as a shared full-text index would."""

    def scores(
        self, terms: Mapping[str, float], related: bm25.Related | None = None
    ) -> bm25.Scores:
        everything = base.visible_scopes(self._connection, EVERYTHING, None)
        return posting_table.search(self._connection, everything, terms, related=related)

    def candidates(self, numbers: Sequence[int]) -> list[Candidate]:
        return [row for row in super().candidates(numbers) if row.scope_no in self.paths]


class SharedUsage(SqliteSnapshot):
    """Ranks by everybody's uses."""

    def __init__(self, connection: apsw.Connection, *values: Any) -> None:
        paths, reading, known_at = values
        everybody = base.visible_scopes(connection, EVERYTHING, None)
        read_all = ReaderScopes(everybody, base.ScopeFilter(None), reading.scope_filter)
        super().__init__(connection, paths, read_all, known_at)


def _global_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_search, "SqliteSnapshot", GlobalStatistics)


def _shared_usage_in_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_search, "SqliteSnapshot", SharedUsage)


def _shared_usage_in_impact(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = usage.usage_of_fact
    monkeypatch.setattr(
        usage,
        "usage_of_fact",
        lambda db, number, *_: honest(db, number, EVERYTHING, base.ScopeFilter(None)),
    )


def _links_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "can_read", lambda _self, _path: True)
    monkeypatch.setattr(base, "scope_filter", lambda *_: base.ScopeFilter(None))


def _promotions_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = provenance._promoted

    def mutant(connection: apsw.Connection, number: int, _: object) -> Iterator[PromotionRecord]:
        return honest(connection, number, provenance._Scopes(connection, EVERYTHING))

    monkeypatch.setattr(provenance, "_promoted", mutant)


def _history_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fact_history.history
    monkeypatch.setattr(
        fact_history, "history", lambda db, fact_id, _: honest(db, fact_id, EVERYTHING)
    )


def _events_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = event_stream.ChangeLog.changes
    monkeypatch.setattr(
        event_stream.ChangeLog,
        "changes",
        lambda store, after, _, *, limit: honest(store, after, EVERYTHING, limit=limit),
    )


def _runs_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = runs.Runs.list_runs
    monkeypatch.setattr(
        runs.Runs,
        "list_runs",
        lambda store, listing: honest(store, dataclasses.replace(listing, view=EVERYTHING)),
    )


def _credit_by_run_id_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "SELECT observer_no, body FROM receipt WHERE ?1 = ?1 AND run_id = ?2 ORDER BY id"
    monkeypatch.setattr(run_credit, "_OF_RUN", message)


def _origins_in_the_reason_of_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = close_with_copies.flag_copy

    def mutant(uow: FactUnitOfWork, copy: Fact, context: ActionContext) -> tuple[str, ...]:
        reason = f"{context.reason}, of {len(uow.promotions(copy.id))}"
        return honest(uow, copy, dataclasses.replace(context, reason=reason))

    monkeypatch.setattr(close_with_copies, honest.__name__, mutant)


def _missions_in_a_copy_by_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = promote._make_copy

    def mutant(
        uow: FactUnitOfWork, fact: Fact, target: str, context: ActionContext, **fields: Any
    ) -> PromotionResult:
        if fields["rule"] == "automatic":
            context = ActionContext(
                Actor(f"kais-promotion, {context.reason}", "system"), context.reason
            )
        return honest(uow, fact, target, context, **fields)

    monkeypatch.setattr(promote, honest.__name__, mutant)


MUTANTS = {
    "statistics of the whole table": _global_statistics,
    "usage of everybody in the ranking": _shared_usage_in_ranking,
    "usage of everybody in what a fact touched": _shared_usage_in_impact,
    "links of everybody": _links_of_everybody,
    "promotions of everybody": _promotions_of_everybody,
    "history of everybody": _history_of_everybody,
    "events of everybody": _events_of_everybody,
    "runs of everybody": _runs_of_everybody,
    "credit of a run id in every realm": _credit_by_run_id_alone,
    "origins in the reason of a flag": _origins_in_the_reason_of_a_flag,
    "missions in a copy by rule": _missions_in_a_copy_by_rule,
}


@pytest.mark.parametrize("mutate", MUTANTS.values(), ids=MUTANTS)
def test_mutant_fails_the_suite(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutate(monkeypatch)
    # The tenants of world 0 share the platform only, to which no rule promotes.
    assert any(stateful_machine.in_one_world(folder, seed, 100) for seed in (0, 1))
