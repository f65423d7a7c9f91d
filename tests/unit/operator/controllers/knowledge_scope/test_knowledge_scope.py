"""KnowledgeScopes: the store is told, duplicates and the platform are refused, deletion erases."""

import json
from typing import Any

import pytest

from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import errors, models
from tests.fakes import teams
from tests.fakes.teams import condition, status
from tests.fakes.world import FakeWorld, fake_world

REF = ObjectRef("KnowledgeScope", "demo", "memory")
PATH = "realm:demo/formation:team"


async def settled(*bodies: Body, ref: ObjectRef = REF) -> FakeWorld:
    fake = fake_world(*bodies)
    await settle(fake, ref)
    return fake


async def settle(fake: FakeWorld, ref: ObjectRef = REF) -> Any:
    return await fake.settle(knowledge_scope.CONTROLLER, ref)


async def step(fake: FakeWorld) -> Any:
    return await fake.step(knowledge_scope.CONTROLLER, REF)


async def test_the_store_is_told_the_settings() -> None:
    spec: Body = {
        "readOnly": True,
        "inherit": False,
        "retention": {"maxFacts": 10, "ttlDays": 30.0},
        "promotion": {"policy": "Automatic", "minMissions": 2, "minConfidence": 0.6},
        "synonyms": [["oncall", "pager"]],
        "injection": {"enabled": True, "maxFacts": 50, "maxTokens": 100, "minConfidence": 0.2},
        "extraction": {"enabled": False, "maxFacts": 5},
    }
    fake = await settled(teams.scope(**spec))
    scope_config = fake.knowledge.scopes[PATH]
    assert (scope_config.read_only, scope_config.inherit) == (True, False)
    assert (scope_config.retention.max_facts, scope_config.retention.ttl_days) == (10, 30.0)
    assert (scope_config.promotion.policy, scope_config.promotion.min_missions) == ("Automatic", 2)
    assert scope_config.synonyms == (("oncall", "pager"),)
    assert (scope_config.injection.max_facts, scope_config.injection.max_tokens) == (50, 100)
    assert (scope_config.extraction.enabled, scope_config.extraction.max_facts) == (False, 5)
    message = f"the knowledge service has the settings of {PATH}"
    assert condition(fake, "Configured", REF) == ("True", "Configured", message)
    assert condition(fake, "Ready", REF) == ("True", "Ready", f"{PATH} has its declared settings")
    assert status(fake, REF)["endpoint"] == "http://knowledge.kais-system:8000"


PATHS = {
    "realm": ({"level": "realm", "formation": None}, "realm:demo"),
    "formation": ({}, PATH),
    "cell of a formation": ({"level": "cell", "cell": "lead-0"}, f"{PATH}/cell:lead-0"),
    "lone cell": ({"level": "cell", "formation": None, "cell": "solo"}, "realm:demo/cell:solo"),
}


@pytest.mark.parametrize(("changes", "path"), PATHS.values(), ids=PATHS)
async def test_the_path_of_a(changes: Body, path: str) -> None:
    body = teams.scope(**changes)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    fake = await settled(body)
    assert status(fake, REF)["path"] == path
    assert path in fake.knowledge.scopes


async def test_what_the_store_holds_is_reported() -> None:
    fake = await settled(teams.scope())
    fake.knowledge.scope_stats[PATH] = models.ScopeStats(
        path=PATH, facts=12, recalls=3, usefulness=2 / 3, last_write_at=fake.clock.now()
    )
    await fake.refresh_stats()
    await settle(fake)
    reported_status = status(fake, REF)
    assert (
        reported_status["facts"],
        reported_status["recalls"],
        reported_status["usefulness"],
    ) == (12, 3, 0.667)
    assert reported_status["lastWriteTime"] == "2026-03-01T12:00:00Z"
    assert reported_status["display"] == {"useful": "67%"}


async def test_the_platform_is_declared_in_the_operators_namespace_only() -> None:
    body = teams.scope()
    body["spec"] = {"level": "platform"}
    fake = await settled(body)
    refused = (
        "False",
        "PlatformNotAllowed",
        (
            "level platform is declared in the operator's namespace kais-system only; "
            "use level realm here"
        ),
    )
    assert condition(fake, "Configured", REF) == refused
    assert condition(fake, "Ready", REF) == refused
    assert fake.knowledge.scopes == {}
    allowed = {**body, "metadata": {"name": "memory", "namespace": "kais-system"}}
    ref = ObjectRef("KnowledgeScope", "kais-system", "memory")
    assert list((await settled(allowed, ref=ref)).knowledge.scopes) == ["platform"]


