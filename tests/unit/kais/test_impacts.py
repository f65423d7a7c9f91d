import copy
from typing import Any

import pytest

from kais import impacts
from kais.impacts import Impact
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from tests.fakes import blueprints


def impact(*, begun: bool = False, **spec: Any) -> Impact:
    head = blueprints.blueprint()
    body = blueprints.instance(parameters={"topic": "pods", "count": 2})
    if begun:
        body["status"] = {"runId": "1"}
    template = copy.deepcopy(head["spec"]) | spec
    present = BlueprintRevision.from_dict(blueprints.revision(3, of=head))
    return impacts.of_template(template, BlueprintInstance.from_dict(body), present=present)


def formation(**cell: Any) -> dict[str, Any]:
    made = copy.deepcopy(blueprints.blueprint()["spec"]["formation"])
    made["cells"][0] |= cell
    return dict(made)


def test_a_template_that_renders_the_same_has_no_impact():
    assert impact(description="described anew").is_none


def test_what_would_change_is_told_in_the_values_of_the_use():
    found = impact(formation=formation(replicas="{{ count + 1 }}"))
    assert found.instance == "BlueprintInstance/demo/use"
    assert found.changes == ("Formation.spec.cells[worker].replicas changed from 2 to 3",)


def test_a_mission_that_was_made_stays():
    found = impact(begun=True, mission={"objective": "mend {{ topic }}"})
    assert found.is_none
    assert found.note == "its Mission stays as it is until kais.io/rerun or a new use"


def test_a_mission_that_is_not_made_yet_would_be_another():
    found = impact(mission={"objective": "mend {{ topic }}", "entrypoint": {"cell": "worker"}})
    assert found.changes == ('Mission.spec.objective changed from "explain pods" to "mend pods"',)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        pytest.param(
            [{"name": "topic", "type": "string"}],
            "parameter 'count': is not declared; declared are topic",
            id="a parameter that is gone",
        ),
        pytest.param(
            [{"name": "topic", "type": "string"}, {"name": "count", "type": "integer", "max": 1}],
            "parameter 'count': must be at most 1, got 2",
            id="a rule that is stricter",
        ),
    ],
)
def test_a_use_that_would_break_is_told_why(parameters, problem):
    found = impact(parameters=parameters)
    assert found.problems == (problem,)
    assert not found.is_none
