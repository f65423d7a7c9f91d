"""Plans become port calls, in order; a store that is away stops no cluster action."""

from __future__ import annotations

import json
import logging

import pytest

from kais import labels
from kais_operator import errors
from kais_operator.apply import executor, knowledge_injection
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import ObjectRef, Plan
from knowledge_client import errors as knowledge_errors
from knowledge_client import models
from tests.fakes import world as worlds
from tests.fakes.knowledge import recalled_fact


def config_map(name: str = "m") -> plans.Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "demo"},
        "data": {"a": "1"},
    }


REF = ObjectRef("ConfigMap", "demo", "m")
RUN = models.RunIn(namespace="demo", scope="realm:demo/formation:f")
SCOPE = plans.PutScope("realm:demo", models.ScopeConfig())


@pytest.fixture
def fakes() -> worlds.FakeWorld:
    return worlds.fake_world()


async def test_actions_happen_in_the_order_of_the_plan(fakes):
    created = fakes.cluster.put(config_map("old"))
    old = ObjectRef("ConfigMap", "demo", "old")
    plan = Plan(
        (
            plans.Create(config_map()),
            plans.PatchMetadata(
                old, created["metadata"]["resourceVersion"], annotations={"a": "b"}
            ),
            plans.Delete(old, created["metadata"]["uid"]),
        )
    )
    executed = await executor.execute(plan, fakes.world)
    assert executed.wrote
    assert fakes.cluster.writes == [("create", REF), ("patch", old), ("delete", old)]


async def test_a_namesake_is_no_failure(fakes):
    fakes.cluster.put(config_map())
    executed = await executor.execute(Plan((plans.Create(config_map()),)), fakes.world)
    assert executed.has_name_conflict
    assert not executed.wrote


async def test_a_cluster_failure_ends_the_pass(fakes):
    fakes.cluster.fail("create", errors.ClusterUnavailable("gone"))
    plan = Plan((plans.Create(config_map()), plans.Create(config_map("later"))))
    with pytest.raises(errors.ClusterUnavailable, match="gone"):
        await executor.execute(plan, fakes.world)
    assert fakes.cluster.refs("ConfigMap") == []


async def test_a_store_that_is_away_leaves_out_the_store_calls_only(fakes):
    fakes.knowledge.away = True
    plan = Plan((SCOPE, plans.PutRun("r", RUN), plans.Create(config_map())))
    executed = await executor.execute(plan, fakes.world)
    assert "does not answer" in (executed.knowledge_problem or "")
    assert fakes.knowledge.calls == ["put_scope"]
    assert fakes.cluster.refs("ConfigMap") == [REF]
    assert fakes.sync_state.unavailable_reason() == executed.knowledge_problem


async def test_a_finalizer_stays_while_the_store_was_not_told(fakes):
    body = config_map()
    body["metadata"]["finalizers"] = [labels.FINALIZER]
    created = fakes.cluster.put(body)
    release = plans.PatchMetadata(REF, created["metadata"]["resourceVersion"], finalizers=())
    plan = Plan((plans.DeleteScope("realm:demo"), release))
    fakes.knowledge.away = True
    await executor.execute(plan, fakes.world)
    assert fakes.cluster.read(REF)["metadata"]["finalizers"] == [labels.FINALIZER]
    fakes.knowledge.away = False
    await executor.execute(plan, fakes.world)
    assert (
        "finalizers" not in fakes.cluster.read(REF)["metadata"]
        or not (fakes.cluster.read(REF)["metadata"]["finalizers"])
    )
    assert fakes.knowledge.deleted_scopes == ["realm:demo"]


async def test_annotations_do_not_wait_with_the_finalizer_of_their_patch(fakes):
    body = config_map()
    body["metadata"]["finalizers"] = [labels.FINALIZER]
    created = fakes.cluster.put(body)
    release = plans.PatchMetadata(
        REF, created["metadata"]["resourceVersion"], annotations={"counted": "1"}, finalizers=()
    )
    fakes.knowledge.away = True
    await executor.execute(Plan((plans.DeleteScope("realm:demo"), release)), fakes.world)
    metadata = fakes.cluster.read(REF)["metadata"]
    assert (metadata["finalizers"], metadata["annotations"]) == (
        [labels.FINALIZER],
        {"counted": "1"},
    )


async def test_what_the_store_took_is_remembered(fakes):
    principal = models.PrincipalIn(
        name="cell",
        type="agent",
        subject=models.Subject(username="system:serviceaccount:demo:cell", uid="u"),
        home="realm:demo/cell:x",
    )
    closed = RUN.model_copy(update={"outcome": "Succeeded"})
    plan = Plan(
        (
            plans.RegisterPrincipal(principal),
            SCOPE,
            plans.PutRun("r", closed),
            plans.RecordEpisodes("r", "demo", (models.EpisodeIn(type="message", content="m"),)),
            plans.RequestExtraction("r", "demo"),
            plans.RefreshStatistics("demo", "bp"),
        )
    )
    executed = await executor.execute(plan, fakes.world)
    memory = fakes.sync_state
    assert executed.called_knowledge
    assert memory.is_registered(principal)
    assert memory.is_configured("realm:demo", models.ScopeConfig())
    assert memory.is_run_open("demo", "r")
    assert memory.is_run_closed("demo", "r")
    assert memory.is_extraction_accepted("demo", "r")
    assert [blueprint.name for blueprint in memory.due_stats().blueprints] == ["bp"]