async def test_of_two_objects_for_one_path_the_older_counts() -> None:
    older = teams.scope("zz-older", extraction={"enabled": False})
    fake = await settled(older, ref=ObjectRef("KnowledgeScope", "demo", "zz-older"))
    fake.clock.advance(5)
    fake.cluster.put(teams.scope())
    plan = await settle(fake)
    assert plan.requeue_after is not None
    assert condition(fake, "Ready", REF) == (
        "False",
        "Duplicate",
        (
            f"KnowledgeScope/demo/zz-older is older and describes {PATH} already; "
            "delete one of the two"
        ),
    )
    assert fake.knowledge.scopes[PATH].extraction.enabled is False
    fake.cluster.remove(ObjectRef("KnowledgeScope", "demo", "zz-older"))
    await settle(fake)
    assert condition(fake, "Ready", REF)[0] == "True"
    assert fake.knowledge.scopes[PATH].extraction.enabled is True


async def test_of_two_objects_of_one_second_the_first_by_name_counts() -> None:
    fake = await settled(teams.scope(), teams.scope("alpha"))
    assert condition(fake, "Ready", REF)[1] == "Duplicate"


async def test_settings_that_are_told_again_are_no_news() -> None:
    fake = await settled(teams.scope())
    initial_items = (status(fake, REF), len(fake.cluster.events))
    fake.sync_state.clear_registrations()  # as a restart does, and the repetition of every 10 min
    await step(fake)
    assert (status(fake, REF), len(fake.cluster.events)) == initial_items
    assert fake.knowledge.calls[-1] == "put_scope"


async def test_a_scope_that_was_told_looks_whether_its_store_is_back() -> None:
    fake = await settled(teams.scope())
    fake.sync_state.record_availability("gone")
    plan = await settle(fake)
    assert condition(fake, "StoreReachable", REF) == ("False", "StoreUnavailable", "gone")
    assert plan.requeue_after.total_seconds() == 10
    fake.sync_state.record_availability(None)
    plan = await settle(fake)
    assert condition(fake, "StoreReachable", REF)[0] == "True"
    assert plan.requeue_after is None


async def test_a_store_that_is_away_is_said_and_told_later() -> None:
    fake = fake_world(teams.scope())
    fake.knowledge.away = True
    await step(fake)
    await step(fake)
    assert condition(fake, "StoreReachable", REF) == (
        "False",
        "StoreUnavailable",
        "put_scope: the knowledge service does not answer",
    )
    assert condition(fake, "Ready", REF)[1] == "StoreUnavailable"
    fake.knowledge.away = False
    await settle(fake)
    assert condition(fake, "StoreReachable", REF)[0] == "True"
    assert condition(fake, "Ready", REF)[0] == "True"


async def test_a_settled_scope_writes_and_tells_nothing() -> None:
    fake = await settled(teams.scope())
    writes, calls = len(fake.cluster.writes), len(fake.knowledge.calls)
    await step(fake)
    assert (len(fake.cluster.writes), len(fake.knowledge.calls)) == (writes, calls)


async def test_retained_knowledge_outlives_its_object() -> None:
    fake = await settled(teams.scope())
    assert not fake.cluster.read(REF)["metadata"].get("finalizers")
    fake.cluster.remove(REF)
    assert await step(fake) is None
    assert fake.knowledge.deleted_scopes == []


async def test_deletion_erases_exactly_that_path() -> None:
    fake = await settled(teams.scope(deletionPolicy="Delete"))
    assert fake.cluster.read(REF)["metadata"]["finalizers"] == ["kais.io/finalizer"]
    fake.cluster.remove(REF)
    await step(fake)
    assert fake.knowledge.erased_scopes == [PATH]
    assert fake.cluster.refs("KnowledgeScope") == []


async def test_a_changed_mind_takes_the_finalizer_off() -> None:
    fake = await settled(teams.scope(deletionPolicy="Delete"))
    fake.cluster.edit(REF, {"spec": {"deletionPolicy": "Retain"}})
    await settle(fake)
    assert fake.cluster.read(REF)["metadata"]["finalizers"] == []


