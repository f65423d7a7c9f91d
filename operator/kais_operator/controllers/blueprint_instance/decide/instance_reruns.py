"""Reruns of an instance: requested by an annotation, and started once for each nonce.

The instance is stamped with the new run first; everything else follows from that. Its Mission still
has another run then. The Mission is requested to run again, or recreated if the template now
renders another one.
"""

from __future__ import annotations

from kais import labels, names
from kais.blueprint_rendering import Rendered
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator.controllers.blueprint_instance.decide import child_manifests, instance_run
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import children
from kais_operator.planning.children import ChildDecision, Ownership
from kais_operator.planning.plan import Action, Apply, Body, Delete, PatchMetadata


def requested_nonce(instance: BlueprintInstance) -> str | None:
    """Return the nonce of a requested rerun that has not started.

    The nonce of a run that was requested on the Mission may be longer than the limit.
    """
    annotations, limit = instance.metadata.annotations, instance_run.NONCE_LIMIT
    nonce = annotations.get(labels.RERUN, "")[:limit]
    return nonce if nonce and nonce != annotations.get(labels.RERUN_TAKEN, "")[:limit] else None


def next_run(instance: BlueprintInstance, rendered: Rendered) -> Run | None:
    """Return the rerun that may start now; None without one, or while it has to wait.

    The outcome of the previous run must be stamped. A run without a mission never ends and does not
    delay a rerun. A suspended instance starts no run.
    """
    nonce, current_run = requested_nonce(instance), instance_run.run_of(instance)
    if (
        nonce is None
        or current_run is None
        or rendered.mission_spec is None
        or instance.spec.suspend
    ):
        return None
    if current_run.outcome is None and not instance_run.is_session(instance):
        return None
    return Run(names.run_id(instance.metadata.uid, nonce))


def mission_run(observed: BlueprintInstanceObserved) -> tuple[Run, str] | None:
    """Return the run, with its nonce, that the Mission started after the run of the instance.

    Such a rerun was requested on the Mission and not on the instance. The Mission lists its
    previous runs.
    """
    live, current_run = observed.mission, instance_run.run_of(observed.instance)
    parent = child_manifests.parent_of(observed.instance)
    if (
        live is None
        or current_run is None
        or children.ownership_of(live, parent) is not Ownership.OWNED
    ):
        return None
    carried = live["metadata"].get("annotations") or {}
    run_id, nonce = carried.get(labels.RUN_ID), carried.get(labels.RERUN_TAKEN)
    if not run_id or not nonce or current_run.run_id not in carried.get(labels.EARLIER_RUNS, ""):
        return None
    return (Run(run_id), nonce) if run_id != current_run.run_id else None


def decide_mission(observed: BlueprintInstanceObserved, body: Body, *, run: Run) -> ChildDecision:
    """Choose the write that brings the Mission to this run; `body` is the desired Mission."""
    decision = children.decide_fixed_child(
        body, observed.mission, child_manifests.parent_of(observed.instance)
    )
    live = observed.mission
    if decision.ownership is not Ownership.OWNED or live is None:
        return decision
    carried = live["metadata"].get("annotations") or {}
    nonce = observed.instance.metadata.annotations.get(labels.RERUN_TAKEN)
    is_same_hash = child_manifests.hash_of(live) == child_manifests.hash_of(body)
    if nonce is not None and carried.get(labels.RUN_ID) != run.run_id:
        return ChildDecision(
            Ownership.OWNED, _rerun_actions(live, nonce=nonce, is_same_hash=is_same_hash)
        )
    return ChildDecision(Ownership.OWNED, _repair_actions(live, body, is_same_hash=is_same_hash))


def _rerun_actions(live: Body, *, nonce: str, is_same_hash: bool) -> tuple[Action, ...]:
    metadata = live["metadata"]
    ref = children.ref_of(live)
    if not is_same_hash:
        return (Delete(ref, metadata["uid"]),)
    if (metadata.get("annotations") or {}).get(labels.RERUN) == nonce:
        return ()
    version = metadata["resourceVersion"]
    return (PatchMetadata(ref, resource_version=version, annotations={labels.RERUN: nonce}),)


def _repair_actions(live: Body, body: Body, *, is_same_hash: bool) -> tuple[Action, ...]:
    """Revert drift; a Mission from another revision or other values is no drift.

    After its creation, annotations and finalizers belong to the controller of the Mission.
    """
    metadata = {k: v for k, v in body["metadata"].items() if k not in ("annotations", "finalizers")}
    desired = {**body, "metadata": metadata}
    if not children.differs(desired, live) and not children.has_additions(desired, live):
        return ()
    carried = live["metadata"].get("labels") or {}
    revision = carried.get(labels.REVISION, body["metadata"]["labels"][labels.REVISION])
    is_same_revision = revision == body["metadata"]["labels"][labels.REVISION]
    spec_holds = not children.differs({"spec": body["spec"]}, live)
    if not is_same_hash and not (spec_holds and is_same_revision):
        return ()
    return (Apply(desired, uid=live["metadata"]["uid"]),)
