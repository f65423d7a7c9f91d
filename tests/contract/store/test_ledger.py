from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from knowledge_client.models import (
    BlueprintName,
    Grant,
    Injection,
    PrincipalIn,
    Ref,
    RunOutcome,
    ScopeConfig,
    Source,
    Subject,
)
from knowledge_service.domain.access_control import View
from knowledge_service.errors import (
    Conflict,
    Forbidden,
    NotFound,
    QuotaExceeded,
    RunOutcomeConflict,
)
from knowledge_service.ports import IdempotencyKey, Listing, RunListing, Store
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.conftest import Time
from tests.earlier_schemas import drop_runs_of_agents
from tests.knowledge_builders import (
    AGENT,
    ALL,
    LEAD,
    OPERATOR,
    OTHER,
    PERSON,
    TEAM,
    episode,
    new_fact,
    run_in,
    run_key,
)

REVIEW = BlueprintName(namespace="demo", name="review")


class TestRuns:
    def test_opening_twice_merges(self, store: Store, time: Time) -> None:
        store.put_run("r", run_in(revision=1, counters={"messages": 1}), actor=OPERATOR)
        time.pass_(minutes=1)
        merged = store.put_run("r", run_in(agent="x", counters={"tools": 2}), actor=OPERATOR)
        assert (merged.revision, merged.agent) == (1, "x")
        assert merged.counters == {"messages": 1, "tools": 2}
        assert merged.opened_at == time.now - timedelta(minutes=1)

    def test_run_whose_opening_was_lost_is_whole_after_closing(self, store: Store) -> None:
        closed = store.put_run(
            "r", run_in(revision=3, mission="m", outcome="Failed", cost=0.5), actor=OPERATOR
        )
        assert (closed.revision, closed.outcome, closed.closed_at) == (
            3,
            "Failed",
            closed.opened_at,
        )
        late = store.put_run("r", run_in(revision=4, agent="x"), actor=OPERATOR)
        assert (late.revision, late.agent, late.outcome) == (3, "x", "Failed")

    def test_another_outcome_at_closing_is_refused_with_the_recorded_one(
        self, store: Store
    ) -> None:
        store.put_run("r", run_in(outcome="Succeeded"), actor=OPERATOR)
        store.put_run("r", run_in(outcome="Succeeded"), actor=OPERATOR)
        with pytest.raises(RunOutcomeConflict, match="closed with outcome Succeeded"):
            store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)

    def test_run_of_another_scope_is_another_run(self, store: Store) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        with pytest.raises(Conflict, match=f"its scope is {TEAM}"):
            store.put_run("r", run_in(scope="realm:demo"), actor=OPERATOR)

    def test_runs_are_listed_newest_first_in_pages(self, store: Store, time: Time) -> None:
        for name in ("a", "b", "c"):
            store.put_run(name, run_in(), actor=OPERATOR)
            time.pass_(minutes=1)
        store.put_run("d", run_in(namespace="other", scope=OTHER), actor=OPERATOR)

        def names(view: View, **fields: object) -> list[str]:
            listing = RunListing(view, 10, **fields)  # type: ignore[arg-type]
            return [run.run_id for run in store.list_runs(listing)]

        assert names(View(LEAD)) == ["c", "b", "a"]
        assert names(ALL, namespace="other") == ["d"]
        assert names(ALL, blueprint="review", before_run=run_key("c")) == ["b", "a"]
        assert store.run(run_key("d"), View(LEAD)) is None


