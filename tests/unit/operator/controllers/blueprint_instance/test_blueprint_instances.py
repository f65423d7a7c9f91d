"""Uses of a Blueprint over a whole world in memory: what settles, and how."""

import pytest

from kais import names
from kais_operator import errors
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from tests.fakes import blueprints
from tests.fakes.instance_builder import (
    FORMATION,
    MISSION,
    REF,
    TEAM,
    condition,
    end,
    metadata,
    report_cells_ready,
    settle,
    status,
    told_of,
    world,
)
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import fake_world


async def test_a_revision_that_is_just_being_made_is_no_trouble() -> None:
    head = blueprints.blueprint()
    head["metadata"]["annotations"] = {"kais.io/served-revision": "1", "kais.io/last-revision": "1"}
    fake = fake_world(head, blueprints.instance(), renderer=InProcessRenderer())
    await settle(fake)
    assert condition(fake, "BlueprintResolved") == (
        "Unknown",
        "Reconciling",
        "BlueprintRevision/demo/team-r00001 is being made",
    )
    assert told_of(fake, "BlueprintInstance") == []


async def test_parameters_that_break_rules_are_an_event_too() -> None:
    fake = await world(blueprints.instance(parameters={"topic": "pods", "count": "three"}))
    await settle(fake)
    ((reason, message),) = told_of(fake, "BlueprintInstance")
    assert reason == "ParametersInvalid"
    assert "count" in message


async def test_a_use_gets_its_formation_and_mission_under_one_run() -> None:
    fake = await world(blueprints.instance(parameters={"topic": "pods", "count": 3}))
    await settle(fake)
    own_metadata = metadata(fake)
    run_id = own_metadata["annotations"]["kais.io/run-id"]
    assert run_id == names.run_id(own_metadata["uid"])
    assert own_metadata["labels"] == {"kais.io/blueprint": "team", "kais.io/revision": "1"}
    for ref in (FORMATION, MISSION):
        child = metadata(fake, ref)
        assert child["labels"]["app.kubernetes.io/managed-by"] == "kais"
        assert child["labels"]["kais.io/instance"] == "use"
        assert child["labels"]["kais.io/blueprint"] == "team"
        assert child["labels"]["kais.io/revision"] == "1"
        (owner,) = child["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "BlueprintInstance",
            own_metadata["uid"],
            True,
        )
    formation = fake.cluster.read(FORMATION)["spec"]
    assert formation["cells"][0]["replicas"] == 3
    assert formation["knowledge"] == {"scope": "team"}
    mission = fake.cluster.read(MISSION)
    assert mission["spec"]["formationRef"] == "use"
    assert mission["spec"]["objective"] == "explain pods"
    assert mission["metadata"]["finalizers"] == ["kais.io/finalizer"]
    assert mission["metadata"]["annotations"] == {
        "kais.io/run-id": run_id,
        "kais.io/run-object": names.short_hash("Mission/demo/use", length=16),
        "kais.io/arm": "on",
        "kais.io/traceparent": own_metadata["annotations"]["kais.io/traceparent"],
        "kais.io/parameters": '{"topic": "pods", "count": 3}',
    }
    observed_status = status(fake)
    assert (observed_status["revisionInUse"], observed_status["runId"]) == (1, run_id)
    assert (observed_status["formation"], observed_status["mission"], observed_status["phase"]) == (
        "use",
        "use",
        "Running",
    )
    assert condition(fake, "Applied") == (
        "True",
        "Applied",
        "Formation/demo/use and Mission/demo/use are stored",
    )
    assert [reason for reason, _ in told_of(fake, "BlueprintInstance")] == ["RunBegun"]


async def test_the_identity_of_the_run_is_stamped_before_anything_is_made() -> None:
    fake = await world()
    fake.cluster.writes.clear()
    await settle(fake)
    verbs = [(verb, ref.kind) for verb, ref in fake.cluster.writes]
    assert verbs[:3] == [
        ("patch", "BlueprintInstance"),
        ("create", "Formation"),
        ("create", "Mission"),
    ]
    assert [verb for verb, _ in verbs].count("status") == 1


@pytest.mark.parametrize("kind", ["Formation", "Mission"])
async def test_a_crash_before_a_child_is_mended_without_a_second_run(kind: str) -> None:
    fake = await world()
    fake.cluster.fail("create", errors.ClusterUnavailable("cut"), kind=kind)
    with pytest.raises(errors.ClusterUnavailable):
        await fake.step(blueprint_instance.CONTROLLER, REF)
    run_id = metadata(fake)["annotations"]["kais.io/run-id"]
    await settle(fake)
    assert metadata(fake, MISSION)["annotations"]["kais.io/run-id"] == run_id


