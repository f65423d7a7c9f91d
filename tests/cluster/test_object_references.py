"""References to objects: names that nothing can bear are refused, and stored ones break nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kais.resources import kinds
from kais_cluster import errors
from kais_cluster.host import ephemeral
from tests.cluster.conftest import CRDS, ControlPlane, wait_until_listed
from tests.cluster.processes import Cluster, wait_for

pytestmark = pytest.mark.cluster

CONTAINER = {"container": {"image": "example/task:1"}}
RULE = "should match"
Body = dict[str, Any]


def body(kind: str, spec: Body) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": kind,
        "metadata": {"name": "sample"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "name", ["Team", "team_a", "-team", "team-", "a..b", "two words", "a/b", "téam", "a\nb"]
)
@pytest.mark.parametrize("field", ["formationRef", "cellRef"])
def test_a_mission_names_what_can_be_there(
    control_plane: ControlPlane, namespace: str, field: str, name: str
):
    refused = body("Mission", {field: name, "objective": "o"})
    refusal = control_plane.refusal(json.dumps(refused), namespace=namespace)
    assert f"spec.{field}" in refusal
    assert RULE in refusal


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Cell", {**CONTAINER, "formationRef": "Team"}, "spec.formationRef"),
        ("Cell", {**CONTAINER, "parentRef": "Lead"}, "spec.parentRef"),
        ("Cell", {**CONTAINER, "serviceAccountName": "Ada"}, "spec.serviceAccountName"),
        ("Cell", {**CONTAINER, "knowledge": {"scopeRef": "All"}}, "spec.knowledge.scopeRef"),
        ("BlueprintInstance", {"blueprintRef": {"name": "Bp"}}, "spec.blueprintRef.name"),
    ],
)
def test_a_name_that_nothing_can_bear_is_refused(
    control_plane: ControlPlane, namespace: str, kind: str, spec: Body, path: str
):
    refusal = control_plane.refusal(json.dumps(body(kind, spec)), namespace=namespace)
    assert path in refusal
    assert RULE in refusal


@pytest.mark.parametrize("name", ["team", "team.of.three", "0", "a" * 253])
def test_every_name_that_an_object_can_have_is_accepted(
    control_plane: ControlPlane, namespace: str, name: str
):
    control_plane.apply(
        json.dumps(body("Mission", {"formationRef": name, "objective": "o"})), namespace=namespace
    )


def without_patterns(schema: Any) -> Any:
    """Give a definition as it was before references had a pattern."""
    if isinstance(schema, dict):
        return {key: without_patterns(v) for key, v in schema.items() if key != "pattern"}
    return [without_patterns(item) for item in schema] if isinstance(schema, list) else schema


@pytest.fixture(scope="module")
def plane_before() -> Iterator[ControlPlane]:
    """Run a control plane whose kinds take any reference."""
    with ephemeral.control_plane() as host:
        plane = ControlPlane(host)
        for path in sorted(CRDS.glob("*.yaml")):
            older = without_patterns(yaml.safe_load(path.read_text()))
            plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(older))
        wait_until_listed(plane)
        yield plane


def test_a_stored_reference_that_is_now_refused_can_still_be_changed_around_and_mended(
    plane_before: ControlPlane,
):
    cluster = Cluster(plane_before.kubectl, plane_before.lister, "default")
    cluster.apply(body("Cell", {**CONTAINER, "formationRef": "Team"}))
    plane_before.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    wait_for(lambda: is_refused(plane_before), subject="the server has the new rule")
    assert kinds.read(cluster.get("cells", "sample") or {}).ref == "Cell/default/sample"
    cluster.kubectl("label", "cell", "sample", "a=b")
    image = {"spec": {"container": {"image": "example/task:2"}}}
    cluster.kubectl("patch", "cell", "sample", "--type=merge", "-p", json.dumps(image))
    fields = {"status": {"phase": "Pending"}}
    cluster.kubectl(
        "patch", "cell", "sample", "--subresource=status", "--type=merge", "-p", json.dumps(fields)
    )
    mended = {"spec": {"formationRef": "team"}}
    cluster.kubectl("patch", "cell", "sample", "--type=merge", "-p", json.dumps(mended))
    cells = cluster.get("cells", "sample") or {}
    assert cells["spec"]["formationRef"] == "team"
    assert cells["spec"]["container"]["image"] == "example/task:2"
    assert cells["status"]["phase"] == "Pending"


def is_refused(plane: ControlPlane) -> bool:
    wrong = json.dumps(body("Mission", {"formationRef": "Team", "objective": "o"}))
    try:
        plane.apply(wrong)
    except errors.CommandFailed as exc:
        return RULE in str(exc)
    return False
