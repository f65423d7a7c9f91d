"""Blueprints and their revisions over a whole world in memory: what settles, and how."""

from datetime import timedelta

import pytest

from kais_operator import errors
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import models
from tests.fakes import blueprints
from tests.fakes.blueprint_builder import REF, condition, edit, numbers, settle, status, world
from tests.fakes.renderer import InProcessRenderer

BAD = {"objective": "explain {{ subject }}"}


async def test_a_new_blueprint_gets_its_first_revision_which_serves() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    (ref,) = fake.cluster.refs("BlueprintRevision")
    revision = fake.cluster.read(ref)
    assert ref.name == "team-r00001"
    assert "ownerReferences" not in revision["metadata"]
    assert revision["metadata"]["labels"]["kais.io/blueprint"] == "team"
    assert revision["metadata"]["labels"]["kais.io/revision"] == "1"
    assert len(revision["metadata"]["labels"]["kais.io/spec-hash"]) == 16
    assert (status(fake)["latestRevision"], status(fake)["servedRevision"]) == (1, 1)
    assert status(fake)["display"]["parameters"] == "topic*, count"
    assert condition(fake, "Compiled")["reason"] == "Compiled"
    ready = condition(fake, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Served")
    assert ready["message"] == "revision 1 serves"
    assert condition(fake, "Compatible", ref)["reason"] == "FirstRevision"
    assert condition(fake, "Ready", ref)["status"] == "True"


async def test_the_number_is_written_down_before_the_revision_is_made() -> None:
    fake = world(blueprints.blueprint())
    fake.cluster.fail("create", errors.ClusterUnavailable("cut"), kind="BlueprintRevision")
    with pytest.raises(errors.ClusterUnavailable):
        await fake.step(blueprint.CONTROLLER, REF)
    annotations = fake.cluster.read(REF)["metadata"]["annotations"]
    assert annotations["kais.io/last-revision"] == "1"
    await settle(fake)
    assert numbers(fake) == [1]


async def test_a_number_that_was_written_down_for_one_spec_is_never_given_to_another() -> None:
    fake = world(blueprints.blueprint())
    fake.cluster.fail("create", errors.ClusterUnavailable("cut"), kind="BlueprintRevision")
    with pytest.raises(errors.ClusterUnavailable):
        await fake.step(blueprint.CONTROLLER, REF)
    await edit(fake, description="edited before the first revision was made")
    assert numbers(fake) == [2]


async def test_a_restored_blueprint_that_comes_before_its_revision_makes_it_again() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    fake.cluster.remove(ObjectRef("BlueprintRevision", REF.namespace, f"{REF.name}-r00001"))
    await settle(fake)
    assert numbers(fake) == [1]


async def test_an_edit_makes_a_revision_that_says_what_it_changes() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, mission={"objective": "mend {{ topic }}"})
    assert numbers(fake) == [1, 2]
    second = fake.cluster.read(ObjectRef("BlueprintRevision", "demo", "team-r00002"))
    assert "mission.objective changed" in second["spec"]["changes"]
    assert second["spec"]["breaking"] == []
    assert [v["version"] for v in status(fake)["versions"]] == [2, 1]
    assert status(fake)["servedRevision"] == 2


async def test_a_change_that_breaks_callers_is_said_and_serves_all_the_same() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    parameters = [*blueprints.blueprint()["spec"]["parameters"], {"name": "b", "type": "string"}]
    await edit(fake, parameters=parameters)
    ref = ObjectRef("BlueprintRevision", "demo", "team-r00002")
    compatible = condition(fake, "Compatible", ref)
    assert (compatible["status"], compatible["reason"]) == ("False", "BreakingChange")
    assert "parameter 'b' was added and is required" in compatible["message"]
    assert status(fake)["servedRevision"] == 2


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"evidence": {"successRate": 0.9}}, id="evidence is no part of a revision"),
        pytest.param({"revisionHistoryLimit": 3}, id="nor is the number of revisions kept"),
    ],
)
async def test_an_edit_that_changes_no_rendering_makes_no_revision(spec: Body) -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, **spec)
    assert numbers(fake) == [1]


