"""A store that answers and refuses for good: its words are told, all is kept, nothing repeated."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import ObjectRef, Plan
from knowledge_client import errors, models
from tests.fakes import teams
from tests.fakes.outbox_names import kept_as
from tests.fakes.world import FakeWorld, fake_world, restarted

MESSAGE = "put_run: 422 invalid-body: counters: must have at most 64 keys"
REFUSED = "kais.io/refused"


PASSING = (
    errors.QuotaExceeded("429: too much at once"),
    errors.PermissionDenied("403: only the operator may"),
    errors.KnowledgeUnavailable("503: starting"),
    errors.NotFound("404 'default backend'"),
    errors.InvalidRequest("gopher://store is not usable; set KNOWLEDGE_SERVICE_URL"),
)
"""What does not refuse for good: another server answers, or the store asks for patience."""


def refusal(text: str = MESSAGE) -> errors.InvalidRequest:
    """Give what the client raises when the store itself says that a body is wrong."""
    problem = models.Problem(title="invalid", status=422, detail=text, code="invalid-body")
    return errors.InvalidRequest(text, problem=problem)


async def kept() -> tuple[FakeWorld, ObjectRef]:
    """Give a world with the calls of a mission that was deleted while the store was away."""
    fake = await teams.started()
    fake.knowledge.away = True
    fake.cluster.remove(teams.MISSION)
    for seconds in (0, 30, 0):
        fake.clock.advance(seconds)
        await teams.pass_(fake)
    (run_id,) = fake.knowledge.runs
    fake.knowledge.away = False
    return fake, ObjectRef("ConfigMap", "kais-system", kept_as(run_id))


async def step(fake: FakeWorld, ref: ObjectRef) -> Plan | None:
    return await fake.step(outbox.CONTROLLER, ObjectRef("Outbox", ref.namespace, ref.name))


async def test_a_refused_call_is_set_aside_with_the_words_of_the_store() -> None:
    fake, ref = await kept()
    fake.knowledge.refusals["put_run"] = refusal()
    await step(fake, ref)
    body = fake.cluster.read(ref)
    assert body["metadata"]["annotations"][REFUSED] == MESSAGE
    calls = [call["call"] for call in json.loads(body["data"]["calls.json"])]
    assert calls == ["record_episodes", "put_run", "request_extraction"]


async def test_a_call_that_was_set_aside_is_not_made_again() -> None:
    fake, ref = await kept()
    fake.knowledge.refusals["put_run"] = refusal()
    await step(fake, ref)
    fake.knowledge.calls.clear()
    assert await step(fake, ref) == Plan()
    assert fake.knowledge.calls == []


async def test_a_call_whose_refusal_somebody_took_away_is_sent_again() -> None:
    fake, ref = await kept()
    fake.knowledge.refusals["put_run"] = refusal()
    await step(fake, ref)
    del fake.knowledge.refusals["put_run"]
    body = fake.cluster.read(ref)
    del body["metadata"]["annotations"][REFUSED]
    fake.cluster.put(body)
    await step(fake, ref)
    assert ref not in fake.cluster.refs()
    assert [run.outcome for run in fake.knowledge.runs.values()] == ["Cancelled"]


async def test_a_store_that_asks_for_patience_or_another_server_has_refused_nothing() -> None:
    for passing in PASSING:
        fake, ref = await kept()
        fake.knowledge.refusals["put_run"] = passing
        await step(fake, ref)
        assert REFUSED not in fake.cluster.read(ref)["metadata"].get("annotations", {})


async def test_a_deleted_scope_goes_though_the_store_refuses_to_delete_it() -> None:
    ref = ObjectRef("KnowledgeScope", "demo", "team")
    fake = fake_world(teams.scope("team", deletionPolicy="Delete"))
    await fake.settle(knowledge_scope.CONTROLLER, ref)
    fake.knowledge.refusals["delete_scope"] = refusal("delete_scope: 422")
    fake.cluster.remove(ref)
    await fake.step(knowledge_scope.CONTROLLER, ref)
    assert ref in fake.cluster.refs()
    fake.clock.advance(30)
    await fake.step(knowledge_scope.CONTROLLER, ref)
    assert ref not in fake.cluster.refs()
    (reference,) = fake.cluster.refs("ConfigMap")
    await step(fake, reference)
    assert fake.cluster.read(reference)["metadata"]["annotations"][REFUSED] == "delete_scope: 422"


async def test_an_unreadable_mission_goes_though_the_store_refuses_its_end() -> None:
    fake = await teams.started()
    fake.cluster.edit(teams.MISSION, {"spec": {"objective": 7}})
    fake.knowledge.refusals["put_run"] = refusal()
    fake.cluster.remove(teams.MISSION)
    await teams.pass_(fake)
    assert teams.MISSION in fake.cluster.refs()
    fake.clock.advance(30)
    await teams.pass_(fake)
    assert teams.MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    assert ObjectRef("ConfigMap", "kais-system", kept_as(run_id)) in fake.cluster.refs()


@pytest.mark.parametrize("passing", PASSING, ids=lambda failure: type(failure).__name__)
async def test_a_deleted_mission_goes_after_30_s_whatever_the_store_answers(
    passing: errors.KnowledgeError,
) -> None:
    fake = await teams.started()
    for call in ("put_run", "record_episodes", "request_extraction", "get_run"):
        fake.knowledge.refusals[call] = passing
    fake.cluster.remove(teams.MISSION)
    for _ in range(3):
        await teams.pass_(fake)
    assert teams.MISSION in fake.cluster.refs()
    fake.clock.advance(30)
    await teams.pass_(fake)
    assert teams.MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    assert ObjectRef("ConfigMap", "kais-system", kept_as(run_id)) in fake.cluster.refs()


async def test_a_scope_whose_settings_are_refused_says_so_and_is_not_told_again() -> None:
    ref = ObjectRef("KnowledgeScope", "demo", "team")
    fake = fake_world(teams.scope("team"))
    fake.knowledge.refusals["put_scope"] = refusal("put_scope: 422: half_life_days")
    for _ in range(3):
        await fake.step(knowledge_scope.CONTROLLER, ref)
    assert fake.knowledge.calls.count("put_scope") == 1
    message = (
        "the knowledge service rejected the settings: put_scope: 422: half_life_days;"
        " correct the spec"
    )
    messages = ("False", "ConfigurationFailed")
    assert teams.condition(fake, "Configured", ref) == (*messages, message)
    assert teams.condition(fake, "Ready", ref) == (*messages, f"Configured: {message}")
    assert teams.condition(fake, "StoreReachable", ref)[0] == "True"
    del fake.knowledge.refusals["put_scope"]
    fake.cluster.edit(ref, {"spec": {"readOnly": True}})
    await fake.settle(knowledge_scope.CONTROLLER, ref)
    assert teams.condition(fake, "Ready", ref)[0] == "True"
    assert [scope.read_only for scope in fake.knowledge.scopes.values()] == [True]


async def refused() -> FakeWorld:
    """Give a mission whose run has ended and whose end the store refuses."""
    fake = await teams.started()
    teams.succeed(fake)
    fake.knowledge.refusals["put_run"] = refusal()
    for _ in range(5):
        await teams.pass_(fake)
    return fake


def recorded(fake: FakeWorld) -> tuple[str, str, str]:
    conditions = fake.cluster.read(teams.MISSION)["status"]["conditions"]
    result = next(c for c in conditions if c["type"] == "Recorded")
    return result["status"], result["reason"], result["message"]


async def test_a_mission_whose_record_is_refused_says_so_in_the_words_of_the_store() -> None:
    fake = await refused()
    (run_id,) = fake.knowledge.runs
    message = f"the knowledge service rejected run {run_id}: {MESSAGE}; will retry within an hour"
    assert recorded(fake) == ("False", "RecordingRefused", message)


async def test_a_refused_record_is_told_once_an_hour_and_the_object_held() -> None:
    fake = await refused()
    fake.knowledge.calls.clear()
    for _ in range(3):
        fake.clock.advance(600)
        await teams.pass_(fake)
    assert "put_run" not in fake.knowledge.calls
    assert fake.cluster.read(teams.MISSION)["metadata"]["finalizers"] == ["kais.io/finalizer"]
    del fake.knowledge.refusals["put_run"]
    fake.clock.advance(1800)
    await teams.settle(fake)
    assert recorded(fake)[0] == "True"


async def test_a_deleted_mission_whose_record_is_refused_goes_at_once_and_its_calls_are_kept() -> (
    None
):
    fake = await refused()
    (run_id,) = fake.knowledge.runs
    fake.cluster.remove(teams.MISSION)
    await teams.pass_(fake)
    assert teams.MISSION not in fake.cluster.refs()
    body = fake.cluster.read(ObjectRef("ConfigMap", "kais-system", kept_as(run_id)))
    calls = [call["call"] for call in json.loads(body["data"]["calls.json"])]
    assert calls == ["record_episodes", "put_run", "request_extraction"]


FULL = "POST /v1/episodes: 429 quota-exceeded: run r may have 5000 episodes; it has 5000"


def record_is_full() -> errors.QuotaExceeded:
    """Give what the client raises for the episodes of a run whose record is full."""
    problem = models.Problem(title="Quota exceeded", status=429, detail=FULL, code="quota-exceeded")
    return errors.QuotaExceeded(FULL, problem=problem)


async def test_an_end_is_recorded_though_the_record_of_the_run_takes_no_more_episodes() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    fake.knowledge.refusals["add_episodes"] = record_is_full()
    await teams.settle(fake)
    ((run_id, run),) = fake.knowledge.runs.items()
    assert run.outcome == "Succeeded"
    message = f"the ledger has run {run_id} as Succeeded, without the operator's episodes: {FULL}"
    assert recorded(fake) == ("True", "Recorded", message)
    fake = restarted(fake)
    await teams.settle(fake)
    assert recorded(fake) == ("True", "Recorded", message)


async def test_an_outbox_records_the_end_of_a_run_whose_record_is_full() -> None:
    fake, ref = await kept()
    fake.knowledge.refusals["add_episodes"] = record_is_full()
    await step(fake, ref)
    assert ref not in fake.cluster.refs()
    assert [run.outcome for run in fake.knowledge.runs.values()] == ["Cancelled"]


async def test_episodes_that_are_refused_for_a_while_are_recorded_before_the_end() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    later = record_is_full()
    later.retry_after_s = 2.0
    fake.knowledge.refusals["add_episodes"] = later
    for _ in range(3):
        await teams.pass_(fake)
    assert [run.outcome for run in fake.knowledge.runs.values()] == [None]
    del fake.knowledge.refusals["add_episodes"]
    await teams.settle(fake)
    assert [run.outcome for run in fake.knowledge.runs.values()] == ["Succeeded"]
    assert all(fake.knowledge.episodes.values())


async def test_a_refused_deletion_of_a_scope_looks_again_when_it_gives_up() -> None:
    ref = ObjectRef("KnowledgeScope", "demo", "team")
    fake = fake_world(teams.scope("team", deletionPolicy="Delete"))
    await fake.settle(knowledge_scope.CONTROLLER, ref)
    fake.knowledge.refusals["delete_scope"] = refusal()
    fake.cluster.remove(ref)
    fake.clock.advance(10)
    plan = await fake.step(knowledge_scope.CONTROLLER, ref)
    assert plan is not None
    assert plan.requeue_after == timedelta(seconds=20)