async def test_a_duplicate_that_is_deleted_erases_nothing() -> None:
    fake = await settled(teams.scope("alpha"), ref=ObjectRef("KnowledgeScope", "demo", "alpha"))
    fake.cluster.put(teams.scope(deletionPolicy="Delete"))
    fake.cluster.edit(REF, {"metadata": {"finalizers": ["kais.io/finalizer"]}})
    fake.cluster.remove(REF)
    await step(fake)
    assert fake.knowledge.deleted_scopes == []
    assert REF not in fake.cluster.refs("KnowledgeScope")


async def test_a_deletion_does_not_wait_for_the_store_for_ever() -> None:
    fake = await settled(teams.scope(deletionPolicy="Delete"))
    fake.knowledge.away = True
    fake.cluster.remove(REF)
    await step(fake)
    plan = await step(fake)
    assert REF in fake.cluster.refs("KnowledgeScope")
    assert condition(fake, "Ready", REF) == (
        "False",
        "Deleting",
        (
            f"the knowledge of {PATH} is deleted when the knowledge service answers: "
            "delete_scope: the knowledge service does not answer"
        ),
    )
    assert plan.requeue_after.total_seconds() == 30
    fake.clock.advance(30)
    await step(fake)
    assert REF not in fake.cluster.refs("KnowledgeScope")
    (reference,) = fake.cluster.refs("ConfigMap")
    assert reference.namespace == "kais-system"
    assert json.loads(fake.cluster.read(reference)["data"]["calls.json"]) == [
        {"call": "delete_scope", "path": PATH}
    ]
    key = ObjectRef("Outbox", reference.namespace, reference.name)
    await fake.step(outbox.CONTROLLER, key)
    assert fake.cluster.refs("ConfigMap") == [reference]
    fake.knowledge.away = False
    await fake.step(outbox.CONTROLLER, key)
    assert fake.cluster.refs("ConfigMap") == []
    assert fake.knowledge.deleted_scopes == [PATH]


async def test_settings_that_are_declared_again_are_sent_again() -> None:
    fake = await settled(teams.scope(deletionPolicy="Delete", readOnly=True))
    fake.cluster.remove(REF)
    await step(fake)
    assert PATH not in fake.knowledge.scopes
    fake.cluster.put(teams.scope(deletionPolicy="Delete", readOnly=True))
    await settle(fake)
    assert fake.knowledge.scopes[PATH].read_only is True


async def deleted_while_the_store_is_away() -> tuple[FakeWorld, ObjectRef]:
    """A scope with a finalizer whose deletion is in the outbox; with the key of the outbox."""
    fake = await settled(teams.scope(deletionPolicy="Delete", readOnly=True))
    fake.knowledge.away = True
    fake.cluster.remove(REF)
    fake.clock.advance(30)
    await step(fake)
    (reference,) = fake.cluster.refs("ConfigMap")
    return fake, ObjectRef("Outbox", reference.namespace, reference.name)


async def test_a_scope_that_is_declared_again_waits_for_the_deletion_in_the_outbox() -> None:
    fake, key = await deleted_while_the_store_is_away()
    fake.cluster.put(teams.scope(deletionPolicy="Delete", readOnly=True))
    await settle(fake)
    fake.knowledge.away = False
    fake.knowledge.calls.clear()
    await settle(fake)
    assert "put_scope" not in fake.knowledge.calls
    assert condition(fake, "Configured", REF) == (
        "False",
        "DeletionPending",
        (
            f"ConfigMap/kais-system/{key.name} has yet to delete the earlier knowledge of {PATH},"
            " and all that is stored until then; the settings are sent after that"
        ),
    )
    assert condition(fake, "Ready", REF)[1] == "DeletionPending"
    await fake.step(outbox.CONTROLLER, key)
    await settle(fake)
    assert fake.knowledge.calls == ["delete_scope", "put_scope"]
    assert condition(fake, "Configured", REF)[0] == "True"
    assert fake.knowledge.scopes[PATH].read_only is True


