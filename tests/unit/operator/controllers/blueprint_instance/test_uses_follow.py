"""Uses that follow their Blueprint, parameters that may not change, and drift."""

import json
from typing import Any

import pytest

from kais_operator.controllers.formation import observe as formation_controller
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import blueprints, uses
from tests.fakes.uses import FORMATION, MISSION, TEAM, USE, condition, metadata, status
from tests.fakes.world import FakeWorld

FOLLOWING = {"updatePolicy": "Automatic"}
NEW_IMAGE = {"cells": [{"name": "worker", "spec": {"container": {"image": "worker:2"}}}]}
OTHER_DEFAULT = [
    {"name": "topic", "type": "string", "example": "pods"},
    {"name": "count", "type": "integer", "default": 4, "min": 1, "max": 5},
]


async def following(**spec: object) -> FakeWorld:
    fake = await uses.world(blueprints.instance(**FOLLOWING, **spec))
    await uses.settle(fake)
    return fake


def image(fake: FakeWorld) -> str:
    cell = fake.cluster.read(FORMATION)["spec"]["cells"][0]
    return str(cell["spec"]["container"]["image"])


async def test_an_automatic_use_moves_to_a_compatible_revision_and_starts_nothing() -> None:
    fake = await following()
    uses.end(fake)
    await uses.settle(fake)
    mission = fake.cluster.read(MISSION)
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert image(fake) == "worker:2"
    assert metadata(fake)["labels"]["kais.io/revision"] == "2"
    assert status(fake)["revisionInUse"] == 2
    assert fake.cluster.read(MISSION) == mission
    assert status(fake)["outcome"] == "Succeeded"


async def test_an_automatic_use_waits_until_its_mission_has_ended() -> None:
    fake = await following()
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert image(fake) == "worker:1"
    assert status(fake)["revisionInUse"] == 1
    assert condition(fake, "BlueprintResolved") == (
        "True",
        "Resolved",
        "uses revision 1 of Blueprint team; moves to revision 2 when the mission has ended",
    )
    fake.cluster.edit(FORMATION, {"spec": {"cells": []}})
    await uses.settle(fake)
    assert image(fake) == "worker:1", "drift is repaired while an update waits"
    uses.end(fake)
    await uses.settle(fake)
    assert image(fake) == "worker:2"


async def test_an_automatic_use_stops_at_a_revision_that_may_break_it() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, parameters=OTHER_DEFAULT, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert image(fake) == "worker:1"
    assert condition(fake, "BlueprintResolved")[2] == (
        "uses revision 1 of Blueprint team; updatePolicy Automatic stops here, because "
        "revision 2 may break it: parameter 'count' changed its default from 1 to 4; annotate it "
        "kais.io/allow-breaking-changes=true, or name the revision in spec.blueprintRef.revision"
    )
    assert condition(fake, "Applied")[0] == "True"


async def test_an_automatic_use_whose_owner_allows_it_moves_on_all_the_same() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, parameters=OTHER_DEFAULT, formation=NEW_IMAGE)
    fake.cluster.edit(
        USE, {"metadata": {"annotations": {"kais.io/allow-breaking-changes": "true"}}}
    )
    await uses.settle(fake)
    assert image(fake) == "worker:2"


async def test_an_automatic_use_keeps_its_files_when_a_revision_has_no_workspace() -> None:
    formation = blueprints.blueprint()["spec"]["formation"]
    head = blueprints.blueprint(formation={**formation, "workspace": {"size": "1Gi"}})
    fake = await uses.world(blueprints.instance(**FOLLOWING), head=head)
    await uses.settle(fake)
    await fake.settle(formation_controller.CONTROLLER, FORMATION)
    uses.end(fake)
    await uses.edit_head(fake, formation={**formation, "workspace": None})
    await uses.settle(fake)
    await fake.settle(formation_controller.CONTROLLER, FORMATION)
    assert fake.cluster.refs("PersistentVolumeClaim"), "the volume is still there"
    assert (
        "stops here, because revision 2 may break it: formation.workspace was removed"
        in condition(fake, "BlueprintResolved")[2]
    )


async def test_breaks_between_are_held_against_the_revision_that_it_stands_on() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, parameters=OTHER_DEFAULT)
    await uses.settle(fake)
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert status(fake)["revisionInUse"] == 1, "revision 3 has what broke in revision 2"
    head = blueprints.blueprint()["spec"]["parameters"]
    await uses.edit_head(fake, parameters=head)
    await uses.settle(fake)
    assert status(fake)["revisionInUse"] == 4, "the break was taken back"


