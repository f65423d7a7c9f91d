"""The volume claim that the cells of a formation share, if the formation declares a workspace.

After its creation only the size of a claim may change, and only grow. Other changes are reported in
a condition, because the API server would refuse them in every reconcile.
"""

from __future__ import annotations

from kais import names
from kais.reasons import Reason
from kais.resources.formation import Formation, Workspace
from kais_operator.planning import children, quantities
from kais_operator.planning.children import ChildDecision, Ownership, Parent
from kais_operator.planning.plan import Body, Delete


def claim_body(formation: Formation, workspace: Workspace, parent: Parent) -> Body:
    """Build the claim for a workspace."""
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


def decide_claim(formation: Formation, live: Body | None, parent: Parent) -> ChildDecision | None:
    """Choose the write for the claim; None when none is declared and the formation owns none."""
    workspace = formation.spec.workspace
    if workspace is None:
        return _unwanted(live, parent)
    desired = claim_body(formation, workspace, parent)
    decision = children.decide_child(desired, live, parent)
    if decision.ownership is not Ownership.OWNED or live is None:
        return decision
    problem = _unchangeable(desired, live)
    if problem is None:
        return decision
    message = (
        f"{children.ref_of(live)} {problem}; restore spec.workspace, or delete the claim and its "
        "data"
    )
    return ChildDecision(Ownership.OWNED, reason=Reason.APPLY_FAILED, message=message)


def _unwanted(live: Body | None, parent: Parent) -> ChildDecision | None:
    """Delete a claim that is no longer declared; Kubernetes keeps it while a pod uses it."""
    if live is None or children.ownership_of(live, parent) is not Ownership.OWNED:
        return None
    removal = Delete(children.ref_of(live), uid=live["metadata"]["uid"])
    return ChildDecision(Ownership.OWNED, (removal,))


def _unchangeable(desired: Body, live: Body) -> str | None:
    desired_spec, live_spec = desired["spec"], live["spec"]
    if desired_spec["accessModes"] != live_spec.get("accessModes"):
        modes = ", ".join(live_spec.get("accessModes") or ())
        return f"was made with access mode {modes} and cannot get another"
    storage_class = desired_spec.get("storageClassName")
    if storage_class is not None and storage_class != live_spec.get("storageClassName"):
        return f"was made of class {live_spec.get('storageClassName')} and cannot get another"
    size = desired_spec["resources"]["requests"]["storage"]
    live_size = (live_spec.get("resources") or {}).get("requests", {}).get("storage", size)
    if quantities.amount(size) < quantities.amount(live_size) and not quantities.is_equal(
        size, live_size
    ):
        return f"has {live_size} and cannot shrink to {size}"
    return None
