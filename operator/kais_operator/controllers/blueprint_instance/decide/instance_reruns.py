"""Further runs of one use: asked for by an annotation, begun once for each nonce.

The use stamps itself with the new run first; everything else follows from that. Its Mission is of
another run then, and is told to run again, or is made anew when the template gives another one now.
"""

from __future__ import annotations

from kais import labels, names
from kais.blueprints import Rendered
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator.controllers.blueprint_instance.decide import instance_children, instance_run
from kais_operator.controllers.blueprint_instance.decide.instance_children import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import children
from kais_operator.planning.children import ChildDecision, Ownership
from kais_operator.planning.plan import Action, Apply, Body, Delete, PatchMetadata


def asked(instance: BlueprintInstance) -> str | None:
    """Give the nonce of a further run that is asked for and not begun yet."""
    annotations = instance.metadata.annotations
    nonce = annotations.get(labels.RERUN, "")[: instance_run.NONCE_LIMIT]
    return nonce if nonce and nonce != annotations.get(labels.RERUN_TAKEN) else None


def next_run(instance: BlueprintInstance, rendered: Rendered) -> Run | None:
    """Name the further run that may begin now; None while there is none or it has to wait.

    The run before must have ended and be stamped so; one without a mission never ends and makes
    room at once. A use that is suspended begins nothing.
    """
    nonce, begun = asked(instance), instance_run.run_of(instance)
    if nonce is None or begun is None or rendered.mission_spec is None or instance.spec.suspend:
        return None
    if begun.outcome is None and not instance_run.is_session(instance):
        return None
    return Run(names.run_id(instance.metadata.uid, nonce))


def ahead(observed: BlueprintInstanceObserved) -> tuple[Run, str] | None:
    """Give the run, and its nonce, that the Mission began by itself after the use's own.

    Somebody asked the Mission for it and not the use. The Mission lists the runs before.
    """
    seen, begun = observed.mission, instance_run.run_of(observed.instance)
    parent = instance_children.parent_of(observed.instance)
    if seen is None or begun is None or children.ownership_of(seen, parent) is not Ownership.OWNED:
        return None
    carried = seen["metadata"].get("annotations") or {}
    run_id, nonce = carried.get(labels.RUN_ID), carried.get(labels.RERUN_TAKEN)
    if not run_id or not nonce or begun.run_id not in carried.get(labels.EARLIER_RUNS, ""):
        return None
    return (Run(run_id), nonce) if run_id != begun.run_id else None


def decide_mission(observed: BlueprintInstanceObserved, body: Body, *, run: Run) -> ChildDecision:
    """Choose the write that brings the Mission to this run; `body` is what it would be made as."""
    found = children.decide_fixed_child(
        body, observed.mission, instance_children.parent_of(observed.instance)
    )
    seen = observed.mission
    if found.ownership is not Ownership.OWNED or seen is None:
        return found
    carried = seen["metadata"].get("annotations") or {}
    taken = observed.instance.metadata.annotations.get(labels.RERUN_TAKEN)
    is_same = instance_children.hash_of(seen) == instance_children.hash_of(body)
    if taken is not None and carried.get(labels.RUN_ID) != run.run_id:
        return ChildDecision(Ownership.OWNED, _again(seen, taken=taken, is_same=is_same))
    return ChildDecision(Ownership.OWNED, _repaired(seen, body, is_same=is_same))


def _again(seen: Body, *, taken: str, is_same: bool) -> tuple[Action, ...]:
    metadata = seen["metadata"]
    ref = children.ref_of(seen)
    if not is_same:
        return (Delete(ref, metadata["uid"]),)
    if (metadata.get("annotations") or {}).get(labels.RERUN) == taken:
        return ()
    version = metadata["resourceVersion"]
    return (PatchMetadata(ref, resource_version=version, annotations={labels.RERUN: taken}),)


def _repaired(seen: Body, body: Body, *, is_same: bool) -> tuple[Action, ...]:
    """Undo drift; a Mission that was made of another revision or other values is no drift.

    Annotations and finalizers are its own controller's after its creation.
    """
    kept = {k: v for k, v in body["metadata"].items() if k not in ("annotations", "finalizers")}
    wanted = {**body, "metadata": kept}
    if not children.differs(wanted, seen) and not children.has_additions(wanted, seen):
        return ()
    carried = seen["metadata"].get("labels") or {}
    revision = carried.get(labels.REVISION, body["metadata"]["labels"][labels.REVISION])
    is_of_this = revision == body["metadata"]["labels"][labels.REVISION]
    spec_holds = not children.differs({"spec": body["spec"]}, seen)
    if not is_same and not (spec_holds and is_of_this):
        return ()
    return (Apply(wanted, uid=seen["metadata"]["uid"]),)