async def test_an_automatic_use_that_missed_revisions_takes_the_last_compatible_one() -> None:
    fake = await following()
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.edit_head(fake, mission={"objective": "{{ nobody }}"})
    await uses.edit_head(fake, mission={"objective": "mend"}, parameters=OTHER_DEFAULT)
    await uses.settle(fake)
    uses.end(fake)
    await uses.settle(fake)
    assert status(fake)["revisionInUse"] == 2, "3 does not compile and 4 breaks"
    assert image(fake) == "worker:2"
    assert "stops here, because revision 4 may break it" in condition(fake, "BlueprintResolved")[2]


async def test_an_automatic_use_never_takes_a_revision_that_does_not_compile() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, formation={"cells": [{"name": "{{ nobody }}"}]})
    await uses.settle(fake)
    assert image(fake) == "worker:1"
    assert status(fake)["revisionInUse"] == 1


async def test_an_automatic_use_goes_back_with_its_blueprint() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    await uses.edit_head(fake, formation=blueprints.blueprint()["spec"]["formation"])
    await uses.settle(fake)
    assert image(fake) == "worker:1"
    assert status(fake)["revisionInUse"] == 1


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="Manual"),
        pytest.param({**FOLLOWING, "blueprintRef": {"name": "team", "revision": 1}}, id="named"),
    ],
)
async def test_other_uses_stay_where_they_are(spec: Body) -> None:
    fake = await uses.world(blueprints.instance(**spec))
    await uses.settle(fake)
    uses.end(fake)
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert image(fake) == "worker:1"
    assert condition(fake, "BlueprintResolved")[2] == "uses revision 1 of Blueprint team"


async def test_an_automatic_use_outlives_its_blueprint() -> None:
    fake = await following()
    uses.end(fake)
    await uses.settle(fake)
    fake.cluster.remove(TEAM)
    initial_resource_version = metadata(fake, FORMATION)["resourceVersion"]
    await uses.settle(fake)
    assert condition(fake, "Applied")[0] == "True"
    assert metadata(fake, FORMATION)["resourceVersion"] == initial_resource_version


def immutable_head() -> Body:
    head = blueprints.blueprint()
    head["spec"]["parameters"][0]["immutable"] = True
    return head


async def test_an_immutable_parameter_is_refused_when_it_changes_after_the_run_began() -> None:
    fake = await uses.world(head=immutable_head())
    await uses.settle(fake)
    uses.end(fake)
    await uses.settle(fake)
    remembered = json.loads(metadata(fake)["annotations"]["kais.io/fixed-parameters"])
    assert remembered["topic"]["shown"] == '"pods"'
    initial_state = fake.cluster.read(FORMATION)
    fake.cluster.edit(USE, {"spec": {"parameters": {"topic": "nodes", "count": 2}}})
    await uses.settle(fake)
    assert condition(fake, "ParametersValid") == (
        "False",
        "ParametersInvalid",
        (
            'parameter \'topic\': is immutable and was "pods", got "nodes"; '
            "create a new instance instead"
        ),
    )
    assert fake.cluster.read(FORMATION) == initial_state
    fake.cluster.edit(USE, {"spec": {"parameters": {"topic": "pods"}}})
    await uses.settle(fake)
    assert fake.cluster.read(FORMATION)["spec"]["cells"][0]["replicas"] == 2
    assert condition(fake, "Applied")[0] == "True"


async def test_an_immutable_parameter_may_change_until_the_run_begins() -> None:
    fake = await uses.world(blueprints.instance(suspend=True), head=immutable_head())
    await uses.settle(fake)
    fake.cluster.edit(USE, {"spec": {"suspend": False, "parameters": {"topic": "nodes"}}})
    await uses.settle(fake)
    assert fake.cluster.read(MISSION)["spec"]["objective"] == "explain nodes"


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"topic": 1}', '{"topic": {}}'])
async def test_what_somebody_wrote_over_the_memory_of_immutable_values_stops_nothing(
    text: str,
) -> None:
    fake = await uses.world(head=immutable_head())
    await uses.settle(fake)
    uses.annotate(fake, fixed_parameters=text)
    await uses.settle(fake)
    assert condition(fake, "ParametersValid")[0] == "True"
    assert "topic" in json.loads(metadata(fake)["annotations"]["kais.io/fixed-parameters"])


