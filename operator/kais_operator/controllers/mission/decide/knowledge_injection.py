"""Decide which knowledge an attempt gets, and whether facts are extracted from its run."""

from __future__ import annotations

from typing import Literal

from kais import labels, names, trace_context
from kais.resources.knowledge_scope import KnowledgeScope
from kais.resources.mission import Mission
from kais_operator.controllers.cell.decide import base_pod_spec, cell_identity
from kais_operator.controllers.knowledge_scope.decide import knowledge_scope
from kais_operator.controllers.mission.decide.attempt_state import Attempt
from kais_operator.controllers.mission.decide.entrypoint import Entrypoint
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.planning import annotation_values, children
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body, InjectKnowledge
from knowledge_client import models

Arm = Literal["on", "off", "holdout"]
_ARMS: dict[str, Arm] = {"on": "on", "off": "off", "holdout": "holdout"}
QUERY_LIMIT = 8192
"""Maximum characters that the knowledge service accepts as a query."""


def arm_of(mission: Mission) -> Arm:
    """Return whether a run gets knowledge, as the arm that the ledger compares."""
    drawn = _ARMS.get(mission.metadata.annotations.get(labels.ARM, ""))
    is_refused = mission.spec.knowledge is not None and mission.spec.knowledge.inject is False
    return drawn or ("off" if is_refused else "on")


def is_extracting(observed: MissionObserved, settings: KnowledgeScope | None) -> bool:
    """Whether facts are extracted from a mission's run: set by the mission, else by its scope."""
    extract = observed.mission.spec.knowledge.extract if observed.mission.spec.knowledge else None
    if extract is not None:
        return extract
    return settings is None or settings.spec.extraction.enabled


def max_facts(settings: KnowledgeScope | None) -> int:
    """Return the maximum number of facts extracted from one run; the service extracts at most 7."""
    return 7 if settings is None else min(7, settings.spec.extraction.max_facts)


def decide_map(
    observed: MissionObserved, attempt: Attempt, entry: Entrypoint, *, run_id: str
) -> InjectKnowledge | children.ChildDecision | None:
    """Choose the recall for an attempt whose ConfigMap is missing; None when it exists.

    If the name of the ConfigMap is taken by another object, return the decision of `children`.
    """
    if attempt.job is None:
        return None
    parent = _job_parent(attempt.job)
    body = _map_body(parent, entry, observed.mission)
    decision = children.decide_fixed_child(body, observed.maps.get(parent.name), parent)
    if decision.ownership is children.Ownership.OWNED:
        return None
    if decision.ownership is not children.Ownership.MISSING:
        return decision
    return InjectKnowledge(
        map_body=body,
        recall=_recall(observed, entry, run_id=run_id, attempt=attempt.number),
        # A run in another namespace may have the same id.
        idempotency_key=f"{observed.mission.metadata.namespace}:{run_id}:{attempt.number}",
        traceparent=trace_context.of_run(observed.mission.metadata.annotations, run_id),
    )


def _recall(
    observed: MissionObserved, entry: Entrypoint, *, run_id: str, attempt: int
) -> models.RecallIn | None:
    mission, cell = observed.mission, entry.cell
    cell_settings = cell.spec.knowledge
    scope_ref = cell_settings.scope_ref if cell_settings is not None else None
    settings = cell_identity.settings_for(
        entry.identity.scope, observed.declared, scope_ref=scope_ref
    )
    bounds = knowledge_scope.injection_of(settings)
    is_disabled_by_cell = cell_settings is not None and cell_settings.inject is False
    is_enabled_by_cell = cell_settings is not None and cell_settings.inject is True
    if arm_of(mission) != "on" or is_disabled_by_cell or not (bounds.enabled or is_enabled_by_cell):
        return None
    message = mission.spec.entrypoint.message if mission.spec.entrypoint else None
    return models.RecallIn(
        query="\n".join(filter(None, (mission.spec.objective, message)))[:QUERY_LIMIT],
        limit=max(1, bounds.max_facts),
        max_tokens=max(1, bounds.max_tokens),
        min_confidence=bounds.min_confidence,
        run=run_id,
        attempt=attempt,
        act_as=models.ActAs(
            namespace=cell.metadata.namespace, service_account=entry.identity.account
        ),
    )


def receipt_of(body: Body | None) -> tuple[str | None, int | None]:
    """Read the receipt and the number of facts from an attempt's ConfigMap; None where unknown."""
    if body is None:
        return None, None
    annotations = body["metadata"].get("annotations") or {}
    return annotations.get(labels.RECEIPT) or None, annotation_values.parse_digits(
        annotations.get(labels.INJECTED)
    )


def injection_problem(body: Body | None) -> str | None:
    """Return why an attempt's ConfigMap has no facts, if the knowledge service was the reason."""
    annotations = (body or {}).get("metadata", {}).get("annotations") or {}
    message: str | None = annotations.get(labels.INJECTION_PROBLEM)
    return message


def _job_parent(job: Body) -> Parent:
    metadata = job["metadata"]
    return Parent("batch/v1", "Job", metadata["namespace"], metadata["name"], metadata["uid"])


def _map_body(parent: Parent, entry: Entrypoint, mission: Mission) -> Body:
    return children.child_body(
        parent,
        api_version="v1",
        kind="ConfigMap",
        name=names.knowledge_map_name(parent.name),
        content={"immutable": True},
        labelled={
            **base_pod_spec.cell_labels(entry.cell),
            labels.MISSION: names.label_value(mission.metadata.name),
        },
    )
