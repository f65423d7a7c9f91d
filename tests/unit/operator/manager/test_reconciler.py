"""A pass: what it does, when it tells, and when it comes again."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers.base import Controller
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.manager import debounce
from kais_operator.manager import reconciler as manager_reconciler
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import ObjectRef, Plan
from knowledge_client import models
from tests.fakes import teams
from tests.fakes import world as worlds
from tests.fakes.reconcilers import reconciler_of

KEY = ObjectRef("Formation", "demo", "f")
MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "m", "namespace": "demo"},
}
SCOPE = plans.PutScope("realm:demo", models.ScopeConfig())
EVENT = plans.EmitEvent("Normal", "Begun", "it has begun")


@pytest.fixture
def fakes() -> worlds.FakeWorld:
    formation = {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "f", "namespace": "demo"},
        "spec": {},
    }
    return worlds.fake_world(formation)


def meta(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "demo", "uid": f"uid-{name}", "resourceVersion": "1"}


def says(phase: str = "Running") -> dict[str, Any]:
    return {"phase": phase}


def creates_once(fakes: worlds.FakeWorld) -> Callable[[Any], Plan]:
    """Decide to create the map, with an Event, and then to say so."""

    def decide(_: Any) -> Plan:
        is_there = ObjectRef("ConfigMap", "demo", "m") in fakes.cluster.refs()
        return Plan(() if is_there else (plans.Create(MAP), EVENT), status=says(str(is_there)))

    return decide


async def test_a_pass_with_nothing_to_do_tells_the_status_and_keeps_the_time(fakes):
    passes = reconciler_of(fakes, lambda _: Plan(status=says(), requeue_after=timedelta(seconds=7)))
    assert await passes(KEY) == 7
    assert fakes.cluster.read(KEY)["status"] == says()
    assert await passes(KEY) == 7
    assert fakes.cluster.writes == [("status", KEY)]


async def test_a_pass_that_wrote_looks_again_before_it_tells_the_status(fakes):
    assert await reconciler_of(fakes, creates_once(fakes))(KEY) is None
    assert fakes.cluster.read(KEY)["status"] == says("True")
    assert [verb for verb, _ in fakes.cluster.writes] == ["create", "status", "emit"]


def waits(reason: str = "WaitingForCells", *, status: str = "False") -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "reason": reason, "message": "m"}
    return {"conditions": [ready]}


async def test_a_parent_whose_children_say_nothing_yet_tells_so_a_moment_later(fakes, monkeypatch):
    monkeypatch.setattr(debounce, "UNREPORTED_DEBOUNCE_S", {"Formation": 1.2})
    passes = reconciler_of(fakes, lambda _: Plan(status=waits()))
    assert await passes(KEY) == pytest.approx(1.2)
    fakes.clock.advance(1.0)
    assert await passes(KEY) == pytest.approx(0.2)
    assert fakes.cluster.writes == []
    fakes.clock.advance(0.2)
    assert await passes(KEY) is None
    assert fakes.cluster.writes == [("status", KEY)]


REPORTED = {"Cell": {"podName": "a-0"}, "Formation": {"cells": [{"name": "a", "phase": "Pending"}]}}
UNREPORTED: dict[str, dict[str, Any]] = {"Cell": {}, "Formation": {"cells": [{"name": "a"}]}}


@pytest.mark.parametrize(
    ("kind", "delay_s", "longest_s"), [("Cell", 3.0, 20.0), ("Formation", 4.0, 22.0)]
)
async def test_a_first_status_waits_longer_while_no_child_has_reported(
    fakes, kind, delay_s, longest_s
):
    key = ObjectRef(kind, "demo", "a")
    status = {**waits(), **UNREPORTED[kind]}
    fakes.cluster.put({**fakes.cluster.read(KEY), "kind": kind, "metadata": meta("a")})
    passes = reconciler_of(fakes, lambda _: Plan(status=status), kind=kind)
    assert await passes(key) == pytest.approx(longest_s)
    fakes.clock.advance(delay_s)
    assert await passes(key) == pytest.approx(longest_s - delay_s)
    assert fakes.cluster.writes == []
    status |= REPORTED[kind]
    assert await passes(key) is None
    assert fakes.cluster.writes == [("status", key)]


async def test_a_first_status_is_written_in_the_end_though_no_child_has_reported(fakes):
    passes = reconciler_of(fakes, lambda _: Plan(status={**waits(), **UNREPORTED["Formation"]}))
    assert await passes(KEY) == pytest.approx(22.0)
    fakes.clock.advance(22.0)
    assert await passes(KEY) is None
    assert fakes.cluster.writes == [("status", KEY)]


@pytest.mark.parametrize("first", [waits("Ready", status="True"), waits("NameTaken")])
async def test_good_news_and_trouble_are_told_at_once(fakes, first, monkeypatch):
    monkeypatch.setattr(debounce, "UNREPORTED_DEBOUNCE_S", {"Formation": 1.2})
    assert await reconciler_of(fakes, lambda _: Plan(status=first))(KEY) is None
    assert fakes.cluster.writes == [("status", KEY)]


async def test_what_follows_the_first_words_is_told_at_once(fakes, monkeypatch):
    monkeypatch.setattr(debounce, "UNREPORTED_DEBOUNCE_S", {"Formation": 1.2})
    fakes.cluster.put({**fakes.cluster.read(KEY), "status": waits("Ready", status="True")})
    assert await reconciler_of(fakes, lambda _: Plan(status=waits()))(KEY) is None
    assert fakes.cluster.read(KEY)["status"] == waits()


class Backlog:
    """How long the oldest new object has waited, and which keys were added with a delay."""

    def __init__(self, age_s: float) -> None:
        self.age_s = age_s
        self.requeued: list[tuple[ObjectRef, float]] = []

    def of(
        self,
        fakes: worlds.FakeWorld,
        status: dict[str, Any],
        *,
        kind: str = "Formation",
        decide: Callable[[Any], Plan] | None = None,
    ) -> Any:
        return reconciler_of(
            fakes,
            decide or (lambda _: Plan(status=status)),
            kind=kind,
            backlog_age_s=lambda: self.age_s,
            requeue=lambda key, delay_s: self.requeued.append((key, delay_s)),
        )


def has_status(fakes: worlds.FakeWorld, kind: str, status: dict[str, Any]) -> ObjectRef:
    body = {**fakes.cluster.read(KEY), "kind": kind, "metadata": meta("a"), "status": status}
    fakes.cluster.put(body)
    return ObjectRef(kind, "demo", "a")


@pytest.mark.parametrize("kind", ["Cell", "Formation", "BlueprintInstance"])
async def test_progress_is_written_at_once_unless_new_objects_wait(fakes, kind):
    key = has_status(fakes, kind, waits("Reconciling"))
    assert await Backlog(0.0).of(fakes, waits(), kind=kind)(key) is None
    assert fakes.cluster.writes == [("status", key)]


@pytest.mark.parametrize("kind", ["Cell", "Formation", "BlueprintInstance"])
async def test_progress_waits_for_new_objects_but_no_longer_than_its_bound(fakes, kind):
    key = has_status(fakes, kind, waits("Reconciling"))
    passes = Backlog(5.0).of(fakes, waits(), kind=kind)
    bound_s = debounce.BACKLOG_DEBOUNCE_S
    assert await passes(key) == pytest.approx(bound_s)
    fakes.clock.advance(bound_s - 1)
    assert await passes(key) == pytest.approx(1.0)
    assert fakes.cluster.writes == []
    fakes.clock.advance(1)
    assert await passes(key) is None
    assert fakes.cluster.read(key)["status"] == waits()


async def test_a_first_status_of_a_cell_with_a_pod_waits_for_new_objects(fakes):
    key = has_status(fakes, "Cell", {})
    passes = Backlog(5.0).of(fakes, {**waits(), **REPORTED["Cell"]}, kind="Cell")
    assert await passes(key) == pytest.approx(debounce.BACKLOG_DEBOUNCE_S)
    assert fakes.cluster.writes == []


async def test_an_instance_has_its_first_status_at_once_though_new_objects_wait(fakes):
    key = has_status(fakes, "BlueprintInstance", {})
    assert await Backlog(5.0).of(fakes, waits(), kind="BlueprintInstance")(key) is None
    assert fakes.cluster.writes == [("status", key)]


@pytest.mark.parametrize(
    ("before", "status"),
    [
        (waits(), waits("Ready", status="True")),
        (waits(), waits("PodFailed")),
        (waits("Ready", status="True"), waits()),
        (waits(), {**waits(), "outcome": "Failed"}),
        ({**waits(), "outcome": "Failed"}, waits()),
    ],
)
async def test_no_news_but_progress_waits_for_new_objects(fakes, before, status):
    key = has_status(fakes, "BlueprintInstance", before)
    assert await Backlog(5.0).of(fakes, status, kind="BlueprintInstance")(key) is None
    assert fakes.cluster.read(key)["status"] == status


@pytest.mark.parametrize(
    "reason", ["UnknownParameter", "PodNotAllowed", "DriftContested", "UpdateWaiting", "Suspended"]
)
async def test_what_a_person_must_know_or_has_asked_for_waits_for_no_new_objects(fakes, reason):
    key = has_status(fakes, "BlueprintInstance", waits())
    assert await Backlog(5.0).of(fakes, waits(reason), kind="BlueprintInstance")(key) is None
    assert fakes.cluster.writes == [("status", key)]


async def test_a_failed_cell_of_a_team_waits_for_no_new_objects(fakes):
    key = has_status(fakes, "Formation", {**waits(), "phase": "Pending"})
    failed = {**waits(), "phase": "Failed"}
    assert await Backlog(5.0).of(fakes, failed)(key) is None
    assert fakes.cluster.read(key)["status"] == failed


async def test_a_status_of_another_kind_waits_for_no_new_objects(fakes):
    key = has_status(fakes, "Mission", waits("Reconciling"))
    assert await Backlog(5.0).of(fakes, waits(), kind="Mission")(key) is None
    assert fakes.cluster.writes == [("status", key)]


async def test_a_status_that_is_there_already_needs_no_further_pass(fakes):
    key = has_status(fakes, "Formation", waits())
    assert await Backlog(5.0).of(fakes, waits())(key) is None


async def test_the_end_of_a_backlog_brings_what_waited_for_it(fakes):
    key = has_status(fakes, "Formation", waits("Reconciling"))
    backlog = Backlog(5.0)
    passes = backlog.of(fakes, waits())
    await passes(key)
    assert backlog.requeued == []
    backlog.age_s = 0.0
    await passes(KEY)
    assert [requeued for requeued, _ in backlog.requeued] == [key]
    assert all(delay_s > 0 for _, delay_s in backlog.requeued)
    assert await passes(key) is None
    assert fakes.cluster.read(key)["status"] == waits()
    await passes(key)
    assert len(backlog.requeued) == 1


async def test_after_a_backlog_a_first_status_waits_for_the_children_as_usual(fakes):
    key = has_status(fakes, "Formation", {})
    backlog, status = Backlog(5.0), {**waits(), **UNREPORTED["Formation"]}
    passes = backlog.of(fakes, status)
    await passes(key)
    fakes.clock.advance(30)
    backlog.age_s = 0.0
    await passes(KEY)
    assert await passes(key) == pytest.approx(22.0)
    fakes.clock.advance(10)
    assert await passes(key) == pytest.approx(12.0)
    assert fakes.cluster.writes == []
    status |= REPORTED["Formation"]
    assert await passes(key) is None
    assert fakes.cluster.read(key)["status"] == status


async def test_a_first_status_waits_no_longer_than_the_bound_after_several_backlogs(fakes):
    key = has_status(fakes, "Formation", {})
    backlog = Backlog(5.0)
    passes = backlog.of(fakes, {**waits(), **UNREPORTED["Formation"]})
    await passes(key)
    fakes.clock.advance(debounce.BACKLOG_DEBOUNCE_S - 10)
    backlog.age_s = 0.0
    await passes(KEY)
    assert await passes(key) == pytest.approx(10.0)
    backlog.age_s = 5.0
    fakes.clock.advance(10)
    assert await passes(key) is None
    assert fakes.cluster.read(key)["status"]["conditions"]


class TeamOfOne:
    """Decides to create the topology map and the cell of a Formation, unless they are there."""

    def __init__(self, fakes: worlds.FakeWorld, status: dict[str, Any]) -> None:
        self._cluster = fakes.cluster
        self._status = status
        self.passes = 0

    def decide(self, _: Any) -> Plan:
        self.passes += 1
        child = {"apiVersion": "kais.io/v1", "kind": "Cell", "metadata": meta("f-lead-0")}
        kinds = {ref.kind for ref in self._cluster.refs()}
        missing = tuple(plans.Create(body) for body in (MAP, child) if body["kind"] not in kinds)
        return Plan(missing, status=self._status)


async def test_a_team_whose_cells_were_just_created_is_decided_again_after_the_backlog(fakes):
    backlog, team = Backlog(5.0), TeamOfOne(fakes, waits())
    passes = backlog.of(fakes, {}, decide=team.decide)
    assert await passes(KEY) == pytest.approx(debounce.BACKLOG_DEBOUNCE_S)
    assert (team.passes, [verb for verb, _ in fakes.cluster.writes]) == (1, ["create", "create"])
    backlog.age_s = 0.0
    fakes.clock.advance(debounce.BACKLOG_DEBOUNCE_S)
    assert await passes(KEY) is None
    assert fakes.cluster.read(KEY)["status"] == waits()


@pytest.mark.parametrize(
    ("age_s", "decisions"),
    [(0.0, {"Formation": 2, "Cell": 6}), (5.0, {"Formation": 1, "Cell": 4})],
    ids=["without a backlog", "in a backlog"],
)
async def test_a_new_team_of_two_services_needs_fewer_decisions_in_a_backlog(age_s, decisions):
    template = {"mode": "Service", "container": {"image": "worker:1"}}
    cells = [{"name": name, "spec": template} for name in ("left", "right")]
    fakes = worlds.fake_world(teams.team(cells=cells))
    counts: Counter[str] = Counter()

    def counting(controller: Controller) -> Controller:
        def decide(observed: Any, now: datetime) -> Plan:
            counts[controller.kind] += 1
            return controller.decide(observed, now)

        return replace(controller, decide=decide)

    passes = manager_reconciler.Reconciler(
        fakes.world,
        {c.kind: counting(c) for c in (formation.CONTROLLER, cell.CONTROLLER)},
        OwnWriteFilter(),
        requeue=lambda _, __: None,
        backlog_age_s=lambda: age_s,
    )
    await passes(teams.FORMATION)
    for ref in fakes.cluster.refs("Cell"):
        await passes(ref)
    assert counts == decisions
    assert len(fakes.cluster.refs("Deployment")) == len(fakes.cluster.refs("Service")) == 2


@pytest.mark.parametrize(
    ("age_s", "status"), [(0.0, waits()), (5.0, waits("TopologyInvalid")), (5.0, says())]
)
async def test_a_team_that_has_more_to_report_or_no_backlog_is_decided_again_at_once(
    fakes, age_s, status
):
    team = TeamOfOne(fakes, status)
    await Backlog(age_s).of(fakes, {}, decide=team.decide)(KEY)
    assert team.passes == 2


async def test_a_team_that_lost_its_cells_in_a_backlog_is_decided_again_and_says_so_at_once(fakes):
    key = has_status(fakes, "Formation", waits("Ready", status="True"))
    team = TeamOfOne(fakes, waits())
    assert await Backlog(5.0).of(fakes, {}, decide=team.decide)(key) is None
    assert team.passes == 2
    assert fakes.cluster.read(key)["status"] == waits()


async def test_a_team_whose_cells_another_client_deletes_in_a_backlog_is_slowed_down(fakes):
    team = TeamOfOne(fakes, waits())
    passes = Backlog(5.0).of(fakes, {}, decide=team.decide)
    for _ in range(manager_reconciler.MAX_BUSY_ITERATIONS):
        await passes(KEY)
        fakes.cluster.remove(ObjectRef("Cell", "demo", "f-lead-0"))
    with pytest.raises(Backoff, match="20 iterations in a row"):
        await passes(KEY)


async def test_a_name_that_another_client_took_is_read_at_once_in_a_backlog(fakes):
    team = TeamOfOne(fakes, waits())
    fakes.cluster.fail("create", errors.AlreadyExists("taken"), kind="Cell")
    await Backlog(5.0).of(fakes, {}, decide=team.decide)(KEY)
    assert team.passes == 2
    assert fakes.cluster.refs("Cell")


async def test_events_wait_for_the_end_of_a_backlog(fakes):
    backlog = Backlog(5.0)
    passes = backlog.of(fakes, {}, decide=creates_once(fakes))
    await passes(KEY)
    assert [verb for verb, _ in fakes.cluster.writes] == ["create", "status"]
    assert backlog.requeued == [(KEY, debounce.BACKLOG_DEBOUNCE_S)]
    backlog.age_s = 0.0
    await passes(KEY)
    assert [event["reason"] for event in fakes.cluster.events] == ["Begun"]
    await passes(KEY)
    assert len(fakes.cluster.events) == 1


async def test_an_operator_that_ends_writes_the_events_that_wait_and_holds_no_more(fakes):
    passes = Backlog(5.0).of(fakes, {}, decide=lambda _: Plan((EVENT,), status=says()))
    await passes(KEY)
    assert fakes.cluster.events == []
    await passes.write_held_events()
    assert [event["about"] for event in fakes.cluster.events] == [KEY]
    other = has_status(fakes, "Formation", waits())
    await passes(other)
    assert [event["about"] for event in fakes.cluster.events] == [KEY, other]
    await passes.write_held_events()
    assert len(fakes.cluster.events) == 2


async def test_the_end_of_a_backlog_brings_events_that_waited_for_it(fakes):
    key = has_status(fakes, "Formation", says())
    backlog = Backlog(5.0)
    passes = backlog.of(fakes, {}, decide=creates_once(fakes))
    await passes(KEY)
    backlog.age_s = 0.0
    await passes(key)
    assert backlog.requeued[-1] == (KEY, manager_reconciler.RELEASE_DELAY_S)


async def test_events_wait_no_longer_than_their_bound(fakes):
    backlog = Backlog(5.0)
    passes = backlog.of(fakes, {}, decide=creates_once(fakes))
    await passes(KEY)
    fakes.clock.advance(debounce.BACKLOG_DEBOUNCE_S)
    await passes(KEY)
    assert [event["reason"] for event in fakes.cluster.events] == ["Begun"]


async def test_warnings_wait_for_no_backlog(fakes):
    warning = plans.EmitEvent("Warning", "Trouble", "it is refused")
    passes = Backlog(5.0).of(fakes, {}, decide=lambda _: Plan((warning,), status=says()))
    await passes(KEY)
    assert [event["reason"] for event in fakes.cluster.events] == ["Trouble"]


async def test_an_operator_that_starts_again_writes_what_its_predecessor_held(fakes):
    key = has_status(fakes, "Formation", waits("Reconciling"))
    await Backlog(5.0).of(fakes, waits())(key)
    assert await Backlog(0.0).of(fakes, waits())(key) is None
    assert fakes.cluster.read(key)["status"] == waits()


async def test_an_event_is_told_once_until_the_status_tells_it(fakes):
    rounds: list[int] = []

    def decide(_: Any) -> Plan:
        rounds.append(1)
        return Plan((SCOPE, EVENT) if len(rounds) < 3 else (EVENT,), status=says())

    await reconciler_of(fakes, decide)(KEY)
    assert len(rounds) == 3
    assert [event["reason"] for event in fakes.cluster.events] == ["Begun"]


REFUSALS = [
    errors.Forbidden("not allowed"),
    errors.Invalid("status.phase: not supported"),
    errors.Conflict("deleted and created again"),
    errors.ClusterUnavailable("no answer"),
    errors.NotLeading("lost"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("times", [1, 3])
async def test_an_event_is_told_once_if_its_status_is_refused_and_written_later(
    fakes, error, times
):
    """As the decision repeats the transition until the status has it, no Event need be kept."""

    def decide(body: Any) -> Plan:
        return Plan(() if body.get("status") == says() else (EVENT,), status=says())

    passes = reconciler_of(fakes, decide)
    for _ in range(times):
        await is_refused(fakes, passes, error)
    assert told(fakes, "Begun") == 0
    for _ in range(2):
        await passes(KEY)
    assert fakes.cluster.read(KEY)["status"] == says()
    assert told(fakes, "Begun") == 1


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_an_event_that_was_told_with_an_action_is_not_told_again_after_a_refused_status(
    fakes, error
):
    def decide(body: Any) -> Plan:
        is_there = ObjectRef("ConfigMap", "demo", "m") in fakes.cluster.refs()
        events = () if body.get("status") == says() else (EVENT,)
        return Plan((*(() if is_there else (plans.Create(MAP),)), *events), status=says())

    passes = reconciler_of(fakes, decide)
    for _ in range(2):
        await is_refused(fakes, passes, error)
        assert told(fakes, "Begun") == 1, "the map is there, so it has begun"
    for _ in range(2):
        await passes(KEY)
    assert fakes.cluster.read(KEY)["status"] == says()
    assert told(fakes, "Begun") == 1


async def is_refused(
    fakes: worlds.FakeWorld, passes: manager_reconciler.Reconciler, error: errors.ClusterError
) -> None:
    """Reconcile while the API server refuses the status; a lost Lease only delays the retry."""
    fakes.cluster.fail("status", error)
    with contextlib.suppress(Backoff):
        assert await passes(KEY) == manager_reconciler.NOT_LEADING_RETRY_S
    assert "status" not in fakes.cluster.read(KEY)


def told(fakes: worlds.FakeWorld, reason: str) -> int:
    return [event["reason"] for event in fakes.cluster.events].count(reason)


async def test_a_pass_that_told_the_store_looks_again_at_once(fakes):
    results: list[bool] = []

    def decide(_: Any) -> Plan:
        results.append(True)
        return Plan((SCOPE,) if len(results) == 1 else (), status=says())

    assert await reconciler_of(fakes, decide)(KEY) is None
    assert len(results) == 2
    assert fakes.cluster.writes == [("status", KEY)]


async def test_a_pass_that_finds_no_rest_leaves_the_status_to_the_next(fakes):
    passes = reconciler_of(fakes, lambda _: Plan((SCOPE,), status=says()))
    assert await passes(KEY) == manager_reconciler.BUSY_RETRY_S
    assert "status" not in fakes.cluster.read(KEY)


async def test_a_store_that_is_away_is_told_and_tried_again_within_half_a_minute(fakes):
    fakes.knowledge.away = True
    plan = Plan((SCOPE,), status=says("Waiting"), requeue_after=timedelta(seconds=3))
    with pytest.raises(Backoff, match="does not answer") as caught:
        await reconciler_of(fakes, lambda _: plan)(KEY)
    assert (caught.value.cap_s, caught.value.within_s) == (30, 3)
    assert fakes.cluster.read(KEY)["status"] == says("Waiting")


async def test_a_renderer_that_is_away_is_asked_again_within_half_a_minute(fakes):
    def decide(_: Any) -> Plan:
        raise errors.RendererUnavailable("the renderer does not answer")

    with pytest.raises(Backoff, match="does not answer") as caught:
        await reconciler_of(fakes, decide)(KEY)
    assert caught.value.cap_s == 30


async def test_a_key_that_never_settles_tells_its_status_and_slows_down(fakes):
    passes = reconciler_of(fakes, lambda _: Plan((SCOPE,), status=says()))
    for _ in range(manager_reconciler.MAX_BUSY_ITERATIONS // manager_reconciler.MAX_ITERATIONS):
        assert await passes(KEY) == manager_reconciler.BUSY_RETRY_S
    with pytest.raises(Backoff, match="20 iterations in a row had something to do"):
        await passes(KEY)
    assert fakes.cluster.read(KEY)["status"] == says()


async def test_a_status_that_is_held_back_is_written_in_time_by_a_key_that_is_slowed_down(fakes):
    key = has_status(fakes, "Formation", waits("Reconciling"))
    passes = Backlog(5.0).of(fakes, {}, decide=lambda _: Plan((SCOPE,), status=waits()))
    for _ in range(manager_reconciler.MAX_BUSY_ITERATIONS // manager_reconciler.MAX_ITERATIONS):
        await passes(key)
    with pytest.raises(Backoff, match="20 iterations in a row") as caught:
        await passes(key)
    assert caught.value.within_s == debounce.BACKLOG_DEBOUNCE_S


async def test_a_refused_child_is_told_in_the_conditions(fakes):
    fakes.cluster.fail("create", errors.Forbidden("exceeded quota: none"))
    applied = {"type": "Applied", "status": "True", "reason": "Applied", "message": "m"}
    status = {"conditions": [applied, {**applied, "type": "Ready"}]}
    with pytest.raises(Backoff, match="exceeded quota"):
        await reconciler_of(fakes, lambda _: Plan((plans.Create(MAP),), status=status))(KEY)
    conditions = fakes.cluster.read(KEY)["status"]["conditions"]
    assert [(c["type"], c["reason"], c["message"]) for c in conditions] == [
        ("Applied", "ApplyFailed", "exceeded quota: none"),
        ("Ready", "ApplyFailed", "exceeded quota: none"),
    ]


async def test_an_event_is_told_once_if_its_condition_is_written_with_the_refusal_of_a_child(fakes):
    """The status has the condition from then on, so the retry does not decide its Event."""
    applied = {"type": "Applied", "status": "True", "reason": "Applied", "message": "m"}
    server = {"type": "mcp.kais.io/a", "status": "False", "reason": "Gone", "message": "it is gone"}
    status = {"conditions": [applied, server, {**applied, "type": "Ready", "reason": "Settled"}]}

    def decide(body: Any) -> Plan:
        before = [c["reason"] for c in body.get("status", {}).get("conditions", ())]
        events = [
            plans.EmitEvent("Normal", condition["reason"], condition["message"])
            for condition in status["conditions"][1:]
            if condition["reason"] not in before
        ]
        is_there = ObjectRef("ConfigMap", "demo", "m") in fakes.cluster.refs()
        return Plan((*(() if is_there else (plans.Create(MAP),)), *events), status=status)

    passes = reconciler_of(fakes, decide)
    for _ in range(2):
        fakes.cluster.fail("create", errors.Invalid("exceeded quota: none"))
        with pytest.raises(Backoff, match="exceeded quota"):
            await passes(KEY)
        assert (told(fakes, "Gone"), told(fakes, "Settled")) == (1, 0)
    for _ in range(2):
        await passes(KEY)
    assert fakes.cluster.read(KEY)["status"] == status
    assert (told(fakes, "Gone"), told(fakes, "Settled")) == (1, 1)


async def test_a_refused_write_is_remembered_until_the_writes_are_taken(fakes):
    fakes.cluster.fail("create", errors.Forbidden("exceeded quota: none"))
    passes = reconciler_of(fakes, lambda _: Plan((plans.Create(MAP),)))
    with pytest.raises(Backoff, match="exceeded quota"):
        await passes(KEY)
    assert fakes.world.write_refusals.refusal(KEY) == "exceeded quota: none"
    await passes(KEY)
    assert fakes.world.write_refusals.refusal(KEY) is None


FAILURES = {
    "a lease that may be renewed late is looked at again": (
        errors.NotLeading("lost"),
        manager_reconciler.NOT_LEADING_RETRY_S,
    ),
    "what is not ready says when": (errors.NotReady("not yet", requeue_after_s=4), 4),
    "a namespace that goes away is looked at later": (
        errors.NamespaceTerminating("going"),
        manager_reconciler.TERMINATING_RETRY_S,
    ),
}


@pytest.mark.parametrize(("error", "retry_after"), FAILURES.values(), ids=FAILURES.keys())
async def test_an_error_becomes_a_delay(fakes, error, retry_after):
    fakes.cluster.fail("create", error)
    assert await reconciler_of(fakes, lambda _: Plan((plans.Create(MAP),)))(KEY) == retry_after


async def test_a_conflict_is_tried_again(fakes):
    fakes.cluster.fail("create", errors.Conflict("changed"))
    with pytest.raises(Backoff, match="changed"):
        await reconciler_of(fakes, lambda _: Plan((plans.Create(MAP),)))(KEY)


async def test_what_is_gone_needs_nothing(fakes):
    fakes.cluster.vanish(KEY)
    assert await reconciler_of(fakes, lambda _: Plan(status=says()))(KEY) is None


async def test_what_goes_while_it_is_looked_at_needs_nothing(fakes):
    def decide(_: Any) -> Plan:
        fakes.cluster.vanish(KEY)
        return Plan(status=says())

    assert await reconciler_of(fakes, decide)(KEY) is None


async def test_a_key_of_no_kind_needs_nothing(fakes):
    assert await reconciler_of(fakes, lambda _: Plan())(ObjectRef("Nothing", "demo", "x")) is None


@pytest.mark.simulated_time
async def test_a_pass_that_is_cancelled_ends_without_its_events(fakes, monkeypatch):
    async def hangs(*_: Any, **__: Any) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(fakes.cluster, "apply_status", hangs)
    running = asyncio.create_task(reconciler_of(fakes, creates_once(fakes))(KEY))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [verb for verb, _ in fakes.cluster.writes] == ["create"]


async def test_a_lease_that_is_lost_before_the_events_fails_no_pass(fakes):
    fakes.cluster.fail("emit", errors.NotLeading("lost"))
    assert await reconciler_of(fakes, creates_once(fakes))(KEY) is None
    assert fakes.cluster.read(KEY)["status"] == says("True")


async def test_an_object_that_is_gone_has_its_commands_in_containers_ended(fakes):
    passes = reconciler_of(fakes, lambda _: Plan(status=says()))
    pod = ObjectRef("Pod", "demo", "p")
    command = plans.RunInContainer("k", KEY, pod, "cell", ("sleep", "1000"), 1000.0)
    fakes.containers.start_command(command)
    await passes(KEY)
    assert fakes.containers.ended == []
    fakes.cluster.vanish(KEY)
    await passes(KEY)
    assert fakes.containers.ended == [command]
