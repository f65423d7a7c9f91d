import copy
import json
from pathlib import Path

import pytest
import yaml

from kais.resources import kinds

pytestmark = pytest.mark.cluster

SHAPES = sorted((Path(__file__).parents[2] / "examples/shapes").glob("*.yaml"))
CONTAINER = {"container": {"image": "example/task:1"}}
MIND = {"mind": {"provider": "ollama", "model": "m", "systemPrompt": "s"}}

VALID = {
    "Blueprint": {"formation": {"cells": [{"name": "a", "spec": "{{ any }}"}]}},
    "BlueprintRevision": {
        "blueprint": "b",
        "revision": 1,
        "formation": {"free": {"tree": [1, "two"]}},
        "parameters": [{"name": "p", "type": "string", "default": "x"}],
    },
    "BlueprintInstance": {"blueprintRef": {"name": "b"}, "parameters": {"any": ["thing", 1]}},
    "Formation": {"cells": [{"name": "a", "spec": CONTAINER}]},
    "Cell": CONTAINER,
    "Mission": {"formationRef": "f", "objective": "o"},
    "KnowledgeScope": {"level": "realm"},
}


def manifest(kind, spec, *, name="sample"):
    return {"apiVersion": "kais.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def put(control_plane, namespace, body):
    control_plane.apply(json.dumps(body), namespace=namespace)
    plural = kinds.BY_NAME[body["kind"]].PLURAL
    name = body["metadata"]["name"]
    read = control_plane.kubectl("get", plural, name, "-n", namespace, "-o", "json")
    return json.loads(read)


@pytest.mark.parametrize("kind", VALID)
def test_small_valid_object_is_accepted_and_read_by_its_model(control_plane, namespace, kind):
    read = put(control_plane, namespace, manifest(kind, VALID[kind]))
    resource = kinds.read(read)
    assert resource.ref == f"{kind}/{namespace}/sample"
    assert resource.metadata.generation == 1


@pytest.mark.parametrize("kind", VALID)
def test_what_the_server_fills_in_is_what_the_model_fills_in(control_plane, namespace, kind):
    read = put(control_plane, namespace, manifest(kind, VALID[kind]))
    model = kinds.BY_NAME[kind]
    ours = model.from_dict(manifest(kind, VALID[kind]))
    assert ours.spec == model.from_dict(read).spec
    for field, value in read["spec"].items():
        assert ours.to_dict()["spec"][field] == model.from_dict(read).to_dict()["spec"][field], (
            value
        )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda path: path.stem)
def test_compatible_manifests_are_accepted_unchanged(control_plane, namespace, shape):
    control_plane.apply(shape.read_text(), namespace=namespace)
    for wanted in yaml.safe_load_all(shape.read_text()):
        plural = kinds.BY_NAME[wanted["kind"]].PLURAL
        name = wanted["metadata"]["name"]
        read = control_plane.kubectl("get", plural, name, "-n", namespace, "-o", "json")
        assert_holds(json.loads(read)["spec"], wanted["spec"], path=name)
        kinds.read(json.loads(read))


def assert_holds(stored, wanted, *, path):
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert key in stored, f"{path}.{key} was pruned"
            assert_holds(stored[key], value, path=f"{path}.{key}")
    elif isinstance(wanted, list):
        assert len(stored) == len(wanted)
        for i, (left, right) in enumerate(zip(stored, wanted, strict=True)):
            assert_holds(left, right, path=f"{path}[{i}]")
    else:
        assert stored == wanted, path


def cells(*names):
    return [{"name": name, "spec": CONTAINER} for name in names]


def mission(**changes):
    return {"formationRef": "f", "objective": "o", **changes}


def check(**fields):
    return mission(completion={"checks": [{"name": "c", **fields}]})