async def test_all_violations_are_listed_at_once_and_nothing_is_made() -> None:
    fake = await world(blueprints.instance(parameters={"count": "9", "colour": "red"}))
    await settle(fake)
    state, reason, message = condition(fake, "ParametersValid")
    assert (state, reason) == ("False", "ParametersInvalid")
    for text in ("topic", "count", "colour"):
        assert text in message
    assert condition(fake, "Rendered") == ("Unknown", "Reconciling", "waits for ParametersValid")
    assert condition(fake, "Ready")[1] == "ParametersInvalid"
    assert fake.cluster.refs("Formation") == []
    assert "kais.io/run-id" not in metadata(fake).get("annotations", {})
    assert status(fake)["phase"] == "Pending"
    fake.cluster.edit(REF, {"spec": {"parameters": {"topic": "x", "count": 2, "colour": None}}})
    await settle(fake)
    assert condition(fake, "ParametersValid")[0] == "True"
    assert fake.cluster.refs("Formation") == [FORMATION]


async def test_an_unknown_parameter_alone_has_its_own_reason() -> None:
    fake = await world(blueprints.instance(parameters={"topic": "x", "topik": "y"}))
    await settle(fake)
    assert condition(fake, "ParametersValid")[1] == "UnknownParameter"
    assert "topik" in condition(fake, "ParametersValid")[2]


async def test_a_template_that_fails_with_these_values_is_said_with_its_leaf() -> None:
    head = blueprints.blueprint(mission={"objective": "{{ 10 // (count - 1) }} {{ topic }}"})
    head["spec"]["parameters"][1]["default"] = 2
    fake = await world(blueprints.instance(parameters={"topic": "x", "count": 1}), head=head)
    await settle(fake)
    state, reason, message = condition(fake, "Rendered")
    assert (state, reason) == ("False", "RenderFailed")
    assert "mission.objective" in message
    assert fake.cluster.refs("Formation") == []


async def test_a_missing_blueprint_is_waited_for() -> None:
    fake = fake_world(blueprints.instance(), renderer=InProcessRenderer())
    plan = await fake.settle(blueprint_instance.CONTROLLER, REF)
    assert plan is not None
    assert plan.requeue_after is not None
    assert condition(fake, "BlueprintResolved") == (
        "False",
        "BlueprintNotFound",
        "Blueprint/demo/team does not exist; apply it, or correct spec.blueprintRef.name",
    )
    fake.cluster.put(blueprints.blueprint())
    await settle(fake)
    assert condition(fake, "BlueprintResolved")[:2] == ("Unknown", "Reconciling")
    await fake.settle(blueprint.CONTROLLER, TEAM)
    await settle(fake)
    assert condition(fake, "Applied")[0] == "True"


async def test_a_blueprint_of_which_nothing_compiles_says_why() -> None:
    fake = await world(head=blueprints.blueprint(mission={"objective": "{{ subject }}"}))
    await settle(fake)
    state, reason, message = condition(fake, "BlueprintResolved")
    assert (state, reason) == ("False", "NoGoodRevision")
    assert "no revision of Blueprint/demo/team compiles" in message
    assert "'subject' is not declared" in message


async def test_a_revision_that_is_not_kept_is_named() -> None:
    fake = await world(blueprints.instance(blueprintRef={"name": "team", "revision": 9}))
    await settle(fake)
    state, reason, message = condition(fake, "BlueprintResolved")
    assert (state, reason) == ("False", "RevisionNotFound")
    assert "BlueprintRevision/demo/team-r00009 does not exist" in message


async def test_editing_and_deleting_the_blueprint_never_touches_a_use() -> None:
    fake = await world()
    await settle(fake)
    fake.cluster.edit(TEAM, {"spec": {"mission": {"objective": "mend {{ topic }}"}}})
    await fake.settle(blueprint.CONTROLLER, TEAM)
    initial_count = len(fake.cluster.writes)
    await settle(fake)
    fake.cluster.set_status(REF, {})
    await settle(fake)
    fake.cluster.remove(TEAM)
    for _ in range(2):
        await fake.step(blueprint.CONTROLLER, TEAM)
        fake.clock.advance(121)
    await settle(fake)
    assert status(fake)["revisionInUse"] == 1
    assert fake.cluster.read(MISSION)["spec"]["objective"] == "explain pods"
    touched = {ref.kind for _, ref in fake.cluster.writes[initial_count:]}
    assert touched == {"BlueprintInstance", "BlueprintRevision"}  # status; collected revision 2
    assert [r.name for r in fake.cluster.refs("BlueprintRevision")] == ["team-r00001"]


