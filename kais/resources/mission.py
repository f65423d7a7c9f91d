"""Mission: one bounded piece of work with an outcome."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kais.outcomes import Outcome
from kais.resources.base import Column, Model, Resource, Rule, Status
from kais.resources.check import Check, CheckResult, Review, ReviewResult
from kais.resources.field_types import (
    Bool,
    Cost,
    Duration,
    Int,
    Line,
    Name,
    Reference,
    Text,
    Timestamp,
)


class MissionPhase(StrEnum):
    """Where a mission stands, for people; no logic reads it back."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Completion(Model):
    """When the work counts as done, and how long it may be tried."""

    checks: Annotated[
        list[Check],
        Field(
            max_length=50,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(
        default_factory=list,
        description="what must hold after the work; with none the exit code decides",
    )
    review: Review | None = Field(
        default=None, description="a judgement after the checks; a rejection starts a new attempt"
    )
    max_attempts: Int = Field(
        default=3, ge=1, le=100, description="how often the work is tried before it has failed"
    )
    timeout: Duration = Field(
        default="10m", description="time for all attempts together, counted from startedAt"
    )


class Entrypoint(Model):
    """Who gets the objective first."""

    cell: Name = Field(description="the cell, as template name (its first replica) or lead-0")
    message: Text | None = Field(
        default=None, description="words for that cell besides the objective"
    )


class MissionBudget(Model):
    """What the mission may spend."""

    max_cost: Cost | None = Field(
        default=None, description="most paid in US dollars; past it the run is BudgetExceeded"
    )


class MissionKnowledge(Model):
    """Whether the run starts from what is known and leaves something behind."""

    inject: Bool | None = Field(
        default=None, description="false gives the run no recalled facts; unset follows the scope"
    )
    extract: Bool | None = Field(
        default=None, description="false extracts no facts at the end; unset follows the scope"
    )


class MissionSpec(Model):
    """The work, who does it and when it is done; fixed once the mission has started."""

    RULES = (
        Rule(
            "has(self.formationRef) != has(self.cellRef)",
            "exactly one of formationRef and cellRef is needed",
            lambda s: (s.formation_ref is None) != (s.cell_ref is None),
        ),
    )

    formation_ref: Reference | None = Field(
        default=None, description="the Formation that does the work; excludes cellRef"
    )
    cell_ref: Reference | None = Field(
        default=None, description="the single Cell that does the work; excludes formationRef"
    )
    objective: Annotated[str, Field(min_length=1, max_length=65536)] = Field(
        description="what is to be achieved; also what knowledge is recalled for"
    )
    entrypoint: Entrypoint | None = Field(
        default=None,
        description="who gets the objective; unset is the root, the hub or the first cell",
    )
    completion: Completion = Field(
        default_factory=Completion,
        description="when the work counts as done, and how long it may be tried",
        json_schema_extra={"default": {}},
    )
    start_deadline: Duration = Field(
        default="5m",
        description="time to wait for cells to be ready; past it the run is InfrastructureFailed",
    )
    budget: MissionBudget | None = Field(default=None, description="what the mission may spend")
    knowledge: MissionKnowledge | None = Field(
        default=None, description="whether the run is given facts and leaves some"
    )


class Attempt(Model):
    """One try of the work."""

    attempt: Int = Field(ge=1, description="number of the try, from 1")
    started_at: Timestamp | None = Field(default=None, description="when its Job was made")
    finished_at: Timestamp | None = Field(default=None, description="when its Job ended")
    result: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="how the try ended and why, in few words"
    )
    run_id: Line | None = Field(
        default=None,
        description="the earlier run that this entry sums up; absent for tries of this run",
    )


class KnowledgeUse(Model):
    """What the run was given of what was known, and what it left."""

    receipt: Line | None = Field(
        default=None, description="id of the receipt of what was recalled for the run"
    )
    injected: Int | None = Field(default=None, ge=0, description="facts put before the cell")
    extracted: Int | None = Field(default=None, ge=0, description="facts extracted at the end")


class Acknowledged(Model):
    """The verbs that the operator has taken up, word for word as they stood."""

    abort: Line | None = Field(default=None, description="value of kais.io/abort")
    rerun: Line | None = Field(default=None, description="nonce of kais.io/rerun")
    review: Text | None = Field(default=None, description="value of kais.io/review")


class MissionDisplay(Model):
    """Texts for the columns of kubectl get."""

    attempt: Line | None = Field(default=None, description="attempt and most attempts, such as 1/3")
    facts: Line | None = Field(
        default=None, description="facts given and facts extracted, such as 3 in, 2 out"
    )
    cost: Line | None = Field(default=None, description="cost, rounded for reading")


class MissionStatus(Status):
    """What the operator knows about a mission."""

    phase: MissionPhase | None = Field(
        default=None, description="where the mission stands, for people"
    )
    outcome: Outcome | None = Field(default=None, description="how the run ended")
    run_id: Line | None = Field(
        default=None, description="key of the run in the ledger; the annotation is what counts"
    )
    attempt: Int | None = Field(default=None, ge=0, description="number of the latest try")
    started_at: Timestamp | None = Field(
        default=None, description="when the first attempt was started; the timeout counts from it"
    )
    finished_at: Timestamp | None = Field(default=None, description="when the outcome was known")
    result: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="what the last attempt reported, text or JSON, at most 4 KiB"
    )
    result_truncated: Bool | None = Field(
        default=None, description="true when the task reported more than result holds"
    )
    cost: Cost | None = Field(default=None, description="US dollars that the run has spent")
    checks: Annotated[
        list[CheckResult],
        Field(
            max_length=50,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(default_factory=list, description="how each check of the latest attempt stands")
    review: ReviewResult | None = Field(default=None, description="the reviewer's judgement")
    history: Annotated[list[Attempt], Field(max_length=100)] = Field(
        default_factory=list,
        description=(
            "how at most 10 earlier runs ended, then the tries of this run, oldest first; of more "
            "than 10 tries the first and the latest"
        ),
    )
    message: Text | None = Field(default=None, description="the summary's words, for people")
    trace_context: Line | None = Field(
        default=None, description="W3C trace context that the run's spans share"
    )
    knowledge: KnowledgeUse | None = Field(
        default=None, description="what the run was given and what it left"
    )
    acknowledged: Acknowledged | None = Field(
        default=None, description="the annotation verbs that were taken up"
    )
    display: MissionDisplay | None = Field(default=None, description="texts for columns")


class Mission(Resource):
    """One bounded piece of work with an outcome."""

    RULES = (
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.startedAt) || self.spec == oldSelf.spec",
            "spec is fixed once the mission has started; make a new Mission, or start a new run of "
            "this one with the annotation kais.io/rerun",
        ),
    )
    PLURAL = "missions"
    SHORT_NAME = "ms"
    DESCRIPTION: ClassVar[str] = "One bounded piece of work with an outcome."
    COLUMNS = (
        Column("Status", "string", ".status.phase", "where the mission stands"),
        Column("Outcome", "string", ".status.outcome", "how the run ended"),
        Column("Attempt", "string", ".status.display.attempt", "attempt and most attempts"),
        Column("Facts", "string", ".status.display.facts", "facts given and facts extracted"),
        Column("Cost", "string", ".status.display.cost", "US dollars spent"),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
    )
    SELECTABLE = (".spec.formationRef", ".status.phase", ".status.outcome")

    spec: MissionSpec = Field(description="the work, who does it and when it is done")
    status: MissionStatus = Field(
        default_factory=MissionStatus, description="what the operator found"
    )