class TestEpisodes:
    def test_are_numbered_in_order_and_equal_ones_are_kept_once(self, store: Store) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        first = store.add_episodes(
            run_key("r"), [episode("a"), episode("b"), episode("a")], actor=AGENT
        )
        assert (first.accepted, first.duplicates) == (2, 1)
        second = store.add_episodes(
            run_key("r"), [episode("b"), episode("b", attempt=2), episode("c")], actor=AGENT
        )
        assert (second.accepted, second.duplicates) == (2, 1)
        episodes_read = store.episodes(run_key("r"))
        assert [(e.seq, e.attempt, e.content) for e in episodes_read] == [
            (1, 1, "a"),
            (2, 1, "b"),
            (3, 2, "b"),
            (4, 1, "c"),
        ]
        assert {e.actor for e in episodes_read} == {AGENT.name}
        assert [e.seq for e in store.episodes(run_key("r"), after_sequence=1, limit=2)] == [2, 3]

    def test_secrets_are_masked(self, store: Store) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        store.add_episodes(
            run_key("r"), [episode("used password=hunter2hunter2 to log in")], actor=AGENT
        )
        assert store.episodes(run_key("r"))[0].content == "used password=[masked] to log in"

    def test_of_a_run_that_nobody_opened_are_refused(self, store: Store) -> None:
        with pytest.raises(NotFound, match="run r does not exist"):
            store.add_episodes(run_key("r"), [episode()], actor=AGENT)

    def test_record_is_bounded(self, store: Store) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        lines = [episode(f"line {n}") for n in range(5000)]
        store.add_episodes(run_key("r"), lines, actor=AGENT)
        with pytest.raises(QuotaExceeded, match="run r may have 5000 episodes; it has 5000"):
            store.add_episodes(run_key("r"), [episode("one more")], actor=AGENT)
        assert store.add_episodes(run_key("r"), lines[:1], actor=AGENT).duplicates == 1

    def test_full_record_takes_the_episodes_of_the_operator_and_is_read_with_them(
        self, store: Store
    ) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        lines = [episode(f"line {n}") for n in range(5000)]
        store.add_episodes(run_key("r"), lines, actor=AGENT)
        end = episode("attempt 1: failed", type="error")
        assert store.add_episodes(run_key("r"), [end], actor=OPERATOR).accepted == 1
        last = store.episodes(run_key("r"))[-1]
        assert (last.seq, last.content) == (5001, "attempt 1: failed")
        for actor in (AGENT, PERSON):
            with pytest.raises(QuotaExceeded, match="run r may have 5000 episodes; it has 5001"):
                store.add_episodes(run_key("r"), [episode("one more")], actor=actor)
            assert store.add_episodes(run_key("r"), lines[:1], actor=actor).duplicates == 1


