"""Build the Formation and the Mission of an instance from their rendered specs.

Both have the instance's name. The Mission is created once, with its run's identity and finalizer,
so that nothing can happen before both exist. Its spec is never changed.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass

from kais import labels, names, trace_context
from kais.resources.base import API_VERSION
from kais.resources.blueprint import BlueprintKnowledge, KnowledgePolicy
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.planning import children, run_stamps
from kais_operator.planning.plan import Body

SIZE_LIMIT_BYTES = 1_400_000
"""Below etcd's limit for one object (1.5 MiB), to leave room for status and metadata."""
_VALUE_BYTES = 512
"""Maximum of a parameter's value in the ledger; a hundred of these fit in annotations."""


@dataclass(frozen=True)
class Run:
    """The identity of an instance's run, and its outcome after its end."""

    run_id: str
    outcome: str | None = None


def parent_of(instance: BlueprintInstance) -> children.Parent:
    """Return the instance as the parent of its children."""
    metadata = instance.metadata
    return children.Parent(
        API_VERSION, instance.kind, metadata.namespace, metadata.name, metadata.uid
    )


def formation_scope(instance: BlueprintInstance, formation: Body | None) -> str:
    """Return the formation's scope: the instance's, else the template's, else the Blueprint's."""
    knowledge = instance.spec.knowledge
    templated = ((formation or {}).get("knowledge") or {}).get("scope")
    return (knowledge.scope if knowledge else None) or templated or instance.spec.blueprint_ref.name


def formation_body(instance: BlueprintInstance, revision: BlueprintRevision, spec: Body) -> Body:
    """Build the Formation from a rendered spec."""
    formation_spec = copy.deepcopy(spec)
    scope = formation_scope(instance, spec)
    formation_spec["knowledge"] = {**(formation_spec.get("knowledge") or {}), "scope": scope}
    return children.child_body(
        parent_of(instance),
        api_version=API_VERSION,
        kind="Formation",
        name=instance.metadata.name,
        content={"spec": formation_spec},
        labelled=_labels(instance, revision),
    )


def mission_body(
    instance: BlueprintInstance,
    revision: BlueprintRevision,
    spec: Body,
    *,
    run: Run,
    values: Body | None = None,
    lot: int | None = None,
) -> Body:
    """Build the Mission of a run from a rendered spec.

    A Mission whose run has ended only reports the outcome again.

    Args:
        instance: the owner.
        revision: the revision that was rendered.
        spec: the rendered spec, which already names the Formation.
        run: the run of the Mission.
        values: the values of the parameters.
        lot: the canary for which the first run drew its revision; None without a lot.
    """
    mission_spec = dict(spec)
    arm = arm_of(instance, revision.spec.knowledge, spec, run_id=run.run_id)
    knowledge = _knowledge(instance, spec, arm)
    if knowledge:
        mission_spec["knowledge"] = knowledge
    body = children.child_body(
        parent_of(instance),
        api_version=API_VERSION,
        kind="Mission",
        name=instance.metadata.name,
        content={"spec": mission_spec},
        labelled=_labels(instance, revision),
    )
    annotations = {
        labels.RUN_ID: run.run_id,
        labels.ARM: arm,
        **_traceparent(instance, run),
    }
    annotations |= run_stamps.object_annotation(
        "Mission", instance.metadata.namespace, instance.metadata.name
    )
    if values is not None:
        annotations[labels.PARAMETERS] = json.dumps(ledger_parameters(values), ensure_ascii=False)
    nonce = instance.metadata.annotations.get(labels.RERUN_TAKEN)
    if lot is not None and nonce is None:
        annotations[labels.CANARY_LOT] = str(lot)
    if nonce is not None:
        annotations |= {labels.RERUN: nonce, labels.RERUN_TAKEN: nonce}
    if run.outcome is not None:
        annotations[labels.OUTCOME] = run.outcome
    body["metadata"] |= {"annotations": annotations, "finalizers": [labels.FINALIZER]}
    return body


def _traceparent(instance: BlueprintInstance, run: Run) -> dict[str, str]:
    """Return the annotation of the run's trace; none for a run that an older version stamped."""
    carried = instance.metadata.annotations
    if labels.TRACEPARENT not in carried and carried.get(labels.RUN_ID) == run.run_id:
        return {}
    return {labels.TRACEPARENT: trace_context.of_run(carried, run.run_id)}


def ledger_parameters(values: Body) -> Body:
    """Return the values by which runs are compared, but only short ones that fit an annotation."""
    return {
        name: value
        for name, value in values.items()
        if len(json.dumps(value, ensure_ascii=False).encode()) <= _VALUE_BYTES
    }


def arm_of(
    instance: BlueprintInstance, policy: BlueprintKnowledge, mission: Body, *, run_id: str
) -> str:
    """Return whether a run gets knowledge: `on`, `off`, or `holdout`, drawn by its run-id."""
    knowledge = instance.spec.knowledge
    templated = (mission.get("knowledge") or {}).get("inject")
    is_injecting = (
        knowledge.inject if knowledge is not None and knowledge.inject is not None else templated
    )
    if policy.policy is KnowledgePolicy.NEVER or is_injecting is False:
        return "off"
    bucket = int(names.short_hash(f"holdout/{run_id}"), 16) % 100
    is_held_out = policy.policy is KnowledgePolicy.HOLDOUT and bucket < policy.holdout_percent
    return "holdout" if is_held_out else "on"


def hash_of(body: Body | None) -> str | None:
    """Return the hash with which a child was created; None without a child or its label."""
    carried = ((body or {}).get("metadata") or {}).get("labels") or {}
    spec_hash: str | None = carried.get(labels.SPEC_HASH)
    return spec_hash


def too_large(spec: Body, *, name: str) -> str | None:
    """Return a message with the size if etcd would refuse an object with that spec, else None."""
    size = len(json.dumps(spec, ensure_ascii=False).encode())
    if size <= SIZE_LIMIT_BYTES:
        return None
    return (
        f"{name} would be {size} bytes, the limit is {SIZE_LIMIT_BYTES};"
        " reduce what is rendered into it"
    )


def _knowledge(instance: BlueprintInstance, spec: Body, arm: str) -> Body:
    merged: Body = dict(spec.get("knowledge") or {})
    overrides = instance.spec.knowledge
    if overrides is not None and overrides.inject is not None:
        merged["inject"] = overrides.inject
    if overrides is not None and overrides.extract is not None:
        merged["extract"] = overrides.extract
    if arm != "on":
        merged["inject"] = False
    return merged


def _labels(instance: BlueprintInstance, revision: BlueprintRevision) -> dict[str, str]:
    return {
        labels.BLUEPRINT: names.label_value(revision.spec.blueprint),
        labels.REVISION: str(revision.spec.revision),
    }
