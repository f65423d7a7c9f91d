"""Missions that are deleted: their run is recorded first, or its calls are kept."""

import json
from typing import Any

import pytest

from kais import names
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import blueprints, teams
from tests.fakes.outbox_names import kept_as
from tests.fakes.teams import FORMATION, MISSION, condition, job_ref
from tests.fakes.world import FakeWorld, fake_world, restarted


async def passes(fake: FakeWorld, count: int = 4) -> None:
    """Make some passes; with a store that is away a key never settles."""
    for _ in range(count):
        await teams.pass_(fake)


async def test_a_mission_deleted_while_it_runs_is_cancelled_and_recorded() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert fake.cluster.refs("Job") == []
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Cancelled"
    (episodes,) = fake.knowledge.episodes.values()
    assert episodes[-1].content == (
        "the run ended Cancelled: the mission was deleted while attempt 1 ran"
    )


async def test_a_mission_deleted_after_its_job_ended_keeps_the_jobs_outcome() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Succeeded"


async def test_a_mission_that_never_began_is_let_go() -> None:
    fake = await teams.ready_world(teams.work(metadata={"finalizers": ["kais.io/finalizer"]}))
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert fake.knowledge.runs == {}


async def test_a_deletion_does_not_wait_for_the_store_for_ever() -> None:
    fake = await teams.started()
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    await passes(fake)
    assert MISSION in fake.cluster.refs()
    fake.clock.advance(30)
    await passes(fake, 2)
    assert MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    key = ObjectRef("Outbox", "kais-system", kept_as(run_id))
    reference = ObjectRef("ConfigMap", "kais-system", kept_as(run_id))
    calls = json.loads(fake.cluster.read(reference)["data"]["calls.json"])
    assert [call["call"] for call in calls] == ["record_episodes", "put_run", "request_extraction"]
    await fake.step(outbox.CONTROLLER, key)
    assert reference in fake.cluster.refs()
    fake.knowledge.away = False
    await fake.step(outbox.CONTROLLER, key)
    assert reference not in fake.cluster.refs()
    assert fake.knowledge.runs[run_id].outcome == "Cancelled"
    assert run_id in fake.knowledge.extractions


async def test_a_store_that_answers_is_told_through_the_outbox_when_the_deletion_is_old() -> None:
    fake = await teams.started()
    fake.cluster.remove(MISSION)
    fake.clock.advance(120)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    await fake.step(outbox.CONTROLLER, ObjectRef("Outbox", "kais-system", kept_as(run_id)))
    assert {ref.namespace for ref in fake.cluster.refs("ConfigMap")} == {"demo"}
    assert fake.knowledge.runs[run_id].outcome == "Cancelled"


async def test_a_namespace_that_goes_gets_nothing_new_and_its_runs_are_recorded() -> None:
    fake = await teams.started()
    fake.cluster.terminating.add("demo")
    for ref in (teams.FORMATION, teams.CELL, job_ref(), MISSION):
        fake.cluster.remove(ref)
    fake.cluster.writes.clear()
    await teams.settle(fake)
    assert [verb for verb, _ in fake.cluster.writes if verb == "create"] == []
    assert MISSION not in fake.cluster.refs()
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.scope) == ("Cancelled", "realm:demo/formation:team")


async def test_an_outbox_in_another_namespace_is_nobodys_order() -> None:
    forged = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kais-outbox-x",
            "namespace": "demo",
            "labels": {"app.kubernetes.io/managed-by": "kais", "kais.io/role": "outbox"},
        },
        "data": {"calls.json": '[{"call": "delete_scope", "path": "realm:other"}]'},
    }
    fake = fake_world(forged)
    key = ObjectRef("Outbox", "demo", "kais-outbox-x")
    assert await fake.step(outbox.CONTROLLER, key) is None
    assert fake.knowledge.deleted_scopes == []


async def test_a_run_that_was_opened_in_another_scope_is_not_taken_for_a_recorded_one() -> None:
    fake = await teams.started(teams.work(knowledge={"extract": False}))
    fake.cluster.edit(FORMATION, {"spec": {"knowledge": {"scope": "elsewhere"}}})
    fake = restarted(fake)
    await passes(fake)
    fake.knowledge.away = True
    teams.succeed(fake)
    await passes(fake)
    assert condition(fake, "Recorded")[:2] == ("False", "StoreUnavailable")
    await ended_while_away(fake)
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.scope) == ("Succeeded", "realm:demo/formation:team")


LONG = f"use-{'x' * 100}"
"""The name of an instance that is longer than a label."""


def mission_of_use(blueprint: str, **spec: Any) -> tuple[Body, Body, Body]:
    """Return a use with a long name, its Mission, and the revision that both came from."""
    revision = blueprints.revision(2, of=blueprints.blueprint(blueprint))
    use = teams.thing(
        "BlueprintInstance", LONG, spec={"blueprintRef": {"name": blueprint}, **spec}, uid="uid-use"
    )
    owner = {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "name": LONG,
        "uid": "uid-use",
        "controller": True,
    }
    labels = {
        "kais.io/blueprint": names.label_value(blueprint),
        "kais.io/revision": "2",
        "kais.io/instance": names.label_value(LONG),
    }
    return use, teams.work(metadata={"ownerReferences": [owner], "labels": labels}), revision


async def ended_while_away(fake: FakeWorld) -> None:
    """End the Mission by its deletion while the store is away, and make the kept calls later."""
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    await passes(fake)
    fake.clock.advance(30)
    await passes(fake, 2)
    assert MISSION not in fake.cluster.refs()
    fake.knowledge.away = False
    (run_id,) = fake.knowledge.runs
    await fake.step(outbox.CONTROLLER, ObjectRef("Outbox", "kais-system", kept_as(run_id)))


@pytest.mark.parametrize("blueprint", ["team.of.three", f"team-{'y' * 100}"], ids=["dots", "long"])
async def test_a_run_that_ends_after_its_use_is_gone_counts_for_the_same_blueprint(
    blueprint: str,
) -> None:
    fake = await teams.started(*mission_of_use(blueprint))
    fake.cluster.vanish(ObjectRef("BlueprintInstance", "demo", LONG))
    await ended_while_away(fake)
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.blueprint, run.instance) == ("Cancelled", blueprint, LONG)


async def test_a_run_counts_for_its_blueprint_if_its_use_names_another_one_by_now() -> None:
    fake = await teams.started(*mission_of_use("team.of.three"))
    use = ObjectRef("BlueprintInstance", "demo", LONG)
    fake.cluster.edit(use, {"spec": {"blueprintRef": {"name": "others"}}})
    await ended_while_away(fake)
    (run,) = fake.knowledge.runs.values()
    assert (run.blueprint, run.revision) == ("team.of.three", 2)