class TestStatistics:
    def test_unknown_blueprint_counts_zero(self, store: Store) -> None:
        (stats,) = store.blueprint_stats([REVIEW], ALL)
        assert (stats.uses, stats.success_rate, stats.interval) == (0, None, None)

    def test_counts_by_outcome_and_revision(self, store: Store, time: Time) -> None:
        start = time.now
        outcomes = ["Succeeded", "Succeeded", "Failed", "TimedOut", "Cancelled", None]
        for n, outcome in enumerate(outcomes):
            ended = {"outcome": outcome, "cost": 1.0 + n, "started_at": start} if outcome else {}
            if outcome:
                ended["finished_at"] = start + timedelta(seconds=10 * (n + 1))
            store.put_run(f"r{n}", run_in(revision=1 + n % 2, **ended), actor=OPERATOR)
        (stats,) = store.blueprint_stats([REVIEW], ALL)
        assert (stats.uses, stats.running, stats.succeeded) == (6, 1, 2)
        assert (stats.failed, stats.excluded, stats.success_rate) == (2, 1, 0.5)
        assert stats.interval is not None
        assert round(stats.interval.low, 3) == 0.15
        assert (stats.median_duration_s, stats.avg_cost, stats.last_revision) == (25.0, 2.5, 2)
        assert [(r.revision, r.uses) for r in stats.revisions] == [(1, 3), (2, 3)]
        first, second = stats.revisions
        assert (first.median_duration_s, first.avg_cost) == (20.0, 2.0)
        assert (second.median_duration_s, second.avg_cost) == (30.0, 3.0)
        assert first.last_used is not None

    def test_uses_are_running_succeeded_failed_and_excluded(self, store: Store) -> None:
        outcomes = [None, *get_args(RunOutcome)]
        for n, outcome in enumerate(outcomes * 3):
            store.put_run(f"r{n}", run_in(revision=1 + n % 4, outcome=outcome), actor=OPERATOR)
        (stats,) = store.blueprint_stats([REVIEW], ALL)
        for counts in (stats, *stats.revisions):
            parts = (counts.running, counts.succeeded, counts.failed, counts.excluded)
            assert counts.uses == sum(parts)
        assert stats.uses == sum(r.uses for r in stats.revisions) == 3 * len(outcomes)

    def test_counts_by_parameter_value(self, store: Store) -> None:
        given = [
            ({"tier": "small", "n": 1}, "Succeeded"),
            ({"tier": "small", "n": 1.0}, "Failed"),
            ({"tier": "large", "n": "1"}, "Succeeded"),
            ({"tier": "small"}, "Cancelled"),
            (None, "Succeeded"),
        ]
        for n, (parameters, outcome) in enumerate(given):
            run = run_in(parameters=parameters, outcome=outcome)
            store.put_run(f"r{n}", run, actor=OPERATOR)
        n_, tier = store.parameter_stats(REVIEW, ALL)
        assert (n_.name, tier.name) == ("n", "tier")
        assert [(v.value, v.uses, v.succeeded) for v in n_.values] == [("1", 2, 1), ('"1"', 1, 1)]
        small, large = tier.values
        assert (small.value, small.uses, small.succeeded) == ('"small"', 3, 1)
        assert (small.failed, small.excluded, small.success_rate) == (1, 1, 0.5)
        assert (large.value, large.uses, large.success_rate) == ('"large"', 1, 1.0)
        assert small.interval is not None

    def test_durations_and_costs_are_told_by_parameter_value(
        self, store: Store, time: Time
    ) -> None:
        for n, seconds in enumerate((10, 30, 50)):
            took = {"started_at": time.now, "finished_at": time.now + timedelta(seconds=seconds)}
            run = run_in(parameters={"tier": "small"}, outcome="Failed", cost=1.0 + n, **took)
            store.put_run(f"r{n}", run, actor=OPERATOR)
        (tier,) = store.parameter_stats(REVIEW, ALL)
        assert (tier.values[0].median_duration_s, tier.values[0].avg_cost) == (30.0, 2.0)

    def test_rare_values_are_summed_up(self, store: Store) -> None:
        for n in range(30):
            for _ in range(2 if n < 3 else 1):
                run = run_in(parameters={"n": n}, outcome="Succeeded")
                store.put_run(f"r{n}-{_}", run, actor=OPERATOR)
        (statistics,) = store.parameter_stats(REVIEW, ALL)
        assert [v.value for v in statistics.values[:3]] == ["0", "1", "2"]
        assert len(statistics.values) == 21
        assert (statistics.values[-1].value, statistics.values[-1].uses) == (None, 10)
        assert sum(v.uses for v in statistics.values) == 33

    def test_parameter_values_out_of_sight_are_not_told(self, store: Store) -> None:
        run = run_in(scope="realm:demo/formation:secret", parameters={"tier": "small"})
        store.put_run("a", run, actor=OPERATOR)
        assert store.parameter_stats(REVIEW, View(LEAD)) == ()

    def test_runs_out_of_sight_do_not_count(self, store: Store) -> None:
        store.put_run("a", run_in(), actor=OPERATOR)
        store.put_run("b", run_in(scope="realm:demo/formation:secret"), actor=OPERATOR)
        assert store.blueprint_stats([REVIEW], View(LEAD))[0].uses == 1
        assert store.blueprint_stats([REVIEW], ALL)[0].uses == 2


