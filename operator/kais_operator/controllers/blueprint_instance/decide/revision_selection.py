"""Select the revision of an instance: chosen when its run starts, and pinned by its labels.

Before its run the instance follows the served revision, so that it uses a Blueprint that is fixed
in the meantime. Afterwards only its own spec changes the revision. With `updatePolicy: Automatic`
the Blueprint does so too, while no mission runs and as long as no revision may break callers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kais import canary, compatibility, conditions, labels, names
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_instance import BlueprintInstance, UpdatePolicy
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
    Choice,
)
from kais_operator.planning import annotation_values

_SHORT_DELAY = timedelta(seconds=1)
_LONG_DELAY = timedelta(seconds=10)
"""Delays for another object, whose watch events do not name the instances; both arbitrary."""


def is_pinned(instance: BlueprintInstance) -> bool:
    """Whether the spec or the started run sets the revision, so that no Blueprint is needed."""
    return instance.spec.blueprint_ref.revision is not None or pinned_number(instance) is not None


def follows(instance: BlueprintInstance) -> bool:
    """Whether an instance moves to newer revisions automatically after its run has started."""
    is_automatic = instance.spec.update_policy is UpdatePolicy.AUTOMATIC
    is_revision_named = instance.spec.blueprint_ref.revision is not None
    return is_automatic and not is_revision_named and pinned_number(instance) is not None


@dataclass(frozen=True)
class Newer:
    """The revisions to which an instance that follows its Blueprint may move.

    Attributes:
        served: the number that the Blueprint serves; None when it is gone or serves none.
        present: the pinned revision; None when it no longer exists.
        target: the served revision; None when it does not exist yet.
        between: the revisions between these two that compile, newest first; read only when the
            target may break callers.
    """

    served: int | None = None
    present: BlueprintRevision | None = None
    target: BlueprintRevision | None = None
    between: tuple[BlueprintRevision, ...] = ()


def may_break(instance: BlueprintInstance, newer: Newer) -> bool:
    """Whether an instance must not move to the served revision automatically."""
    is_allowed = instance.metadata.annotations.get(labels.ALLOW_BREAKING_CHANGES) == "true"
    return newer.target is not None and not is_allowed and bool(_breaking(newer))


def choose_newer(instance: BlueprintInstance, newer: Newer, *, is_running: bool) -> Choice:
    """Choose the served revision for an instance that follows, unless it may break callers.

    The choice waits until no mission runs.
    """
    number = pinned_number(instance)
    if newer.served in (None, number) or newer.target is None:
        return Choice(number)
    if is_running:
        return Choice(number, note=f"; moves to revision {newer.served} when the mission has ended")
    if not may_break(instance, newer):
        return Choice(newer.served)
    note = (
        f"; updatePolicy Automatic stops here, because revision {newer.served} may break it: "
        f"{_breaking(newer)}; annotate it {labels.ALLOW_BREAKING_CHANGES}=true, or name the "
        "revision in spec.blueprintRef.revision"
    )
    steps = (step for step in newer.between if not _breaking(replace(newer, target=step)))
    last = next(steps, None)
    return Choice(last.spec.revision if last is not None else number, note=note)


def _breaking(newer: Newer) -> str:
    if newer.present is None or newer.target is None:
        return "its revision no longer exists, so the two cannot be compared"
    return "; ".join(compatibility.compare(newer.present.spec, newer.target.spec).breaking)


def choose(instance: BlueprintInstance, blueprint: Blueprint | None) -> Choice:
    """Choose the revision in the spec, else the pinned one, else the served one."""
    number = instance.spec.blueprint_ref.revision or pinned_number(instance)
    if number is not None:
        return Choice(number)
    name = f"Blueprint/{instance.metadata.namespace}/{instance.spec.blueprint_ref.name}"
    if blueprint is None:
        message = f"{name} does not exist; apply it, or correct spec.blueprintRef.name"
        return _none(Reason.BLUEPRINT_NOT_FOUND, message, _LONG_DELAY)
    served = served_number(blueprint)
    if served is not None:
        return _draw(instance, blueprint, served)
    if labels.LAST_REVISION not in blueprint.metadata.annotations:
        return _none(
            Reason.RECONCILING, f"{name} has no revision yet; it is being made", _SHORT_DELAY
        )
    compiled = blueprint.condition(ConditionType.COMPILED)
    cause = f": {compiled.message}" if compiled is not None and compiled.status == "False" else ""
    return _none(Reason.NO_GOOD_REVISION, f"no revision of {name} compiles{cause}", _LONG_DELAY)


def _draw(instance: BlueprintInstance, blueprint: Blueprint, served: int) -> Choice:
    """Draw the canary or the served revision; without a lot if the instance moves automatically."""
    current, rollout = canary.parse(blueprint.metadata.annotations), blueprint.spec.rollout
    is_running = current is not None and current.verdict is None and current.over == served
    is_automatic = instance.spec.update_policy is UpdatePolicy.AUTOMATIC
    if current is None or rollout is None or not is_running or is_automatic:
        return Choice(served)
    is_drawn = canary.is_drawn(
        instance.metadata.uid, revision=current.revision, percent=rollout.canary_percent
    )
    return Choice(current.revision if is_drawn else served, lot=current.revision)


def lot_of(instance: BlueprintInstance, choice: Choice) -> int | None:
    """Return the canary for which an instance drew its revision; None without a lot."""
    if labels.RUN_ID not in instance.metadata.annotations:
        return choice.lot
    return annotation_values.parse_digits(instance.metadata.annotations.get(labels.CANARY_LOT))


def unreadable(instance: BlueprintInstance, problem: str) -> Choice:
    """Return the choice for a Blueprint that is not valid: no revision, with the problem."""
    name = f"Blueprint/{instance.metadata.namespace}/{instance.spec.blueprint_ref.name}"
    return _none(Reason.NO_GOOD_REVISION, f"{name} is invalid: {problem}", _LONG_DELAY)


def served_number(blueprint: Blueprint) -> int | None:
    """Return the number that a Blueprint serves, from the annotation that outlives its status."""
    return annotation_values.parse_digits(
        blueprint.metadata.annotations.get(labels.SERVED_REVISION)
    )


def resolved(observed: BlueprintInstanceObserved) -> DesiredCondition:
    """Return the condition whether the chosen revision exists."""
    instance, revision = observed.instance, observed.revision
    reference = instance.spec.blueprint_ref
    if revision is None:
        name = names.revision_name(reference.name, observed.choice.number or 0)
        ref = f"BlueprintRevision/{instance.metadata.namespace}/{name}"
        if not is_pinned(instance):  # the number exists before its revision
            return conditions.unknown(
                ConditionType.BLUEPRINT_RESOLVED, Reason.RECONCILING, f"{ref} is being made"
            )
        message = (
            f"{ref} does not exist; name a kept "
            "revision in spec.blueprintRef.revision, or make a new instance"
        )
        return conditions.false(
            ConditionType.BLUEPRINT_RESOLVED, Reason.REVISION_NOT_FOUND, message
        )
    message = f"uses revision {revision.spec.revision} of Blueprint {reference.name}"
    message += observed.choice.note
    return conditions.true(ConditionType.BLUEPRINT_RESOLVED, Reason.RESOLVED, message)


def pin_labels(instance: BlueprintInstance, number: int) -> dict[str, str]:
    """Return the labels that pin the revision of a started instance and keep it from collection."""
    return {
        labels.BLUEPRINT: names.label_value(instance.spec.blueprint_ref.name),
        labels.REVISION: str(number),
    }


def pinned_number(instance: BlueprintInstance) -> int | None:
    """Return the pinned revision of a started instance; None before its run starts."""
    carried = instance.metadata.labels
    number = annotation_values.parse_digits(carried.get(labels.REVISION))
    blueprint = names.label_value(instance.spec.blueprint_ref.name)
    has_run = labels.RUN_ID in instance.metadata.annotations
    is_same_blueprint = carried.get(labels.BLUEPRINT) == blueprint
    return number if has_run and is_same_blueprint else None


def _none(reason: Reason, message: str, requeue_after: timedelta) -> Choice:
    if reason is Reason.RECONCILING:
        problem = conditions.unknown(ConditionType.BLUEPRINT_RESOLVED, reason, message)
    else:
        problem = conditions.false(ConditionType.BLUEPRINT_RESOLVED, reason, message)
    return Choice(problem=problem, requeue_after=requeue_after)