async def test_a_formation_of_that_name_that_is_not_ours_stops_the_use_before_its_run() -> None:
    foreign = {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "use", "namespace": "demo"},
        "spec": {"cells": []},
    }
    fake = await world(blueprints.instance(), foreign)
    initial_state = fake.cluster.read(FORMATION)
    plan = await fake.settle(blueprint_instance.CONTROLLER, REF)
    state, reason, message = condition(fake, "Applied")
    assert (state, reason) == ("False", "NameTaken")
    assert "Formation/demo/use exists already" in message
    assert fake.cluster.read(FORMATION) == initial_state
    assert fake.cluster.refs("Mission") == []
    assert "annotations" not in metadata(fake)
    assert plan is not None
    assert plan.requeue_after is not None
    fake.cluster.remove(FORMATION)
    await settle(fake)
    assert condition(fake, "Applied")[0] == "True"


async def test_drift_of_the_formation_is_repaired_even_while_the_mission_runs() -> None:
    fake = await world()
    await settle(fake)
    fake.cluster.edit(FORMATION, {"spec": {"knowledge": {"scope": "elsewhere"}}})
    await settle(fake)
    assert fake.cluster.read(FORMATION)["spec"]["knowledge"]["scope"] == "team"


async def test_new_parameters_wait_until_the_mission_has_ended() -> None:
    fake = await world()
    await settle(fake)
    fake.cluster.edit(REF, {"spec": {"parameters": {"count": 4}}})
    await settle(fake)
    assert condition(fake, "Applied") == (
        "False",
        "UpdateWaiting",
        "Formation/demo/use is changed when Mission/demo/use has ended",
    )
    assert fake.cluster.read(FORMATION)["spec"]["cells"][0]["replicas"] == 1
    end(fake, "Succeeded")
    await settle(fake)
    assert fake.cluster.read(FORMATION)["spec"]["cells"][0]["replicas"] == 4
    assert fake.cluster.refs("Mission") == [MISSION]


async def test_a_suspended_use_starts_nothing_until_it_is_released() -> None:
    fake = await world(blueprints.instance(suspend=True))
    await settle(fake)
    state, reason, message = condition(fake, "Applied")
    assert (state, reason) == ("False", "Suspended")
    assert "set it to false to begin" in message
    assert fake.cluster.refs("Formation") == []
    fake.cluster.edit(REF, {"spec": {"suspend": False}})
    await settle(fake)
    assert fake.cluster.refs("Mission") == [MISSION]


async def test_a_store_that_is_away_does_not_hold_up_a_use() -> None:
    fake = await world(head=blueprints.blueprint(mission=None))
    fake.knowledge.away = True
    await fake.step(blueprint_instance.CONTROLLER, REF)
    assert condition(fake, "Applied")[0] == "True"
    fake.knowledge.away = False
    await settle(fake)
    assert len(fake.knowledge.runs) == 1


async def test_another_scope_keeps_a_use_apart() -> None:
    fake = await world(blueprints.instance(knowledge={"scope": "alone", "extract": False}))
    await settle(fake)
    assert fake.cluster.read(FORMATION)["spec"]["knowledge"] == {"scope": "alone"}
    assert fake.cluster.read(MISSION)["spec"]["knowledge"] == {"extract": False}


async def test_a_rendered_object_too_large_for_etcd_is_refused_with_its_size() -> None:
    """The output of a template is capped, but JSON writes a control character in six bytes."""
    container = {"image": "worker:1", "args": ["{{ '\\x01' * 62000 }}"] * 4}
    cells = [{"name": "worker", "spec": {"mode": "Task", "container": container}}]
    head = blueprints.blueprint(formation={"cells": cells})
    fake = await world(head=head)
    await settle(fake)
    status, reason, message = condition(fake, "Rendered")
    assert (status, reason) == ("False", "RenderFailed")
    assert "Formation/demo/use would be 1488" in message
    assert "bytes, the limit is 1400000; reduce what is rendered into it" in message
    assert fake.cluster.refs("Formation") == []


async def test_an_idle_pass_writes_nothing() -> None:
    fake = await world()
    await settle(fake)
    report_cells_ready(fake)
    end(fake, "Succeeded")
    await settle(fake)
    count = len(fake.cluster.writes)
    fake.clock.advance(3600)
    await settle(fake)
    assert len(fake.cluster.writes) == count