class TestExtractions:
    def test_is_accepted_once_and_finished_once(self, store: Store) -> None:
        store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
        assert store.accept_extraction(run_key("r"), 5, actor=OPERATOR).state == "pending"
        assert store.begin_extraction(run_key("r")).attempts == 1
        assert store.accept_extraction(run_key("r"), 7, actor=OPERATOR).state == "running"
        assert store.extraction_limit(run_key("r")) == 5
        assert [e.run_id for _, e in store.open_extractions(10)] == ["r"]
        finished = store.finish_extraction(run_key("r"), [new_fact()], "little", actor=OPERATOR)
        repeated = store.finish_extraction(run_key("r"), [new_fact("other")], None, actor=OPERATOR)
        assert (finished.state, len(finished.facts), finished.reason) == ("done", 1, "little")
        assert repeated == finished
        assert store.open_extractions(10) == ()
        assert len(store.list_facts(Listing(ALL, 10))) == 1

    def test_fact_that_the_scope_knows_by_key_is_confirmed(self, store: Store) -> None:
        keyed = {"subject": "OOMKilled", "predicate": "recurs"}
        (known_fact,) = store.remember([new_fact("memory is short", **keyed)], actor=PERSON)
        store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
        store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
        done = store.finish_extraction(
            run_key("r"), [new_fact("too little memory", **keyed)], None, actor=OPERATOR
        )
        assert done.facts == (known_fact.fact_id,)

    def test_fact_that_was_retracted_is_left_out_and_said(self, store: Store) -> None:
        keyed = {"subject": "OOMKilled", "predicate": "recurs"}
        (known,) = store.remember([new_fact("memory is short", **keyed)], actor=PERSON)
        store.correct(known.fact_id, "no", None, actor=PERSON)
        store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
        store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
        done = store.finish_extraction(
            run_key("r"), [new_fact("short", **keyed)], "few", actor=OPERATOR
        )
        assert (done.facts, done.reason) == ((), "few; 1 left out: retracted in this scope before")

    def test_failed_attempt_is_open_until_it_is_given_up(self, store: Store) -> None:
        store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
        store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
        assert store.fail_extraction(run_key("r"), "odd", retry=True).state == "pending"
        assert store.fail_extraction(run_key("r"), "odd", retry=False).state == "failed"
        assert store.open_extractions(10) == ()

    def test_signatures_of_earlier_runs_in_the_scope_are_counted(
        self, store: Store, time: Time
    ) -> None:
        failing = [
            episode("x", type="error", error_signature="OOM"),
            episode("y", type="error", error_signature="OOM"),
        ]
        for run_id, scope in (("old", TEAM), ("elsewhere", "realm:demo")):
            store.put_run(run_id, run_in(scope=scope), actor=OPERATOR)
            store.add_episodes(run_key(run_id), failing, actor=AGENT)
        time.pass_(minutes=1)
        store.put_run("new", run_in(), actor=OPERATOR)
        store.add_episodes(run_key("new"), failing, actor=AGENT)
        assert dict(store.earlier_signatures(run_key("new"), ["OOM", "other"])) == {"OOM": 2}
        assert dict(store.earlier_signatures(run_key("old"), ["OOM"])) == {}

    def test_unknown_one_is_absent(self, store: Store) -> None:
        assert store.extraction(run_key("nobody")) is None
        with pytest.raises(NotFound, match="no extraction was requested for run nobody"):
            store.begin_extraction(run_key("nobody"))


