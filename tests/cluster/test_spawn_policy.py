"""The admission policies at a real API server: creators of Cells and reviewers are on record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kais_cluster import errors
from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import wait_for
from tests.cluster.test_namespaced_rights import rendered

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
Write = Callable[..., str]
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
VERBS = ["get", "list", "create", "update", "patch", "delete", "deletecollection"]


def cell(name: str, *, annotations: Body | None = None, **extra_fields: Any) -> Body:
    spec = {"mode": "Task", "container": {"image": "x"}, **extra_fields.pop("spec", {})}
    metadata = {"name": name, "annotations": annotations or {}, **extra_fields}
    return {"apiVersion": "kais.io/v1", "kind": "Cell", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def policy(control_plane: ControlPlane, helm: Path):
    bodies = [b for b in rendered(helm, namespace="default") if b["kind"] in POLICIES]
    assert len(bodies) == 10
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    yield
    for body in bodies:
        control_plane.kubectl("delete", body["kind"], body["metadata"]["name"])


def writer(
    plane: ControlPlane, namespace: str, account: str, folder: Path, verbs: list[str]
) -> Write:
    """Give a function that applies as a ServiceAccount and returns the refusal, or nothing."""
    rule = f"--verb={','.join(verbs)}"
    plane.kubectl("create", "serviceaccount", account, "-n", namespace)
    plane.kubectl("create", "role", account, rule, "--resource=cells.kais.io", "-n", namespace)
    subject = f"--serviceaccount={namespace}:{account}"
    plane.kubectl("create", "rolebinding", account, f"--role={account}", subject, "-n", namespace)
    config = json.loads(plane.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = plane.kubectl("create", "token", account, "-n", namespace).strip()
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    user = ("--kubeconfig", str(path), "-n", namespace)

    def write(body: Body) -> str:
        return refusal(plane, *user, "apply", "-f", "-", stdin=json.dumps(body))

    return write


def refusal(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl and give the API server's refusal, or nothing."""
    try:
        plane.kubectl(*arguments, stdin=stdin)
    except errors.CommandFailed as exc:
        return str(exc)
    return ""


def delete_as(plane: ControlPlane, user: str, namespace: str, *cells: str) -> str:
    """Delete Cells as a user that the API server is told to take kubectl for."""
    return refusal(plane, "--as", user, "-n", namespace, "delete", "cells.kais.io", *cells)