async def test_a_scope_does_not_wait_for_a_deletion_that_was_rejected_for_good() -> None:
    fake, key = await deleted_while_the_store_is_away()
    outbox_ref = ObjectRef("ConfigMap", key.namespace, key.name)
    fake.cluster.edit(outbox_ref, {"metadata": {"annotations": {"kais.io/refused": "no"}}})
    fake.knowledge.away = False
    fake.cluster.put(teams.scope(deletionPolicy="Delete", readOnly=True))
    await settle(fake)
    assert condition(fake, "Configured", REF)[0] == "True"
    assert fake.knowledge.scopes[PATH].read_only is True


@pytest.mark.parametrize(
    "contents",
    [
        None,
        {},
        {"calls.json": "no JSON"},
        {"calls.json": "[1]"},
        {"calls.json": '[{"call": "delete_scope"}]'},
        {"calls.json": '[{"call": "delete_scope", "path": 1}]'},
        {"calls.json": '[{"call": "delete_scope", "path": "no path"}]'},
        {"calls.json": "[" * 100_000},
    ],
)
async def test_an_outbox_that_somebody_broke_holds_back_no_scope(
    contents: dict[str, str] | None,
) -> None:
    fake, key = await deleted_while_the_store_is_away()
    body = fake.cluster.read(ObjectRef("ConfigMap", key.namespace, key.name))
    fake.cluster.put(body | {"data": contents})
    fake.knowledge.away = False
    fake.cluster.put(teams.scope(deletionPolicy="Delete"))
    await settle(fake)
    assert condition(fake, "Configured", REF)[0] == "True"


async def test_a_scope_does_not_wait_for_the_deletion_of_another_path() -> None:
    fake, _ = await deleted_while_the_store_is_away()
    fake.knowledge.away = False
    fake.cluster.put(teams.scope(formation="other"))
    await settle(fake)
    assert condition(fake, "Configured", REF)[0] == "True"


async def test_the_knowledge_of_a_scope_that_the_store_never_had_counts_as_deleted() -> None:
    fake, key = await deleted_while_the_store_is_away()
    fake.knowledge.away = False
    missing = models.Problem(title="Not found", status=404, detail="", code="not-found")
    fake.knowledge.refusals["delete_scope"] = errors.NotFound("no such scope", problem=missing)
    await fake.step(outbox.CONTROLLER, key)
    assert fake.cluster.refs("ConfigMap") == []


async def test_each_condition_goes_with_the_store_and_comes_back() -> None:
    fake = await settled(teams.scope(readOnly=True))
    types = ("StoreReachable", "Configured", "Ready")
    assert {condition(fake, type_, REF)[0] for type_ in types} == {"True"}
    fake.cluster.edit(REF, {"spec": {"readOnly": False}})
    fake.knowledge.away = True
    for _ in range(2):
        await fake.step(knowledge_scope.CONTROLLER, REF)
    for type_ in types:
        assert condition(fake, type_, REF)[:2] == ("False", "StoreUnavailable")
    fake.knowledge.away = False
    await fake.settle(knowledge_scope.CONTROLLER, REF)
    assert {condition(fake, type_, REF)[0] for type_ in types} == {"True"}


async def test_everything_that_is_declared_reaches_the_store() -> None:
    fake = await settled(
        teams.scope(
            readOnly=True,
            inherit=False,
            retention={"maxFacts": 100, "ttlDays": 30.0, "halfLifeDays": 7.0},
            promotion={"policy": "Automatic", "minMissions": 2, "minConfidence": 0.9},
            injection={"enabled": False, "maxFacts": 3, "maxTokens": 200, "minConfidence": 0.8},
            extraction={"enabled": False, "maxFacts": 5, "model": "small"},
        )
    )
    scope_config = fake.knowledge.scopes["realm:demo/formation:team"]
    assert (scope_config.read_only, scope_config.inherit) == (True, False)
    assert scope_config.retention == models.Retention(
        max_facts=100, ttl_days=30.0, half_life_days=7.0
    )
    assert scope_config.promotion == models.Promotion(
        policy="Automatic", min_missions=2, min_confidence=0.9
    )
    assert scope_config.injection == models.Injection(
        enabled=False, max_facts=3, max_tokens=200, min_confidence=0.8
    )
    assert scope_config.extraction == models.ExtractionConfig(
        enabled=False, max_facts=5, model="small"
    )
