"""What an attempt is given of what is known, and what is said when it is not."""

import json
from typing import Any

import pytest

from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.knowledge import recalled_fact
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld, fake_world

MAP = ObjectRef("ConfigMap", "demo", "doctor-a1-knowledge")


def metadata(fake: FakeWorld) -> Body:
    return dict(fake.cluster.read(MISSION)["metadata"])


async def test_the_recall_is_exactly_the_cells_own_view() -> None:
    fake = await teams.ready_world(teams.work(entrypoint={"cell": "lead", "message": "look twice"}))
    fact = recalled_fact("fact-1", "images need a registry", at=fake.clock.now())
    fake.knowledge.facts.append(fact)
    await teams.settle(fake)
    (recall_request,) = fake.knowledge.recalls
    assert recall_request.act_as is not None
    assert (recall_request.act_as.namespace, recall_request.act_as.service_account) == (
        "demo",
        "team-lead-0",
    )
    assert recall_request.query == "explain the failing pods\nlook twice"
    assert (recall_request.limit, recall_request.max_tokens, recall_request.min_confidence) == (
        20,
        1500,
        0.5,
    )
    assert (recall_request.run, recall_request.attempt) == (status(fake)["runId"], 1)
    document = json.loads(fake.cluster.read(MAP)["data"]["knowledge.json"])
    assert [first_fact["id"] for first_fact in document["facts"]] == ["fact-1"]
    assert status(fake)["knowledge"] == {"receipt": "receipt-1", "injected": 1}
    assert status(fake)["display"]["facts"] == "1 in"


async def test_the_map_belongs_to_its_job_and_cannot_be_changed() -> None:
    fake = await teams.started()
    manifest = fake.cluster.read(MAP)
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert owner["uid"] == fake.cluster.read(job_ref())["metadata"]["uid"]
    assert manifest["immutable"] is True
    assert manifest["metadata"]["labels"]["kais.io/mission"] == "doctor"


async def test_the_nearest_declared_scope_bounds_what_is_given() -> None:
    bounds = {"maxFacts": 3, "maxTokens": 90, "minConfidence": 0.9}
    fake = await teams.started(
        teams.work(),
        teams.scope("realm", level="realm", formation=None, injection={"maxFacts": 9}),
        teams.scope(injection=bounds),
    )
    (recall_request,) = fake.knowledge.recalls
    assert (recall_request.limit, recall_request.max_tokens, recall_request.min_confidence) == (
        3,
        90,
        0.9,
    )


def without_injection(**changes: Any) -> tuple[Body, ...]:
    return (teams.work(**changes),)


OFF = {
    "the mission says so": without_injection(knowledge={"inject": False}),
    "its use is held out": without_injection(metadata={"annotations": {"kais.io/arm": "holdout"}}),
    "its scope says so": (teams.work(), teams.scope(injection={"enabled": False})),
}


@pytest.mark.parametrize("bodies", OFF.values(), ids=OFF)
async def test_nothing_is_recalled_when(bodies: tuple[Body, ...]) -> None:
    fake = await teams.started(*bodies)
    document = json.loads(fake.cluster.read(MAP)["data"]["knowledge.json"])
    assert document["facts"] == []
    assert document["reason"] == "injection is off"
    assert fake.knowledge.recalls == []
    assert status(fake)["knowledge"] == {"injected": 0}


async def test_nothing_is_recalled_when_the_cell_says_so() -> None:
    cells = [{"name": "lead", "spec": teams.task(knowledge={"inject": False})}]
    fake = fake_world(teams.team(cells=cells), teams.work())
    await teams.settle_team(fake)
    await teams.settle(fake)
    assert fake.knowledge.recalls == []


async def test_a_store_that_is_away_does_not_stop_a_mission() -> None:
    fake = await teams.ready_world()
    fake.knowledge.away = True
    for _ in range(3):
        await teams.pass_(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    document = json.loads(fake.cluster.read(MAP)["data"]["knowledge.json"])
    assert document["facts"] == []
    assert "does not answer" in document["reason"]
    state, reason, message = condition(fake, "Recorded")
    assert (state, reason) == ("False", "StoreUnavailable")
    assert message.endswith(
        "the knowledge service does not answer; the run is recorded when it answers"
    )


async def test_a_map_of_that_name_that_is_somebody_elses_is_named() -> None:
    fake = await teams.ready_world()
    metadata = {"name": MAP.name, "namespace": MAP.namespace}
    fake.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await teams.settle(fake)
    assert condition(fake, "Started") == (
        "False",
        "NameTaken",
        (
            "ConfigMap/demo/doctor-a1-knowledge exists already and does not belong to "
            "Job/demo/doctor-a1; delete or rename it, it is left untouched"
        ),
    )
    fake.cluster.remove(MAP)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForPods"
    assert MAP in fake.cluster.refs("ConfigMap")


async def test_the_map_of_an_earlier_run_is_waited_for_and_not_called_somebody_elses() -> None:
    fake = await teams.ready_world()
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job_ref().name,
        "uid": "uid-of-the-run-before",
        "controller": True,
    }
    metadata = {"name": MAP.name, "namespace": MAP.namespace, "ownerReferences": [owner]}
    fake.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await teams.settle(fake)
    assert condition(fake, "Started") == (
        "False",
        "Deleting",
        (
            "ConfigMap/demo/doctor-a1-knowledge belongs to an earlier Job/demo/doctor-a1, which was"
            " deleted; it is created again when Kubernetes has removed it"
        ),
    )
    fake.cluster.remove(MAP)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForPods"


async def test_a_cell_may_follow_the_settings_of_a_scope_by_name() -> None:
    cells = [{"name": "lead", "spec": teams.task(knowledge={"scopeRef": "strict"})}]
    strict = teams.scope("strict", formation="other", injection={"maxFacts": 2})
    fake = fake_world(teams.team(cells=cells), teams.work(), teams.scope(), strict)
    await teams.settle_team(fake)
    await teams.settle(fake)
    (recall_request,) = fake.knowledge.recalls
    assert recall_request.limit == 2