REFUSED = {
    "a cell with neither mind nor container": (
        "Cell",
        {"mode": "Task"},
        "exactly one of mind and container is needed",
    ),
    "a cell with both mind and container": (
        "Cell",
        {**MIND, **CONTAINER},
        "exactly one of mind and container is needed",
    ),
    "a formation's cell with both": (
        "Formation",
        {"cells": [{"name": "a", "spec": {**MIND, **CONTAINER}}]},
        "exactly one of mind and container is needed",
    ),
    "a variable with value and valueFrom": (
        "Cell",
        {
            "container": {
                "image": "i",
                "env": [
                    {
                        "name": "A",
                        "value": "v",
                        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                    }
                ],
            }
        },
        "value and valueFrom are mutually exclusive",
    ),
    "a variable from nowhere": (
        "Cell",
        {"container": {"image": "i", "env": [{"name": "A", "valueFrom": {}}]}},
        "exactly one of secretKeyRef and configMapKeyRef is needed",
    ),
    "a star without hub": (
        "Formation",
        {"cells": cells("a"), "topology": {"type": "star"}},
        "a star needs a hub",
    ),
    "a hierarchy without root": (
        "Formation",
        {"cells": cells("a"), "topology": {"type": "hierarchy"}},
        "a hierarchy needs a root",
    ),
    "a stigmergy without blackboard": (
        "Formation",
        {"cells": cells("a"), "topology": {"type": "stigmergy"}},
        "a stigmergy needs a blackboard",
    ),
    "a custom topology without routes": (
        "Formation",
        {"cells": cells("a"), "topology": {"type": "custom", "routes": []}},
        "a custom topology needs routes",
    ),
    "two cells of one name": ("Formation", {"cells": cells("a", "a")}, "Duplicate value"),
    "a cell template that is no DNS label": (
        "Formation",
        {"cells": cells("Lead_1")},
        "should match",
    ),
    "a mission with both references": (
        "Mission",
        mission(cellRef="c"),
        "exactly one of formationRef and cellRef is needed",
    ),
    "a mission with no reference": (
        "Mission",
        {"objective": "o"},
        "exactly one of formationRef and cellRef is needed",
    ),
    "a timeout that does not parse": (
        "Mission",
        mission(completion={"timeout": "ten minutes"}),
        "must be a duration above zero such as 90s, 10m or 1h30m10s",
    ),
    "a timeout of zero": (
        "Mission",
        mission(completion={"timeout": "0h0m"}),
        "must be a duration above zero such as 90s, 10m or 1h30m10s",
    ),
    "a start deadline that does not parse": (
        "Mission",
        mission(startDeadline="5"),
        "must be a duration above zero such as 90s, 10m or 1h30m10s",
    ),
    "a fileExists check without paths": (
        "Mission",
        check(type="fileExists"),
        "a fileExists check needs paths",
    ),
    "a command check without command": (
        "Mission",
        check(type="command"),
        "a command or coverage check needs exactly one of command and argv",
    ),
    "two checks of one name": (
        "Mission",
        mission(
            completion={
                "checks": [{"name": "c", "type": "response"}, {"name": "c", "type": "response"}]
            }
        ),
        "Duplicate value",
    ),
    "a formation scope without formation": (
        "KnowledgeScope",
        {"level": "formation"},
        "formation needs formation; cell needs cell",
    ),
    "a realm scope with a cell": (
        "KnowledgeScope",
        {"level": "realm", "cell": "c"},
        "formation needs formation; cell needs cell",
    ),
    "a cell scope without cell": (
        "KnowledgeScope",
        {"level": "cell", "formation": "f"},
        "formation needs formation; cell needs cell",
    ),
    "an enum without values": (
        "Blueprint",
        {"parameters": [{"name": "p", "type": "enum"}], "formation": {}},
        "an enum needs values",
    ),
    "a parameter named like what is in scope": (
        "Blueprint",
        {"parameters": [{"name": "instance", "type": "string"}], "formation": {}},
        "the template language reserves this name",
    ),
    "two parameters of one name": (
        "Blueprint",
        {"parameters": [{"name": "p", "type": "string"}] * 2, "formation": {}},
        "Duplicate value",
    ),
    "an object without spec": ("Blueprint", None, "spec: Required value"),
    "more cells than a formation may have": (
        "Formation",
        {"cells": [{"name": f"w{i}", "replicas": 91, "spec": CONTAINER} for i in range(11)]},
        "a formation has at most 1000 cells: lower the replicas or split the team",
    ),
    "an unknown provider": (
        "Cell",
        {"mind": {**MIND["mind"], "provider": "oracle"}},
        "supported values",
    ),
    "root as user": (
        "Cell",
        {"container": {"image": "i", "runAsUser": 0}},
        "greater than or equal",
    ),
}


