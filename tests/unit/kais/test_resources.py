import pytest

from kais.errors import InvalidResource
from kais.resources import blueprint_revision, kinds
from kais.resources.base import ObjectMeta
from kais.resources.blueprint import BlueprintSpec, TemplateSpec
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode, CellTemplateSpec
from kais.resources.formation import Formation
from kais.resources.mission import Mission

TASK = {"container": {"image": "example/task:1"}}


def refusal(model, data):
    with pytest.raises(InvalidResource) as caught:
        model.from_dict(data)
    return str(caught.value)


def test_all_violations_come_at_once_with_their_paths():
    text = refusal(
        Formation,
        {
            "metadata": {"name": "x", "namespace": "demo"},
            "spec": {
                "cells": [{"name": "Lead", "replicas": "3", "spec": {}}],
                "topology": {"type": "star"},
            },
        },
    )
    assert text.startswith("Formation/demo/x: ")
    assert 'spec.cells[0].replicas: input should be a valid integer, got "3"' in text
    assert "spec.cells[0].spec: exactly one of mind and container is needed" in text
    assert "spec.topology: a star needs a hub" in text
    assert "spec.cells[0].name: string should match pattern" in text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({"replicas": 2.5}, "replicas: input should be a valid integer", id="2.5"),
        pytest.param({"replicas": True}, "replicas: input should be a valid integer", id="true"),
        pytest.param({"replicas": 0}, "greater than or equal to 1", id="too few"),
    ],
)
def test_numbers_are_never_guessed(data, message):
    cell = {"name": "a", "spec": TASK, **data}
    assert message in refusal(Formation, {"spec": {"cells": [cell]}})


def test_snake_case_is_not_the_apis_spelling():
    assert "spec.objective: is required" in refusal(
        Mission, {"spec": {"formation_ref": "f", "Objective": "o"}}
    )


def test_names_stand_once_in_a_list_map():
    twice = [{"name": "a", "spec": TASK}, {"name": "a", "spec": TASK}]
    text = refusal(Formation, {"spec": {"cells": twice}})
    assert text == 'Formation//: spec: cells[1]: name "a" is a duplicate of cells[0]'


def test_unknown_kind_is_named():
    with pytest.raises(InvalidResource, match=r"is not a kind of kais: Blueprint, "):
        kinds.read({"kind": "KnowledgeGraph"})


def test_unknown_keys_of_a_mind_are_kept_and_others_pruned():
    mind = {"provider": "ollama", "model": "m", "systemPrompt": "s", "own": {"deep": [1]}}
    read = Cell.from_dict({"spec": {"mind": mind, "unknown": 1}})
    assert read.to_dict()["spec"]["mind"]["own"] == {"deep": [1]}
    assert "unknown" not in read.to_dict()["spec"]


def test_nothing_unset_is_written():
    manifest = Mission.from_dict({"spec": {"formationRef": "f", "objective": "o"}}).to_dict()
    assert manifest["metadata"] == {}
    assert "cellRef" not in manifest["spec"]
    assert manifest["spec"]["completion"] == {"checks": [], "maxAttempts": 3, "timeout": "10m"}


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        pytest.param(TASK, CellMode.TASK, id="a container is a task"),
        pytest.param({**TASK, "mode": "Service"}, CellMode.SERVICE, id="unless it says service"),
        pytest.param(
            {"mind": {"provider": "openai", "model": "m", "systemPrompt": "s"}},
            CellMode.SERVICE,
            id="a mind is a service",
        ),
    ],
)
def test_mode_follows_from_who_does_the_work(spec, mode):
    assert CellTemplateSpec.from_dict(spec).effective_mode is mode


@pytest.mark.parametrize(
    ("quantity", "is_good"),
    [("500m", True), (2, True), ("0.5", True), ("256Mi", True), ("1e3", True), ("lots", False)],
)
def test_limits_are_quantities(quantity, is_good):
    data = {"spec": {**TASK, "resources": {"cpuLimit": quantity}}}
    if is_good:
        assert Cell.from_dict(data).spec.resources.cpu_limit == quantity
    else:
        assert "a quantity such as 500m, 2 or 256Mi is needed" in refusal(Cell, data)


def test_status_speaks_of_the_present_spec_only_with_its_generation():
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Standby",
        "message": "m",
        "observedGeneration": 1,
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    data = {"metadata": {"generation": 1}, "spec": TASK, "status": {"conditions": [condition]}}
    assert Cell.from_dict(data).is_true("Ready")
    assert not Cell.from_dict({**data, "metadata": {"generation": 2}}).is_true("Ready")
    assert Cell.from_dict(data).condition("Applied") is None


def test_controller_owner_is_found_by_its_mark():
    owner = {"apiVersion": "kais.io/v1", "kind": "Formation", "name": "f", "uid": "u1"}
    meta = {"ownerReferences": [owner, {**owner, "uid": "u2", "controller": True}]}
    assert ObjectMeta.from_dict(meta).controller_uid == "u2"
    assert ObjectMeta.from_dict({}).controller_uid is None


TEMPLATE = {
    "formation": {"b": 1, "a": [1, 2]},
    "parameters": [{"name": "p", "type": "string", "default": "x"}],
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"evidence": {"successRate": 0.9}}, id="evidence"),
        pytest.param({"revisionHistoryLimit": 3}, id="how many revisions are kept"),
        pytest.param({"formation": {"a": [1, 2], "b": 1.0}}, id="order of keys"),
        pytest.param({"knowledge": {"policy": "Always"}}, id="a default written out"),
    ],
)
def test_makes_no_new_revision(change):
    spec = BlueprintSpec.from_dict(TEMPLATE)
    other_spec = BlueprintSpec.from_dict({**TEMPLATE, **change})
    assert blueprint_revision.hash_of(spec) == blueprint_revision.hash_of(other_spec)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"formation": {"a": [2, 1], "b": 1}}, id="the template"),
        pytest.param({"mission": {"objective": "o"}}, id="the mission"),
        pytest.param({"parameters": []}, id="the parameters"),
    ],
)
def test_makes_a_new_revision(change):
    spec = BlueprintSpec.from_dict(TEMPLATE)
    other_spec = BlueprintSpec.from_dict({**TEMPLATE, **change})
    assert blueprint_revision.hash_of(spec) != blueprint_revision.hash_of(other_spec)


def test_revision_gives_back_the_template_it_was_made_of():
    spec = TemplateSpec.from_dict({**TEMPLATE, "mission": {"objective": "{{ p }}"}})
    stored_record = {**blueprint_revision.template_of(spec), "blueprint": "b", "revision": 1}
    revision = blueprint_revision.BlueprintRevisionSpec.from_dict(stored_record)
    assert revision.template() == spec
    assert blueprint_revision.hash_of(revision) == blueprint_revision.hash_of(spec)