async def test_a_bad_edit_says_where_and_the_last_good_revision_keeps_serving() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, mission=BAD)
    compiled = condition(fake, "Compiled")
    assert (compiled["status"], compiled["reason"]) == ("False", "TemplateError")
    assert "mission.objective, line 1, column" in compiled["message"]
    assert "'subject' is not declared" in compiled["message"]
    assert "revision 1 keeps serving" in compiled["message"]
    assert (status(fake)["latestRevision"], status(fake)["servedRevision"]) == (2, 1)
    ready = condition(fake, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "LastGoodServed")
    assert "revision 1 serves, because revision 2 does not compile" in ready["message"]
    await edit(fake, mission={"objective": "explain {{ topic }} again"})
    assert condition(fake, "Compiled")["status"] == "True"
    assert status(fake)["servedRevision"] == 3


async def test_a_blueprint_whose_only_revision_is_bad_serves_nothing() -> None:
    fake = world(blueprints.blueprint(mission=BAD))
    await settle(fake)
    ready = condition(fake, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoGoodRevision")
    assert "servedRevision" not in status(fake)


async def test_going_back_makes_no_new_revision_and_serves_the_old_one() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, mission={"objective": "mend {{ topic }}"})
    await edit(fake, mission=blueprints.blueprint()["spec"]["mission"])
    assert numbers(fake) == [1, 2]
    assert (status(fake)["latestRevision"], status(fake)["servedRevision"]) == (2, 1)
    await edit(fake, mission=BAD)
    assert (status(fake)["latestRevision"], status(fake)["servedRevision"]) == (3, 1)


async def test_a_wiped_status_comes_back_the_same() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, mission={"objective": "mend {{ topic }}"})
    await edit(fake, mission=blueprints.blueprint()["spec"]["mission"])
    await edit(fake, mission=BAD)
    initial_status = status(fake)
    fake.cluster.set_status(REF, {})
    await settle(fake)
    assert status(fake) == initial_status


async def test_revisions_and_what_their_compiler_says_are_events() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, mission=BAD)
    messages = [
        (e["type"], e["reason"]) for e in fake.cluster.events if e["about"].kind == "Blueprint"
    ]
    assert messages == [
        ("Normal", "RevisionMade"),
        ("Normal", "Compiled"),
        ("Normal", "RevisionMade"),
        ("Warning", "TemplateError"),
    ]
    assert fake.cluster.events[-1]["message"].endswith("; revision 1 keeps serving")


async def test_an_idle_pass_writes_nothing() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    count = len(fake.cluster.writes)
    fake.clock.advance(3600)
    await settle(fake)
    assert len(fake.cluster.writes) == count


async def test_numbers_go_on_after_the_ledger_when_all_objects_were_lost() -> None:
    fake = world(blueprints.blueprint())
    run = models.RunIn(namespace="demo", scope="realm:demo", blueprint="team", revision=7)
    await fake.knowledge.put_run("run-1", run)
    await settle(fake)
    assert numbers(fake) == [8]


async def test_a_first_revision_waits_for_a_store_that_is_away_and_says_so() -> None:
    """A Blueprint of this name may have been here before; its numbers must not be given again."""
    fake = world(blueprints.blueprint())
    run = models.RunIn(namespace="demo", scope="realm:demo", blueprint="team", revision=7)
    await fake.knowledge.put_run("run-1", run)
    fake.knowledge.away = True
    plan = await fake.settle(blueprint.CONTROLLER, REF)
    assert plan is not None
    assert numbers(fake) == []
    ready = condition(fake, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "StoreUnavailable")
    assert ready["message"].startswith(
        "nothing can be used yet: its first revision waits for the knowledge service, which knows "
        "the revisions that Blueprints of this name had before: stats_batch: "
    )
    assert condition(fake, "Compiled")["status"] == "True"
    assert not {"latestRevision", "servedRevision"} & status(fake).keys()
    assert plan.requeue_after == timedelta(seconds=5)
    fake.knowledge.away = False
    await settle(fake)
    assert numbers(fake) == [8]
    assert condition(fake, "Ready")["status"] == "True"


async def test_a_store_that_is_away_does_not_hold_up_a_revision_after_another() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    fake.knowledge.away = True
    fake.cluster.edit(REF, {"spec": {"description": "another"}})
    await settle(fake)
    assert numbers(fake) == [1, 2]
    assert "the knowledge service does not answer" in condition(fake, "Ready")["message"]


async def test_a_restored_blueprint_is_numbered_by_its_annotation_without_the_store() -> None:
    body = blueprints.blueprint()
    body["metadata"]["annotations"] = {"kais.io/last-revision": "4"}
    fake = world(body)
    fake.knowledge.away = True
    await settle(fake)
    assert numbers(fake) == [5]


