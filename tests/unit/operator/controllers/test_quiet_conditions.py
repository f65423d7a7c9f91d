"""Conditions that say why nothing is to be seen: no checks, a run that goes on, no sample."""

from __future__ import annotations

from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.planning.plan import ObjectRef
from tests.fakes import blueprints, teams
from tests.fakes.world import fake_world


async def test_a_mission_without_checks_says_what_decides() -> None:
    fake = await teams.started()
    assert teams.condition(fake, "ChecksPassed") == (
        "True",
        "NoChecks",
        "the mission declares no checks; the exit code decides",
    )


async def test_a_run_that_goes_on_is_recorded_when_it_has_ended() -> None:
    fake = await teams.started()
    assert teams.condition(fake, "Recorded") == (
        "False",
        "RunOpen",
        "the run is recorded when it has ended",
    )


async def test_a_template_that_cannot_be_sampled_says_which_parameter_lacks_a_value() -> None:
    head = blueprints.blueprint()
    head["spec"]["parameters"] = [{"name": "who", "type": "string"}]
    head["spec"]["formation"]["cells"][0]["replicas"] = 1
    head["spec"]["mission"] = {"objective": "greet {{ who }}"}
    fake = fake_world(head)
    ref = ObjectRef("Blueprint", "demo", head["metadata"]["name"])
    await fake.settle(blueprint.CONTROLLER, ref)
    (revision,) = fake.cluster.refs("BlueprintRevision")
    await fake.settle(blueprint_revision.CONTROLLER, revision)
    assert teams.condition(fake, "Compiled", revision) == (
        "True",
        "NotSampled",
        "the template parses; it was not rendered, because 'who' has neither default nor example",
    )
