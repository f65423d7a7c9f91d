import copy
import json
from pathlib import Path

import pytest
import yaml

from kais import tree_diff
from kais.resources import kinds, pod_schema
from scripts import extract_pod_schema

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
    own_resource = model.from_dict(manifest(kind, VALID[kind]))
    assert own_resource.spec == model.from_dict(read).spec
    for field, value in read["spec"].items():
        assert (
            own_resource.to_dict()["spec"][field] == model.from_dict(read).to_dict()["spec"][field]
        ), value


@pytest.mark.parametrize("shape", SHAPES, ids=lambda path: path.stem)
def test_compatible_manifests_are_accepted_unchanged(control_plane, namespace, shape):
    control_plane.apply(shape.read_text(), namespace=namespace)
    for expected in yaml.safe_load_all(shape.read_text()):
        plural = kinds.BY_NAME[expected["kind"]].PLURAL
        name = expected["metadata"]["name"]
        read = control_plane.kubectl("get", plural, name, "-n", namespace, "-o", "json")
        assert_holds(json.loads(read)["spec"], expected["spec"], path=name)
        kinds.read(json.loads(read))


def assert_holds(stored, expected, *, path):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in stored, f"{path}.{key} was pruned"
            assert_holds(stored[key], value, path=f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(stored) == len(expected)
        for i, (remaining_count, right) in enumerate(zip(stored, expected, strict=True)):
            assert_holds(remaining_count, right, path=f"{path}[{i}]")
    else:
        assert stored == expected, path


def cells(*names):
    return [{"name": name, "spec": CONTAINER} for name in names]


def mission(**changes):
    return {"formationRef": "f", "objective": "o", **changes}


def pod(fields):
    return {**CONTAINER, "podTemplate": {"spec": fields}}


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
    "a mind with neither a prompt nor where it comes from": (
        "Cell",
        {"mind": {"provider": "openai", "model": "m"}},
        "exactly one of systemPrompt and instructionsFrom is needed",
    ),
    "a mind with both a prompt and where it comes from": (
        "Cell",
        {"mind": {**MIND["mind"], "instructionsFrom": {"configMap": "prompts", "key": "lead"}}},
        "exactly one of systemPrompt and instructionsFrom is needed",
    ),
    "a key of a Secret that leaves its folder": (
        "Cell",
        {"mind": {**MIND["mind"], "credentialsRef": {"name": "house", "key": ".."}}},
        "should match",
    ),
    "a path of the host": (
        "Cell",
        pod({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
        "hostPath gives a cell the files of its node, and is not allowed",
    ),
    "two volumes of one name": (
        "Cell",
        pod({"volumes": [{"name": "v", "emptyDir": {}}] * 2}),
        "Duplicate value",
    ),
    "a quantity that does not parse": (
        "Cell",
        pod({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1 GB"}}]}),
        "should match",
    ),
    "a field of pods that cells may not set": (
        "Cell",
        pod({"hostNetwork": True}),
        'unknown field "spec.podTemplate.spec.hostNetwork"',
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


def test_the_schema_of_pods_is_that_of_the_api_server(control_plane):
    document = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v2"))
    extract = extract_pod_schema.extract(document, pod_schema.kubernetes_version())
    committed = json.loads(extract_pod_schema.TARGET.read_text())
    assert tree_diff.diff_trees(committed, json.loads(extract_pod_schema.text_of(extract))) == []


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
    initial_state = put(control_plane, namespace, manifest("Mission", mission(objective="another")))
    assert initial_state["spec"]["objective"] == "another"
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
    output = control_plane.kubectl("get", "missions", "-n", namespace)
    header, row = output.splitlines()
    columns = ["NAME", "STATUS", "OUTCOME", "REASON", "ATTEMPT", "FACTS", "COST", "AGE"]
    assert header.split() == columns
    for text in ("Succeeded", "Finished", "1/3", "2 in, 3 out", "$0.31"):
        assert text in row
