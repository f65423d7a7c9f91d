"""Compute a Blueprint's status: a summary of its revisions, its statistics, its conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kais import conditions
from kais.conditions import ConditionType, Reason
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint, BlueprintDisplay, BlueprintStatus, Version
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import canary_rollout, evidence, revision_history
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.blueprint_revision.decide import statistics_status
from kais_operator.planning import status_and_events
from kais_operator.planning.plan import Body, EmitEvent
from knowledge_client import models

_VERSIONS = 20  # maximum items of the field
_CHANGES = 500  # characters; the revision itself has the whole text
_NAMES = 60  # characters of the column


@dataclass(frozen=True)
class Present:
    """The revision of the present spec, the served revision, and the compiler's verdicts.

    `unnumbered` is why the present spec has no number yet; `number` is 0 then. `note` is appended
    to the message about the served revision.
    """

    number: int
    served: int | None
    verdicts: Mapping[int, Verdict]
    unnumbered: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Ledger:
    """The last statistics of the Blueprint, and why the knowledge service does not answer now."""

    stats: models.BlueprintStats | None
    problem: str | None


def status_of(
    blueprint: Blueprint,
    *,
    revisions: Sequence[BlueprintRevision],
    present: Present,
    ledger: Ledger,
    rollout: canary_rollout.CanaryDecision,
    now: datetime,
) -> tuple[Body, tuple[EmitEvent, ...]]:
    """Compute the whole status with its Events. Reads no clock: pass `now`."""
    fields = statistics_status.fields_of(ledger.stats, blueprint.status)
    claims = evidence.claims_message(blueprint.spec.evidence, ledger.stats)
    desired = _conditions(present, ledger, claims=claims, rollout=rollout)
    canary_rollout.add_condition(desired, rollout, blueprint)
    timed_conditions = desired.merge(
        blueprint.status.conditions, generation=blueprint.metadata.generation, now=now
    )
    newest = sorted(revisions, key=revision_history.number_of, reverse=True)[:_VERSIONS]
    status = BlueprintStatus(
        **fields,
        observed_generation=blueprint.metadata.generation,
        conditions=timed_conditions,
        latest_revision=max([present.number, *map(revision_history.number_of, newest)]) or None,
        served_revision=present.served,
        versions=[_version(revision, blueprint, ledger.stats) for revision in newest],
        display=BlueprintDisplay(
            parameters=_parameters(blueprint),
            success=statistics_status.percent(fields.get("avg_success_rate")),
            interval=statistics_status.percent_range(fields),
            claimed=evidence.claimed(blueprint.spec.evidence),
        ),
    )
    return status_and_events.body_of(status), status_and_events.transition_events(
        blueprint, timed_conditions, types=(ConditionType.COMPILED,)
    )


def _conditions(
    present: Present, ledger: Ledger, *, claims: str, rollout: canary_rollout.CanaryDecision
) -> conditions.ConditionSet:
    desired = conditions.ConditionSet()
    verdict = present.verdicts[present.number]
    message = f"revision {present.number}: {verdict.message}" if present.number else verdict.message
    serves = f"revision {present.served} serves{present.note}"
    if verdict.is_good:
        desired.true(ConditionType.COMPILED, verdict.reason, message)
    else:
        suffix = f"; revision {present.served} keeps serving" if present.served else ""
        desired.false(ConditionType.COMPILED, verdict.reason, f"{message}{suffix}")
    if ledger.problem is not None:
        serves += "; the knowledge service does not answer, statistics are from its last response"
    if present.unnumbered is not None:
        problem = f"nothing can be used yet: {present.unnumbered}"
        desired.false(ConditionType.READY, Reason.STORE_UNAVAILABLE, problem)
    elif present.served is None:
        desired.false(
            ConditionType.READY, Reason.NO_GOOD_REVISION, f"nothing can be used yet: {message}"
        )
    elif present.served == present.number or (rollout.canary is not None and verdict.is_good):
        desired.true(ConditionType.READY, Reason.SERVED, f"{serves}{claims}")
    else:
        cause = f"revision {present.number} does not compile"
        if verdict.is_not_created:
            cause = f"revision {present.number} cannot be made"
        desired.true(
            ConditionType.READY, Reason.LAST_GOOD_SERVED, f"{serves}, because {cause}{claims}"
        )
    return desired


def _version(
    revision: BlueprintRevision, blueprint: Blueprint, stats: models.BlueprintStats | None
) -> Version:
    number = revision.spec.revision
    counts = statistics_status.of_revision(stats, number)
    previous = next((v for v in blueprint.status.versions if v.version == number), None)
    changes = revision.spec.changes
    uses = previous.usage_count if previous else None
    rate = previous.avg_success_rate if previous else None
    if counts is not None:
        fields = statistics_status.fields_of(counts, revision.status)
        uses, rate = fields["usage_count"], fields["avg_success_rate"]
    return Version(
        version=number,
        revision=revision.metadata.name,
        hash=blueprint_revision.hash_of(revision.spec),
        created_at=revision.metadata.creation_timestamp,
        changes=changes
        if changes is None or len(changes) <= _CHANGES
        else f"{changes[:_CHANGES]}…",
        usage_count=uses,
        avg_success_rate=rate,
    )


def _parameters(blueprint: Blueprint) -> str | None:
    names = [f"{p.name}*" if p.is_required else p.name for p in blueprint.spec.parameters]
    text = ", ".join(names)
    return (text if len(text) <= _NAMES else f"{text[:_NAMES]}…") or None
