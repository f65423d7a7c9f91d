"""The volume claim that the cells of a formation share, where the formation declares one.

A claim is made once: of what it asks for only the size may change, and only to more. The rest is
told in words, because the API server's refusal would come back with every pass.
"""

from __future__ import annotations

from kais import names
from kais.reasons import Reason
from kais.resources.formation import Formation, Workspace
from kais_operator.planning import children, quantities
from kais_operator.planning.children import ChildDecision, Parent, Standing
from kais_operator.planning.plan import Body, Delete


def claim_body(formation: Formation, workspace: Workspace, parent: Parent) -> Body:
    """Make the claim that a workspace asks for."""
    spec: Body = {
        "accessModes": [workspace.access_mode.value],
        "resources": {"requests": {"storage": str(workspace.size)}},
    }
    if workspace.storage_class_name is not None:
        spec["storageClassName"] = workspace.storage_class_name
    return children.child_body(
        parent,
        api_version="v1",
        kind="PersistentVolumeClaim",
        name=names.workspace_claim_name(formation.metadata.name),
        content={"spec": spec},
    )


def decide_claim(formation: Formation, seen: Body | None, parent: Parent) -> ChildDecision | None:
    """Choose the write for the claim; None when none is wanted and none is there."""
    workspace = formation.spec.workspace
    if workspace is None:
        return _unwanted(seen, parent)
    desired = claim_body(formation, workspace, parent)
    decision = children.decide_child(desired, seen, parent)
    if decision.standing is not Standing.OURS or seen is None:
        return decision
    problem = _unchangeable(desired, seen)
    if problem is None:
        return decision
    words = (
        f"{children.ref_of(seen)} {problem}; restore spec.workspace, or delete the claim and its "
        "data"
    )
    return ChildDecision(Standing.OURS, reason=Reason.APPLY_FAILED, message=words)


def _unwanted(seen: Body | None, parent: Parent) -> ChildDecision | None:
    """Remove our claim when the formation wants none; Kubernetes keeps it while a pod uses it."""
    if seen is None or children.standing(seen, parent) is not Standing.OURS:
        return None
    removal = Delete(children.ref_of(seen), uid=seen["metadata"]["uid"])
    return ChildDecision(Standing.OURS, (removal,))


def _unchangeable(desired: Body, seen: Body) -> str | None:
    wanted, found = desired["spec"], seen["spec"]
    if wanted["accessModes"] != found.get("accessModes"):
        modes = ", ".join(found.get("accessModes") or ())
        return f"was made with access mode {modes} and cannot get another"
    named = wanted.get("storageClassName")
    if named is not None and named != found.get("storageClassName"):
        return f"was made of class {found.get('storageClassName')} and cannot get another"
    size = wanted["resources"]["requests"]["storage"]
    has = (found.get("resources") or {}).get("requests", {}).get("storage", size)
    if quantities.amount(size) < quantities.amount(has) and not quantities.is_same(size, has):
        return f"has {has} and cannot shrink to {size}"
    return None