@pytest.mark.parametrize(("kind", "spec", "words"), REFUSED.values(), ids=REFUSED)
def test_the_server_refuses(control_plane, namespace, kind, spec, words):
    body = manifest(kind, spec)
    if spec is None:
        del body["spec"]
    assert words in control_plane.refusal(json.dumps(body), namespace=namespace)


def test_a_revision_never_changes(control_plane, namespace):
    body = manifest("BlueprintRevision", VALID["BlueprintRevision"])
    put(control_plane, namespace, body)
    for path, value in (
        (("formation", "free", "tree"), [1, "three"]),
        (("changes",), "other words"),
        (("parameters",), [{"name": "p", "type": "string", "default": "y"}]),
    ):
        changed = copy.deepcopy(body)
        node = changed["spec"]
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value
        refusal = control_plane.refusal(json.dumps(changed), namespace=namespace)
        assert "a revision is immutable; edit its Blueprint instead" in refusal


def test_a_mission_is_fixed_once_it_started(control_plane, namespace):
    body = manifest("Mission", mission())
    put(control_plane, namespace, body)
    before = put(control_plane, namespace, manifest("Mission", mission(objective="another")))
    assert before["spec"]["objective"] == "another"
    started = json.dumps({"status": {"startedAt": "2030-01-01T00:00:00Z"}})
    patch = ("patch", "mission", "sample", "-n", namespace, "--type=merge", "--subresource=status")
    control_plane.kubectl(*patch, "-p", started)
    refusal = control_plane.refusal(json.dumps(body), namespace=namespace)
    assert "spec is immutable after the mission has started" in refusal


def test_status_is_apart_from_spec(control_plane, namespace):
    body = {**manifest("Cell", CONTAINER), "status": {"phase": "Running"}}
    assert "status" not in put(control_plane, namespace, body)


def test_kubectl_get_kais_lists_every_kind(control_plane, namespace):
    for kind, spec in VALID.items():
        put(control_plane, namespace, manifest(kind, spec))
    listed = control_plane.kubectl("get", "kais", "-n", namespace, "-o", "name")
    names = {line.split(".")[0] for line in listed.splitlines()}
    assert names == {kind.lower() for kind in VALID}
    shorts = ",".join(kind.SHORT_NAME for kind in kinds.KINDS)
    control_plane.kubectl("get", shorts, "-n", namespace)


def test_fields_can_be_selected_on_the_server(control_plane, namespace):
    for name in ("one", "two"):
        spec = {**VALID["BlueprintRevision"], "blueprint": name}
        put(control_plane, namespace, manifest("BlueprintRevision", spec, name=f"{name}-r00001"))
    chosen = control_plane.kubectl(
        "get", "bpr", "-n", namespace, "--field-selector", "spec.blueprint=two", "-o", "name"
    )
    assert chosen.split() == ["blueprintrevision.kais.io/two-r00001"]


def test_every_condition_field_and_column_is_kept(control_plane, namespace):
    put(control_plane, namespace, manifest("Mission", mission()))
    ready = {
        "type": "Succeeded",
        "status": "True",
        "reason": "Finished",
        "message": "done",
        "observedGeneration": 1,
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    status = {
        "phase": "Succeeded",
        "outcome": "Succeeded",
        "display": {"attempt": "1/3", "facts": "2 in, 3 out", "cost": "$0.31"},
        "conditions": [ready],
    }
    patch = ("patch", "mission", "sample", "-n", namespace, "--type=merge", "--subresource=status")
    control_plane.kubectl(*patch, "-p", json.dumps({"status": status}))
    shown = control_plane.kubectl("get", "missions", "-n", namespace)
    header, row = shown.splitlines()
    assert header.split() == ["NAME", "STATUS", "OUTCOME", "ATTEMPT", "FACTS", "COST", "AGE"]
    for word in ("Succeeded", "1/3", "2 in, 3 out", "$0.31"):
        assert word in row