@pytest.fixture
def spawner(policy: None, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Write:
    write = writer(control_plane, namespace, "spawner", tmp_path, VERBS)
    # A new binding is in force within seconds.
    number = itertools.count()
    wait_for(lambda: "created-by" in write(cell(f"probe-{next(number)}")), subject="the policy")
    return write


def test_a_creator_who_may_not_approve_is_on_record(spawner: Write, namespace: str):
    user = f"system:serviceaccount:{namespace}:spawner"
    message = f"a Cell needs the annotation kais.io/created-by: {user} of a creator who lacks"
    assert message in spawner(cell("a"))
    assert message in spawner(cell("a", annotations={"kais.io/created-by": "ada"}))
    record = {"kais.io/created-by": user}
    assert spawner(cell("a", annotations=record)) == ""
    assert "it is never changed" in spawner(cell("a", annotations={"kais.io/created-by": "ada"}))
    assert spawner(cell("a", annotations={**record, "note": "x"})) == ""
    # With the author on record the policy of approvals admits it: one policy refuses, not two.
    approved = {**record, "kais.io/approved": "true", "kais.io/approved-by": user}
    for name in ("a", "b"):
        assert "kais.io/approved requires the verb approve" in spawner(
            cell(name, annotations=approved)
        )
        labelled = cell(name, annotations=record, labels={"kais.io/blueprint": "reviews"})
        assert "the label kais.io/blueprint" in spawner(labelled)
    moved = cell("a", annotations=record, spec={"parentRef": "somebody"})
    assert "changing parentRef" in spawner(moved)


FIXED = {
    "recursion": ({"maxDepth": 1, "maxDescendants": 2}, {"maxDepth": 9, "maxDescendants": 2}),
    "serviceAccountName": ("reviewer", "deployer"),
}
"""Fields of the spec that an update changes with the verb `approve` only: (old, new)."""


@pytest.mark.parametrize("field", FIXED)
def test_limits_and_account_of_a_cell_change_with_the_verb_approve_only(
    spawner: Write, control_plane: ControlPlane, namespace: str, tmp_path: Path, field: str
):
    record = {"kais.io/created-by": f"system:serviceaccount:{namespace}:spawner"}
    old, new = ({field: value} for value in FIXED[field])
    refusal = f"changing {field} of a Cell requires the verb approve on cells"
    assert spawner(cell("limited", annotations=record, spec=old)) == ""
    assert spawner(cell("free", annotations=record)) == ""
    assert refusal in spawner(cell("limited", annotations=record, spec=new))
    assert refusal in spawner(cell("limited", annotations=record)), "removed"
    assert refusal in spawner(cell("free", annotations=record, spec=old)), "added"
    for name, spec in (("limited", old), ("free", {})):
        second = {**spec, "mode": "Service"}
        assert spawner(cell(name, annotations=record, spec=second)) == "", "another field"
    approver = writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    for spec in (new, {}, old):
        assert approver(cell("limited", annotations=record, spec=spec)) == ""
    assert spawner(cell("limited", annotations={**record, "note": "x"}, spec=old)) == ""


def test_a_user_without_approve_deletes_only_cells_of_its_own(
    spawner: Write, control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    user = f"system:serviceaccount:{namespace}:spawner"
    other_message = f"system:serviceaccount:{namespace}:other"
    writer(control_plane, namespace, "other", tmp_path, VERBS)
    writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    assert spawner(cell("made", annotations={"kais.io/created-by": user})) == ""
    control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(cell("mine")))
    assert f"deleting a Cell that {user} created requires the verb approve on cells" in delete_as(
        control_plane, other_message, namespace, "made"
    )
    for arguments in (("mine",), ("--all",)):
        assert (
            "deleting a Cell without the annotation kais.io/created-by requires the verb approve"
            in delete_as(control_plane, user, namespace, *arguments)
        )
    control_plane.kubectl("get", "-n", namespace, "cells.kais.io", "mine")
    assert spawner(cell("made", annotations={"kais.io/created-by": user})) == ""
    assert delete_as(control_plane, user, namespace, "made") == ""
    approver = f"system:serviceaccount:{namespace}:approver"
    assert delete_as(control_plane, approver, namespace, "mine") == ""


HOLD = "example.com/hold"


@pytest.fixture
def owner(control_plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """Create an owner: the garbage collector deletes a Cell whose only owner does not exist."""
    control_plane.kubectl("create", "configmap", "owner", "-n", namespace)
    path = ("-n", namespace, "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    uid = control_plane.kubectl("get", *path)
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}


def patch_as(plane: ControlPlane, user: str, namespace: str, cell: str, **metadata: Any) -> str:
    """Merge metadata into a Cell as a user that the API server is told to take kubectl for."""
    patch = json.dumps({"metadata": metadata})
    subjects = ("-n", namespace, "patch", "cells.kais.io", cell)
    return refusal(plane, "--as", user, *subjects, "--type=merge", "-p", patch)


def test_a_user_without_approve_changes_no_owner_references(
    spawner: Write,
    control_plane: ControlPlane,
    namespace: str,
    owner: dict[str, Any],
    tmp_path: Path,
):
    user = f"system:serviceaccount:{namespace}:spawner"
    record = {"kais.io/created-by": user}
    changing = "changing ownerReferences of a Cell requires the verb approve on cells"
    assert spawner(cell("owned", annotations=record, ownerReferences=[owner])) == ""
    assert spawner(cell("free", annotations=record)) == ""
    second = {**owner, "uid": "1"}
    for name, owners in (
        ("free", [owner]),
        ("owned", []),
        ("owned", None),
        ("owned", [second]),
        ("owned", [owner, second]),
        ("owned", [{**owner, "blockOwnerDeletion": True}]),
    ):
        message = patch_as(control_plane, user, namespace, name, ownerReferences=owners)
        assert changing in message, owners
    assert patch_as(control_plane, user, namespace, "free", ownerReferences=[]) == ""
    assert patch_as(control_plane, user, namespace, "owned", labels={"note": "x"}) == ""
    writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    approver = f"system:serviceaccount:{namespace}:approver"
    assert patch_as(control_plane, approver, namespace, "owned", ownerReferences=[]) == ""


def test_a_user_without_approve_changes_no_finalizers(
    spawner: Write, control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    user = f"system:serviceaccount:{namespace}:spawner"
    record = {"kais.io/created-by": user}
    refused = "finalizers of a Cell require the verb approve on cells"
    assert refused in spawner(cell("held", annotations=record, finalizers=[HOLD]))
    assert spawner(cell("held", annotations=record)) == ""
    assert refused in patch_as(control_plane, user, namespace, "held", finalizers=[HOLD])
    writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    approver = f"system:serviceaccount:{namespace}:approver"
    assert patch_as(control_plane, approver, namespace, "held", finalizers=[HOLD]) == ""
    for finalizers in ([], None, [HOLD, "example.com/other"]):
        message = patch_as(control_plane, user, namespace, "held", finalizers=finalizers)
        assert refused in message, finalizers
    assert patch_as(control_plane, user, namespace, "held", labels={"note": "x"}) == ""
    assert patch_as(control_plane, approver, namespace, "held", finalizers=[]) == ""


def test_the_garbage_collector_changes_owner_references_and_finalizers(
    spawner: Write, control_plane: ControlPlane, namespace: str, owner: dict[str, Any]
):
    record = {"kais.io/created-by": f"system:serviceaccount:{namespace}:spawner"}
    assert spawner(cell("made", annotations=record)) == ""
    user = "system:serviceaccount:kube-system:generic-garbage-collector"
    for metadata in ({"ownerReferences": [owner], "finalizers": ["orphan"]}, {"finalizers": []}):
        assert patch_as(control_plane, user, namespace, "made", **metadata) == ""


@pytest.mark.parametrize("controller", ["generic-garbage-collector", "namespace-controller"])
def test_controllers_of_kubernetes_delete_any_cell(
    spawner: Write, control_plane: ControlPlane, namespace: str, controller: str
):
    record = {"kais.io/created-by": f"system:serviceaccount:{namespace}:spawner"}
    assert spawner(cell("made", annotations=record)) == ""
    control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(cell("mine")))
    user = f"system:serviceaccount:kube-system:{controller}"
    for name in ("made", "mine"):
        path = f"/apis/kais.io/v1/namespaces/{namespace}/cells/{name}"
        assert refusal(control_plane, "--as", user, "delete", "--raw", path) == ""


def test_operator_has_the_verb_approve(helm: Path):
    (rules,) = (
        body["rules"]
        for body in rendered(helm, namespace="default")
        if body["kind"] == "ClusterRole" and body["metadata"]["name"].endswith("operator")
    )
    assert any("cells" in rule["resources"] and "approve" in rule["verbs"] for rule in rules)


def test_who_may_approve_is_asked_for_nothing(
    spawner: Write, control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    approver = writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    assert approver(cell("mine", labels={"kais.io/blueprint": "reviews"})) == ""
    record = {"kais.io/created-by": f"system:serviceaccount:{namespace}:spawner"}
    assert spawner(cell("made", annotations=record)) == ""
    approval = approval_by(f"system:serviceaccount:{namespace}:approver")
    assert approver(cell("made", annotations={**record, **approval})) == ""
    stored_record = {**record, **approval, "note": "x"}
    assert spawner(cell("made", annotations=stored_record)) == "", "an approval of another stays"


def approval_by(user: str) -> dict[str, str]:
    return {"kais.io/approved": "true", "kais.io/approved-by": user}


def test_an_approval_of_a_cell_has_the_name_of_the_request(
    spawner: Write, control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    record = {"kais.io/created-by": f"system:serviceaccount:{namespace}:spawner"}
    user = f"system:serviceaccount:{namespace}:approver"
    approver = writer(control_plane, namespace, "approver", tmp_path, [*VERBS, "approve"])
    assert spawner(cell("helper", annotations=record)) == ""
    needed = f"kais.io/approved needs the annotation kais.io/approved-by: {user}"
    for written in ({"kais.io/approved": "true"}, approval_by("ana"), approval_by("")):
        answer = approver(cell("helper", annotations={**record, **written}))
        assert needed in answer
        assert "`kais cell approve` writes both" in answer
    assert approver(cell("helper", annotations={**record, **approval_by(user)})) == ""
    assert needed in approver(cell("helper", annotations={**record, **approval_by("ana")}))
    assert needed in approver(cell("helper", annotations={**record, "kais.io/approved": "true"}))
    assert approver(cell("helper", annotations=record)) == "", "an approval can be taken back"


def test_an_installation_for_some_namespaces_has_no_policy_and_its_operator_is_told(helm: Path):
    for values, has_policy in ((("namespaces={a}",), False), ((), True)):
        bodies = rendered(helm, *values, namespace="home")
        assert any(body["kind"] in POLICIES for body in bodies) is has_policy
        (operator,) = (body for body in bodies if body["kind"] == "Deployment")
        env = operator["spec"]["template"]["spec"]["containers"][0]["env"]
        value = json.dumps(has_policy)
        assert {"name": "KAIS_SPAWN_POLICY", "value": value} in env


MISSION = {
    "apiVersion": "kais.io/v1",
    "kind": "Mission",
    "metadata": {"name": "report"},
    "spec": {"formationRef": "reporter", "objective": "Write the report"},
}


@pytest.fixture
def annotate(policy: None, control_plane: ControlPlane, namespace: str) -> Callable[..., str]:
    """A function by which a user annotates a Mission; returns the refusal, or nothing."""
    where = ("-n", namespace)
    control_plane.kubectl("apply", *where, "-f", "-", stdin=json.dumps(MISSION))
    rights = ("--verb=get,patch", "--resource=missions.kais.io")
    control_plane.kubectl("create", "role", "reviewers", *rights, *where)
    people = ("--role=reviewers", "--user=ana", "--user=bob")
    control_plane.kubectl("create", "rolebinding", "reviewers", *people, *where)

    def annotate_as(user: str, *annotations: str) -> str:
        verb = ("annotate", "--overwrite", "missions.kais.io", "report")
        return refusal(control_plane, "--as", user, *where, *verb, *annotations)

    number = itertools.count()
    wait_for(
        lambda: "kais.io/reviewed-by" in annotate_as("ana", f"kais.io/review={next(number)}"),
        subject="the policy",
    )
    return annotate_as


def test_a_verdict_names_the_user_who_gives_it(annotate: Callable[..., str]):
    verdict = 'kais.io/review={"attempt": 1, "verdict": "approve"}'
    message = "kais.io/review needs the annotation kais.io/reviewed-by: ana; `kais mission approve`"
    assert message in annotate("ana", verdict)
    assert message in annotate("ana", verdict, "kais.io/reviewed-by=bob")
    assert annotate("ana", verdict, "kais.io/reviewed-by=ana") == ""
    assert annotate("bob", "note=x") == ""
    other = 'kais.io/review={"attempt": 1, "verdict": "reject"}'
    assert "kais.io/reviewed-by: bob" in annotate("bob", other)
    assert "kais.io/reviewed-by: ana" in annotate("ana", "kais.io/reviewed-by=bob")
    assert annotate("bob", "kais.io/review-", "kais.io/reviewed-by-") == ""


def test_an_approval_of_a_tool_call_names_a_person(
    annotate: Callable[..., str], control_plane: ControlPlane, namespace: str
):
    approval = 'kais.io/approval={"call": "c", "sha256": "s", "decision": "approve"}'
    author = "kais.io/approval-by"
    wait_for(lambda: author in annotate("ana", approval), subject="the policy of approvals")
    assert f"kais.io/approval requires {author}: ana" in annotate("ana", approval)
    assert author in annotate("ana", approval, f"{author}=bob")
    assert annotate("ana", approval, f"{author}=ana") == ""
    assert annotate("bob", "note=x") == ""
    agent = f"system:serviceaccount:{namespace}:agent"
    rights = ("--role=reviewers", f"--serviceaccount={namespace}:agent", "-n", namespace)
    control_plane.kubectl("create", "rolebinding", "agents", *rights)
    other = 'kais.io/approval={"call": "d", "sha256": "s", "decision": "approve"}'
    assert "comes from a person" in annotate(agent, other, f"{author}={agent}")
    assert annotate(agent, "note=y") == ""