async def test_a_blueprint_made_again_goes_on_from_its_revisions_without_the_store() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    fake.cluster.vanish(REF)
    fake.cluster.put(blueprints.blueprint(description="made again"))
    fake.knowledge.away = True
    await settle(fake)
    assert numbers(fake) == [1, 2]


async def test_statistics_come_from_the_ledger_and_stay_while_it_is_silent() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    for number, outcome in enumerate(["Succeeded", "Succeeded", "Failed", "Cancelled", None]):
        run = models.RunIn(
            namespace="demo",
            scope="realm:demo",
            blueprint="team",
            revision=1,
            outcome=outcome,  # type: ignore[arg-type]
        )
        await fake.knowledge.put_run(f"run-{number}", run)
    fake.clock.advance(60)
    fake.sync_state.request_refresh("demo", "team", is_urgent=True)
    await fake.refresh_stats()
    await settle(fake)
    observed_status = status(fake)
    assert [
        observed_status[k] for k in ("usageCount", "running", "succeeded", "failed", "excluded")
    ] == [*(5, 1, 2, 1, 1)]
    assert observed_status["avgSuccessRate"] == 0.6667
    assert 0.2 < observed_status["successInterval"]["low"] < 0.3
    assert observed_status["display"]["success"] == "67%"
    assert observed_status["display"]["interval"] == "21-94%"
    assert observed_status["versions"][0]["usageCount"] == 5
    revision = fake.cluster.read(ObjectRef("BlueprintRevision", "demo", "team-r00001"))["status"]
    assert (revision["usageCount"], revision["display"]["success"]) == (5, "67%")

    restarted = world(fake.cluster.read(REF))
    for ref in fake.cluster.refs("BlueprintRevision"):
        restarted.cluster.put(fake.cluster.read(ref))
    restarted.knowledge.away = True
    await settle(restarted)
    assert status(restarted)["usageCount"] == 5
    assert status(restarted)["display"]["interval"] == "21-94%"


EVIDENCE = {
    "successRate": 0.9,
    "avgCompletionTime": "284s",
    "avgCost": 1.2,
    "experiments": [{"name": "spring", "finding": "it works"}, {"name": "autumn"}],
}


async def test_what_the_author_claims_stands_beside_what_was_measured() -> None:
    fake = world(blueprints.blueprint(evidence=EVIDENCE))
    await settle(fake)
    assert condition(fake, "Ready")["message"].startswith(
        "revision 1 serves; its author claims 90%, 284s, $1.20; measured here: not known yet"
    )
    for number, outcome in enumerate([*["Succeeded"] * 6, *["Failed"] * 2, None]):
        run = models.RunIn(
            namespace="demo",
            scope="realm:demo",
            blueprint="team",
            revision=1,
            outcome=outcome,  # type: ignore[arg-type]
        )
        await fake.knowledge.put_run(f"run-{number}", run)
    await fake.refresh_stats()
    await settle(fake)
    assert condition(fake, "Ready")["message"] == (
        "revision 1 serves; its author claims 90%, 284s, $1.20; measured here: 6 of 8 succeeded; "
        "evidence.experiments 'autumn' cannot be looked up here; write its finding"
    )
    assert status(fake)["display"]["claimed"] == "90%, 284s, $1.20"


async def test_evidence_is_no_part_of_what_serves() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    await edit(fake, evidence=EVIDENCE)
    assert numbers(fake) == [1]
    await edit(fake, evidence={"experiments": [{"name": f"e{i}"} for i in range(8)]})
    assert (
        "'e0', 'e1', 'e2', 'e3', 'e4' and 3 more cannot be looked up"
        in (condition(fake, "Ready")["message"])
    )


async def test_a_template_that_passes_a_limit_of_time_is_said_and_tried_again() -> None:
    fake = world(blueprints.blueprint())
    renderer = fake.world.renderer
    assert isinstance(renderer, InProcessRenderer)
    renderer.fails = [errors.RenderingFailed("rendering took more than 2 s", cap="time")]
    plan = await fake.step(blueprint.CONTROLLER, REF)
    assert plan is not None
    assert plan.requeue_after is not None
    assert "rendering took more than 2 s" in condition(fake, "Compiled")["message"]
    await settle(fake)
    assert condition(fake, "Compiled")["status"] == "True"