def paths(tree: Body, below: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """List the path of every member that holds something, lists as a whole."""
    results = []
    for key, value in tree.items():
        path = (*below, key)
        if value not in ([], {}):
            results += paths(value, path) if isinstance(value, dict) else [path]
    return results


def removal_of(path: tuple[str, ...]) -> Body:
    """Give the merge patch that takes a member away."""
    patch: Any = None
    for step in reversed(path):
        patch = {step: patch}
    return dict(patch)


async def _fields(ref: ObjectRef) -> list[tuple[str, ...]]:
    fake = await uses.world()
    await uses.settle(fake)
    body = fake.cluster.read(ref)
    stored_record = {"metadata": {"labels": body["metadata"]["labels"]}, "spec": body["spec"]}
    return paths(stored_record)


@pytest.mark.parametrize("ref", [FORMATION, MISSION], ids=lambda ref: str(ref.kind))
async def test_each_field_of_a_child_that_somebody_takes_away_comes_back(ref: ObjectRef) -> None:
    listed = await _fields(ref)
    assert len(listed) > 6
    for path in listed:
        fake = await uses.world()
        await uses.settle(fake)
        if path[-1] == "kais.io/spec-hash":
            uses.end(fake)  # it looks like another rendering, which waits for the end
            await uses.settle(fake)
        expected = fake.cluster.read(ref)
        fake.cluster.edit(ref, removal_of(path))
        await uses.settle(fake)
        result = fake.cluster.read(ref)
        assert result["spec"] == expected["spec"], path
        assert result["metadata"]["labels"] == expected["metadata"]["labels"], path


@pytest.mark.parametrize(
    ("ref", "added"),
    [
        pytest.param(FORMATION, {"budget": {"maxTotalCost": 9}}, id="a member of the formation"),
        pytest.param(
            FORMATION,
            {
                "cells": [
                    {"name": "worker", "spec": {"container": {"image": "worker:1"}}},
                    {"name": "other", "spec": {"container": {"image": "evil:1"}}},
                ]
            },
            id="a cell",
        ),
        pytest.param(MISSION, {"budget": {"maxCost": 9}}, id="a member of the mission"),
    ],
)
async def test_what_somebody_adds_to_a_child_goes(ref: ObjectRef, added: Body) -> None:
    fake = await uses.world()
    await uses.settle(fake)
    expected_spec = fake.cluster.read(ref)["spec"]
    fake.cluster.edit(ref, {"spec": added})
    await uses.settle(fake)
    assert fake.cluster.read(ref)["spec"] == expected_spec


async def test_what_the_api_server_fills_in_is_no_drift() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    cells = fake.cluster.read(FORMATION)["spec"]["cells"]
    cells[0]["spec"]["container"]["env"] = []
    cells[0]["spec"]["apiAccess"] = False
    fake.cluster.edit(FORMATION, {"spec": {"cells": cells}})
    count = len(fake.cluster.writes)
    await uses.settle(fake)
    assert ("apply", FORMATION) not in fake.cluster.writes[count:]


@pytest.mark.parametrize("ref", [FORMATION, MISSION], ids=lambda ref: str(ref.kind))
async def test_a_child_that_lost_its_owner_is_taken_back(ref: ObjectRef) -> None:
    fake = await uses.world()
    await uses.settle(fake)
    fake.cluster.edit(ref, {"metadata": {"ownerReferences": None}})
    await uses.settle(fake)
    (owner,) = metadata(fake, ref)["ownerReferences"]
    assert owner["uid"] == metadata(fake)["uid"]


@pytest.mark.parametrize("ref", [FORMATION, MISSION], ids=lambda ref: str(ref.kind))
async def test_a_child_that_somebody_deletes_comes_back(ref: ObjectRef) -> None:
    fake = await uses.world()
    await uses.settle(fake)
    fake.cluster.vanish(ref)
    await uses.settle(fake)
    assert metadata(fake, ref)["ownerReferences"][0]["uid"] == metadata(fake)["uid"]
    assert len([e for e in fake.cluster.events if e["reason"] == "RunBegun"]) == 1


async def test_a_mission_of_the_revision_before_keeps_its_labels_when_the_use_moves_on() -> None:
    fake = await following()
    uses.end(fake)
    await uses.edit_head(fake, formation=NEW_IMAGE)
    await uses.settle(fake)
    assert metadata(fake, MISSION)["labels"]["kais.io/revision"] == "1"
    assert metadata(fake, FORMATION)["labels"]["kais.io/revision"] == "2"
