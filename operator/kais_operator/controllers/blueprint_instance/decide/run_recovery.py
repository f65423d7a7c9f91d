"""Take over the run of a Mission whose instance has no record of it.

`kubectl replace` removes the annotations of an instance, and `--cascade=orphan` leaves its children
to the next object of its name. In both cases the Mission still has the run: the instance gets the
run and its revision back before anything else is decided. Otherwise it would wait for a run that no
Mission has, or move a team to another revision while it works. Without a Mission, the Formation has
the revision.
"""

from __future__ import annotations

from kais import labels, names
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator.controllers.blueprint_instance.decide import child_manifests, instance_run
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import annotation_values, children, run_stamps
from kais_operator.planning.children import Ownership
from kais_operator.planning.plan import Action, Body, EmitEvent, ObjectRef, PatchMetadata

_OF_THE_RUN = (labels.TRACEPARENT, labels.CANARY_LOT)
"""Annotations of a Mission that its instance has with the same value."""


def is_candidate(instance: BlueprintInstance, mission: Body | None) -> bool:
    """Whether an instance without a run has a Mission with one, which may have been copied."""
    if instance_run.run_of(instance) is not None or mission is None:
        return False
    ownership = children.ownership_of(mission, child_manifests.parent_of(instance))
    return ownership in (Ownership.OWNED, Ownership.ORPHANED)


def take_over(observed: BlueprintInstanceObserved) -> tuple[Action, ...]:
    """Choose the write that records the run of the Mission; none if the instance has a run."""
    instance, mission = observed.instance, observed.mission
    if mission is None:
        return _keep_revision(observed)
    if observed.is_mission_copied or not is_candidate(instance, mission):
        return ()
    run_id = annotation_values.run_id(run_stamps.annotations_of(mission))
    if run_id is None:
        return ()
    message = f"run {run_id} of {children.ref_of(mission)} continues as the run of this object"
    return (
        _record(
            observed,
            annotations=_annotations(instance, mission, Run(run_id)),
            pin=_pin_labels(instance, mission),
        ),
        EmitEvent("Normal", "RunTakenOver", message),
    )


def _keep_revision(observed: BlueprintInstanceObserved) -> tuple[Action, ...]:
    """Choose the write that pins the revision of a team whose instance lost its record."""
    instance, formation = observed.instance, observed.formation
    if instance_run.run_of(instance) is not None or formation is None:
        return ()
    ownership = children.ownership_of(formation, child_manifests.parent_of(instance))
    pin = _pin_labels(instance, formation)
    if ownership is not Ownership.OWNED or not pin:
        return ()
    run = instance_run.first_run(instance)
    annotations = instance_run.run_annotations(instance, run=run, is_session=False)
    return (_record(observed, annotations=annotations, pin=pin),)


def _record(
    observed: BlueprintInstanceObserved,
    *,
    annotations: dict[str, str | None],
    pin: dict[str, str | None],
) -> PatchMetadata:
    """Return the write of a record, which also drops annotations copied from another object."""
    instance = observed.instance
    metadata = instance.metadata
    return PatchMetadata(
        ObjectRef(instance.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={**dict.fromkeys(observed.copied), **annotations},
        labels=pin,
    )


def _annotations(instance: BlueprintInstance, mission: Body, run: Run) -> dict[str, str | None]:
    """Return the annotations of the run; a rerun that was requested since stays requested."""
    carried = run_stamps.annotations_of(mission)
    nonce = carried.get(labels.RERUN_TAKEN)
    annotations = instance_run.run_annotations(
        instance, run=run, is_session=False, mission_nonce=nonce
    )
    if nonce is None:
        annotations.pop(labels.RERUN_TAKEN, None)
    return annotations | {name: carried[name] for name in _OF_THE_RUN if name in carried}


def _pin_labels(instance: BlueprintInstance, child: Body) -> dict[str, str | None]:
    """Return the labels that pin the revision of a child; none of another Blueprint's."""
    carried = child["metadata"].get("labels") or {}
    blueprint = names.label_value(instance.spec.blueprint_ref.name)
    number = annotation_values.parse_digits(carried.get(labels.REVISION))
    if number is None or carried.get(labels.BLUEPRINT) != blueprint:
        return {}
    return {labels.BLUEPRINT: blueprint, labels.REVISION: str(number)}
