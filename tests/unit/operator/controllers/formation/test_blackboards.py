"""What cells with the tool blackboard learn from their Formation and their Mission."""

from __future__ import annotations

import json

import pytest

from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}
STIGMERGY = {"type": "stigmergy", "blackboard": {"decayMinutes": 30}}


async def team(tools: list[Body], *, annotations: Body | None = None, **spec: object) -> FakeWorld:
    lead = {"mode": "Task", "mind": MIND, "tools": tools}
    mission = teams.work()
    mission["metadata"]["annotations"] = annotations or {}
    formation = teams.team(cells=[{"name": "lead", "spec": lead}], **spec)
    fake = fake_world(formation, mission)
    await teams.settle_team(fake)
    await teams.settle(fake)
    return fake


def rule(fake: FakeWorld) -> Body:
    body = fake.cluster.read(ObjectRef("ConfigMap", "demo", "topology-team"))
    document: Body = json.loads(body["data"]["topology.json"])
    return document


def arm(fake: FakeWorld) -> str | None:
    pod = fake.cluster.read(teams.job_ref(1))["spec"]["template"]["spec"]
    variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    return variables.get("KAIS_ARM")


async def test_cells_learn_how_fast_marks_expire() -> None:
    fake = await team([{"name": "blackboard"}], topology=STIGMERGY, workspace={})
    assert rule(fake)["blackboard"] == {"decayMinutes": 30}


@pytest.mark.parametrize(
    "spec",
    [{"topology": STIGMERGY}, {"workspace": {}, "topology": {"type": "full_mesh"}}],
    ids=["no workspace", "no blackboard"],
)
async def test_without_a_common_place_there_is_no_blackboard(spec: Body) -> None:
    assert "blackboard" not in rule(await team([], **spec))


async def test_a_task_with_a_blackboard_learns_its_arm() -> None:
    tools = [{"name": "blackboard"}]
    assert arm(await team(tools, topology=STIGMERGY, workspace={})) == "on"
    assert arm(await team([], topology=STIGMERGY, workspace={})) is None