class TestScopesAndPrincipals:
    def test_configuration_is_kept_for_exactly_that_path(self, store: Store) -> None:
        config = ScopeConfig(injection=Injection(max_facts=3))
        store.put_scope(TEAM, config, actor=OPERATOR)
        assert store.scope_configs([TEAM, LEAD]) == {TEAM: config}
        assert store.list_scopes(View(LEAD)) == ("platform", "realm:demo", TEAM, LEAD)

    def test_deleted_scope_starts_empty_and_keeps_what_lies_below(self, store: Store) -> None:
        store.put_run("r", run_in(outcome="Succeeded"), actor=OPERATOR)
        (remembered, below) = store.remember([new_fact(), new_fact(scope=LEAD)], actor=PERSON)
        store.put_scope(TEAM, ScopeConfig(read_only=True), actor=OPERATOR)
        assert store.delete_scope(TEAM, actor=OPERATOR)
        assert not store.delete_scope(TEAM, actor=OPERATOR)
        assert store.fact(remembered.fact_id, ALL) is None
        assert store.fact(below.fact_id, ALL) is not None
        assert store.scope_configs([TEAM]) == {}
        assert store.remember([new_fact()], actor=PERSON)[0].status == "created"
        assert store.blueprint_stats([REVIEW], ALL)[0].uses == 1

    def test_realm_of_a_namespace_made_again_starts_empty(self, store: Store) -> None:
        def register(uid: str) -> None:
            subject = Subject(username="system:serviceaccount:demo:lead-0", uid="u")
            store.put_principal(
                PrincipalIn(
                    name="demo/lead-0", type="agent", subject=subject, home=LEAD, realm_uid=uid
                ),
                actor=OPERATOR,
            )

        register("one")
        (stored,) = store.remember([new_fact(scope=LEAD)], actor=PERSON)
        store.put_run("r", run_in(outcome="Succeeded"), actor=OPERATOR)
        register("one")
        assert store.fact(stored.fact_id, ALL) is not None
        register("two")
        assert store.fact(stored.fact_id, ALL) is None
        assert store.run(run_key("r"), ALL) is None
        assert store.blueprint_stats([REVIEW], ALL)[0].uses == 0
        with pytest.raises(Conflict, match="belonged to namespace UID one before, now to two"):
            register("one")

    def test_principals_are_replaced_by_username(self, store: Store) -> None:
        grant = Grant(scope="realm:demo", subtree=True, verbs=("read",))
        for uid in ("a", "b"):
            store.put_principal(
                PrincipalIn(
                    name="demo/x",
                    type="agent",
                    subject=Subject(username="x", uid=uid),
                    home="realm:demo",
                    grants=(grant,),
                ),
                actor=OPERATOR,
            )
        principal = store.principal("x")
        assert principal is not None
        assert (principal.subject.uid, principal.grants) == ("b", (grant,))
        assert store.principals() == (principal,)
        assert store.delete_principal("x", actor=OPERATOR)
        assert not store.delete_principal("x", actor=OPERATOR)
        assert store.principal("x") is None

    def test_identity_stays_and_the_store_is_well(self, store: Store) -> None:
        assert store.identity() == store.identity()
        store.check()

    def test_repeated_episodes_call_gets_its_first_answer(self, store: Store) -> None:
        store.put_run("r", run_in(), actor=OPERATOR)
        first_key = IdempotencyKey("demo/lead-0", "k", "h")
        first = store.add_episodes(
            run_key("r"), [episode()], actor=AGENT, idempotency_key=first_key
        )
        assert (
            store.add_episodes(run_key("r"), [episode()], actor=AGENT, idempotency_key=first_key)
            == first
        )
        assert first.accepted == 1


def test_references_of_sources_are_kept(store: Store) -> None:
    source = Source(type="explicit_remember", refs=(Ref(type="mission", id="demo/m"),), actor="a")
    (remembered,) = store.remember([new_fact(source=source)], actor=AGENT)
    stored_fact = store.fact(remembered.fact_id, ALL)
    assert stored_fact is not None
    assert stored_fact.source == source


def test_session_of_a_cell_that_an_earlier_version_recorded_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        forged = run_in(kind="session", scope=LEAD, outcome="Failed")
        store.put_run("of-cell", forged, actor=AGENT)
        store.put_run("of-operator", run_in(kind="session"), actor=OPERATOR)
        store.put_run("mission", run_in(outcome="Succeeded"), actor=OPERATOR)
    with contextlib.closing(connection.open_writer(path)) as database:
        drop_runs_of_agents(database)
        database.execute("DELETE FROM migration WHERE number >= 27")
    with contextlib.closing(SqliteStore(path)) as store:
        for view in (ALL, View(LEAD)):
            (stats,) = store.blueprint_stats([REVIEW], view)
            assert (stats.running, stats.succeeded, stats.failed) == (1, 1, 0)
            assert len(store.run_samples(REVIEW, view)) == 2
        assert len(store.list_runs(RunListing(ALL, 10, blueprint="review"))) == 3
        with pytest.raises(Forbidden):
            store.put_run("of-operator", run_in(kind="session", outcome="Failed"), actor=AGENT)
        store.put_run("of-cell", forged.model_copy(update={"cost": 1.0}), actor=AGENT)


def test_rebuild_still_knows_the_runs_of_agents(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        store.put_run("s", run_in(kind="session", outcome="Failed"), actor=AGENT)
        store.put_run("mission", run_in(outcome="Succeeded"), actor=OPERATOR)
    assert offline_rebuild.rebuild(path).changed == ()
    with contextlib.closing(SqliteStore(path)) as store:
        (stats,) = store.blueprint_stats([REVIEW], ALL)
        assert (stats.succeeded, stats.failed) == (1, 0)