async def test_an_end_that_the_ledger_refuses_is_not_taken_as_told(fakes):
    problem = models.Problem(
        title="conflict", status=409, detail="its scope is another", code="conflict"
    )
    refused = knowledge_errors.Conflict("its scope is another", problem=problem)
    fakes.knowledge.refusals["put_run"] = refused
    closed = RUN.model_copy(update={"outcome": "Succeeded"})
    executed = await executor.execute(Plan((plans.PutRun("r", closed),)), fakes.world)
    assert executed.knowledge_problem == "its scope is another"
    assert not fakes.sync_state.is_run_closed("demo", "r")


async def test_a_run_that_was_closed_otherwise_keeps_its_outcome(fakes):
    fakes.knowledge.refusals["put_run"] = knowledge_errors.Conflict("closed as Failed")
    closed = RUN.model_copy(update={"outcome": "Succeeded"})
    executed = await executor.execute(Plan((plans.PutRun("r", closed),)), fakes.world)
    assert executed.knowledge_problem is None
    assert fakes.sync_state.is_run_closed("demo", "r")


async def test_events_come_apart_and_one_that_fails_is_forgotten(fakes):
    subject = fakes.cluster.put(config_map())
    plan = Plan((plans.EmitEvent("Normal", "One", "m"), plans.EmitEvent("Warning", "Two", "m")))
    await executor.execute(plan, fakes.world)
    assert fakes.cluster.events == []
    fakes.cluster.fail("emit", errors.ClusterUnavailable("gone"))
    await executor.emit_events(plan, subject, fakes.world)
    assert [event["reason"] for event in fakes.cluster.events] == ["Two"]


async def test_an_event_may_be_about_another_object(fakes):
    subject = fakes.cluster.put(config_map())
    child = plans.Involved("v1", plans.ObjectRef("ConfigMap", "demo", "child"), "u9")
    plan = Plan((plans.EmitEvent("Warning", "EditUndone", "m", child),))
    await executor.emit_events(plan, subject, fakes.world)
    (event,) = fakes.cluster.events
    assert event["about"] == child.ref


async def test_an_event_in_a_namespace_that_goes_is_no_warning_in_the_log(fakes, caplog):
    caplog.set_level(logging.INFO)
    subject = fakes.cluster.put(config_map())
    fakes.cluster.fail("emit", errors.NamespaceTerminating("it is being terminated"))
    plan = Plan((plans.EmitEvent("Normal", "One", "m"),))
    await executor.emit_events(plan, subject, fakes.world)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "event One was not written: it is being terminated")
    ]


def injecting(recall: models.RecallIn | None) -> Plan:
    body = {**config_map(), "data": {}}
    return Plan((plans.InjectKnowledge(body, recall, idempotency_key="r/1"),))


async def injected(fakes: worlds.FakeWorld, recall: models.RecallIn | None) -> tuple[dict, dict]:
    await executor.execute(injecting(recall), fakes.world)
    body = fakes.cluster.read(REF)
    assert body["immutable"] is True
    return json.loads(body["data"][labels.KNOWLEDGE_KEY]), body["metadata"]["annotations"]


RECALL = models.RecallIn(query="pods crash", run="run-1")


async def test_what_is_recalled_lies_in_the_map_with_its_receipt(fakes):
    fakes.knowledge.facts = [recalled_fact("f1", "look at the logs", at=fakes.clock.now())]
    content, annotations = await injected(fakes, RECALL)
    assert content["receipt"] == "receipt-1"
    assert content["run"] == "run-1"
    assert [fact["id"] for fact in content["facts"]] == ["f1"]
    assert content["facts"][0]["content"] == "look at the logs"
    assert content["facts"][0]["recorded_at"].startswith("2026-03-01T12:00:00")
    assert "never instructions" in content["note"]
    assert annotations[labels.RECEIPT] == "receipt-1"
    assert annotations[labels.INJECTED] == "1"


async def test_without_injection_the_map_says_so(fakes):
    content, annotations = await injected(fakes, None)
    assert content["reason"] == "injection is off"
    assert content["facts"] == []
    assert annotations[labels.INJECTED] == "0"
    assert fakes.knowledge.calls == []


async def test_without_a_store_the_map_says_why_it_is_empty(fakes):
    fakes.knowledge.away = True
    content, annotations = await injected(fakes, RECALL)
    assert "does not answer" in content["reason"]
    assert annotations[labels.RECEIPT] == ""
    assert "does not answer" in annotations[labels.INJECTION_PROBLEM]


async def test_too_many_words_are_cut_behind_the_best_facts(fakes):
    long = "ä" * 8000
    fakes.knowledge.facts = [
        recalled_fact(f"f{number}", long, at=fakes.clock.now()) for number in range(100)
    ]
    content, _ = await injected(fakes, RECALL.model_copy(update={"limit": 100}))
    body = fakes.cluster.read(REF)
    assert len(body["data"][labels.KNOWLEDGE_KEY].encode()) <= knowledge_injection.LIMIT_BYTES
    assert 0 < len(content["facts"]) < 100
    assert content["reason"] == "the best ranked facts that fit; the others were left out"
    assert content["facts"][0]["id"] == "f0"
