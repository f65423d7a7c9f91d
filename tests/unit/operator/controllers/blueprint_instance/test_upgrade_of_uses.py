"""What version 0.1.0 made of Blueprints is made the same today: an upgrade changes no revision and
touches no Formation, so no pod restarts.

The golden file was written by 0.1.0. A field that it did not have may be added to it by hand only
when objects in clusters get it without a write.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kais import blueprint_rendering, labels
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import revision_history
from kais_operator.controllers.blueprint_instance.decide import child_manifests, instance_run
from kais_operator.planning import children

GOLDEN = json.loads(Path(__file__).with_name("golden").joinpath("uses-0.1.0.json").read_text())


@pytest.fixture(params=GOLDEN, ids=lambda name: f"{name} use")
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(GOLDEN[request.param])


def test_a_spec_keeps_the_hash_of_its_revision(golden: dict[str, Any]) -> None:
    head = Blueprint.from_dict(golden["blueprint"])
    stored_blueprint_revision = BlueprintRevision.from_dict(golden["revision"])
    assert blueprint_revision.hash_of(head.spec) == golden["hash"]
    assert (
        revision_history.revision_of_spec(head.spec, [stored_blueprint_revision])
        == stored_blueprint_revision
    ), "an upgrade made a revision"


def test_a_use_renders_to_the_same_children(golden: dict[str, Any]) -> None:
    instance = BlueprintInstance.from_dict(golden["instance"])
    revision = BlueprintRevision.from_dict(golden["revision"])
    rendered = blueprint_rendering.render_blueprint(
        blueprint_revision.template_of(revision.spec),
        instance.spec.parameters,
        blueprint=revision.spec.blueprint,
        revision=1,
        instance="use",
        namespace=instance.metadata.namespace,
    )
    assert isinstance(rendered, blueprint_rendering.Rendered)
    assert rendered.parameters_hash == golden["parametersHash"]
    formation = child_manifests.formation_body(instance, revision, rendered.formation_spec)
    assert formation == golden["formation"]
    assert not children.differs(formation, golden["formation"])
    if golden["mission"] is None:
        assert rendered.mission_spec is None
        return
    assert rendered.mission_spec is not None
    run = instance_run.first_run(instance)
    # Without values: the annotation that holds them is younger, and only new Missions get it.
    mission = child_manifests.mission_body(instance, revision, rendered.mission_spec, run=run)
    # Nor with the hash that binds the stamp to its object, which running Missions get with a write,
    # and with the trace, which only the Mission of a new run gets.
    for younger in (labels.RUN_OBJECT, labels.TRACEPARENT):
        mission["metadata"]["annotations"].pop(younger, None)
    assert mission == golden["mission"]
