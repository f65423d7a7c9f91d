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

MAX_ATTEMPTS = 100


class MissionPhase(StrEnum):
    """The phase of a mission, for people; no decision depends on it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Completion(Model):
    """When the work is done, and how often and how long it may be tried."""

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
        description="Checks that the work must pass. Without checks the exit code decides.",
    )
    review: Review | None = Field(
        default=None, description="Review after the checks. A rejection starts a new attempt."
    )
    max_attempts: Int = Field(
        default=3, ge=1, le=MAX_ATTEMPTS, description="Maximum number of attempts."
    )
    timeout: Duration = Field(
        default="10m", description="Time limit for all attempts together, counted from startedAt."
    )


class Entrypoint(Model):
    """The cell that gets the objective."""

    cell: Name = Field(
        description=(
            "Name of the cell: a template name (its first replica), or a short name such as lead-0."
        )
    )
    message: Text | None = Field(
        default=None, description="Message to that cell in addition to the objective."
    )


class MissionBudget(Model):
    """The budget of the mission."""

    max_cost: Cost | None = Field(
        default=None,
        description=("Maximum cost in US dollars. A run that exceeds it ends with BudgetExceeded."),
    )


class MissionKnowledge(Model):
    """Whether the run gets knowledge, and whether facts are extracted from it."""

    inject: Bool | None = Field(
        default=None,
        description="If false, the run gets no recalled facts. Default: as in the scope.",
    )
    extract: Bool | None = Field(
        default=None,
        description=("If false, no facts are extracted from the run. Default: as in the scope."),
    )


class MissionSpec(Model):
    """The work, its cells and its completion; immutable once the mission has started."""

    RULES = (
        Rule(
            "has(self.formationRef) != has(self.cellRef)",
            "exactly one of formationRef and cellRef is needed",
            lambda s: (s.formation_ref is None) != (s.cell_ref is None),
        ),
    )

    formation_ref: Reference | None = Field(
        default=None, description="Formation that does the work. Excludes cellRef."
    )
    cell_ref: Reference | None = Field(
        default=None, description="Cell that does the work. Excludes formationRef."
    )
    objective: Annotated[str, Field(min_length=1, max_length=65536)] = Field(
        description="Objective of the work, and query for the recall of knowledge."
    )
    entrypoint: Entrypoint | None = Field(
        default=None,
        description=("Cell that gets the objective. Default: the root, the hub or the first cell."),
    )
    completion: Completion = Field(
        default_factory=Completion,
        description="When the work is done, and its limits.",
        json_schema_extra={"default": {}},
    )
    start_deadline: Duration = Field(
        default="5m",
        description=(
            "Time to wait for ready cells. A run that exceeds it ends with InfrastructureFailed."
        ),
    )
    budget: MissionBudget | None = Field(default=None, description="Budget of the mission.")
    knowledge: MissionKnowledge | None = Field(
        default=None, description="Whether the run gets and leaves knowledge."
    )


class Attempt(Model):
    """One attempt at the work."""

    attempt: Int = Field(ge=1, description="Number of the attempt, from 1.")
    started_at: Timestamp | None = Field(default=None, description="When the Job was created.")
    finished_at: Timestamp | None = Field(default=None, description="When the Job ended.")
    result: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="How the attempt ended, and why."
    )
    run_id: Line | None = Field(
        default=None,
        description=(
            "ID of the earlier run that the entry summarises. Unset for attempts of the "
            "current run."
        ),
    )


class KnowledgeUse(Model):
    """The knowledge that the run got, and the facts that it stored."""

    receipt: Line | None = Field(default=None, description="ID of the receipt of the run's recall.")
    injected: Int | None = Field(
        default=None, ge=0, description="Number of facts that the cell got."
    )
    extracted: Int | None = Field(
        default=None, ge=0, description="Number of facts that were extracted."
    )
    remembered: Int | None = Field(
        default=None, ge=0, description="Number of facts that cells stored during the run."
    )


class ArtifactRef(Model):
    """A file that an agent left in the workspace; its content is not part of the status."""

    name: Line = Field(description="Name of the file.")
    size_bytes: Int = Field(ge=0, description="Size of the file in bytes.")
    path: Line = Field(
        description=("Path in the pod. Files below /workspace/private are deleted with the pod.")
    )


class CallApprovalStatus(Model):
    """A tool call of the latest attempt that waits for a person, or how it was decided."""

    call: Line = Field(description="ID of the call.")
    cell: Line | None = Field(
        default=None,
        description="Peer or reviewer that wants to make the call. Unset for the entry cell.",
    )
    tool: Line = Field(description="Name of the tool.")
    arguments: Text | None = Field(
        default=None, description="Arguments as JSON, while the call waits."
    )
    sha256: Line = Field(description="SHA-256 of the arguments, which an approval names.")
    requested_at: Line = Field(description="When the call began to wait.")
    expires_at: Line = Field(description="When the call is denied, or its attempt fails.")
    outcome: Line | None = Field(
        default=None, description="approved, denied or expired. Unset while the call waits."
    )
    by: Line | None = Field(default=None, description="User name of the person who decided.")
    decided_at: Line | None = Field(default=None, description="Time of the decision.")
    reason: Text | None = Field(default=None, description="Reason of the decision.")


class TokenUse(Model):
    """Tokens that the models of a run used."""

    input: Int = Field(ge=0, description="Tokens of the requests.")
    output: Int = Field(ge=0, description="Tokens of the answers.")


class Acknowledged(Model):
    """The requests in annotations that the operator has accepted, verbatim."""

    abort: Line | None = Field(default=None, description="Value of kais.io/abort.")
    rerun: Line | None = Field(default=None, description="Value of kais.io/rerun.")
    review: Text | None = Field(default=None, description="Value of kais.io/review.")


class MissionDisplay(Model):
    """Texts for the columns of kubectl get."""

    attempt: Line | None = Field(
        default=None, description="Current and maximum attempt, such as 1/3."
    )
    facts: Line | None = Field(
        default=None,
        description="Facts that the run got, and facts that it left, such as 3 in, 2 out.",
    )
    cost: Line | None = Field(
        default=None,
        description="Cost in US dollars, rounded. It begins with ~ if a part of it is estimated.",
    )


class MissionStatus(Status):
    """The observed state of a mission."""

    phase: MissionPhase | None = Field(
        default=None, description="Summary of the mission's state, for people."
    )
    outcome: Outcome | None = Field(default=None, description="Outcome of the run.")
    run_id: Line | None = Field(
        default=None, description="ID of the run in the ledger. The annotation is authoritative."
    )
    attempt: Int | None = Field(default=None, ge=0, description="Number of the latest attempt.")
    started_at: Timestamp | None = Field(
        default=None, description="When the first attempt started. The timeout is counted from it."
    )
    finished_at: Timestamp | None = Field(
        default=None, description="When the outcome was determined."
    )
    result: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Result of the last attempt as text or JSON, at most 4 KiB."
    )
    result_truncated: Bool | None = Field(
        default=None, description="Whether the result was truncated."
    )
    cost: Cost | None = Field(
        default=None,
        description=(
            "Cost of the run's model calls in US dollars, of all attempts. A call whose usage is "
            "unknown counts with its worst case."
        ),
    )
    estimated_cost: Cost | None = Field(
        default=None,
        description=(
            "Part of the cost that is estimated: the reservations of calls whose usage is unknown, "
            "and of an attempt whose pod was lost."
        ),
    )
    tokens: TokenUse | None = Field(
        default=None, description="Tokens that the run's models used, in all attempts."
    )
    turns: Int | None = Field(
        default=None, ge=0, description="Number of answers of models, in all attempts."
    )
    tool_calls: Int | None = Field(
        default=None, ge=0, description="Number of tool calls, in all attempts."
    )
    artifacts: Annotated[list[ArtifactRef], Field(max_length=20)] = Field(
        default_factory=list,
        description="Files that the agent wrote in the latest attempt, at most 20.",
    )
    checks: Annotated[
        list[CheckResult],
        Field(
            max_length=50,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(default_factory=list, description="Result of each check of the latest attempt.")
    review: ReviewResult | None = Field(default=None, description="Verdict of the reviewer.")
    approvals: Annotated[list[CallApprovalStatus], Field(max_length=20)] = Field(
        default_factory=list,
        description="Tool calls of the latest attempt that need an approval, at most 20.",
    )
    history: Annotated[list[Attempt], Field(max_length=100)] = Field(
        default_factory=list,
        description=(
            "Up to 10 earlier runs, then the attempts of the current run, oldest first. Of "
            "more than 10 attempts, the first and the latest are listed."
        ),
    )
    message: Text | None = Field(default=None, description="Message of the summary condition.")
    trace_context: Line | None = Field(
        default=None, description="W3C trace context of the run's spans."
    )
    knowledge: KnowledgeUse | None = Field(
        default=None, description="Knowledge that the run got and left."
    )
    acknowledged: Acknowledged | None = Field(
        default=None, description="Values of command annotations that the operator has processed."
    )
    display: MissionDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class Mission(Resource):
    """One bounded piece of work with an outcome."""

    RULES = (
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.startedAt) || self.spec == oldSelf.spec",
            (
                "spec is immutable after the mission has started; create a new Mission, or "
                "start a new run with the annotation kais.io/rerun"
            ),
        ),
    )
    PLURAL = "missions"
    SHORT_NAME = "ms"
    DESCRIPTION: ClassVar[str] = "One bounded piece of work with an outcome."
    COLUMNS = (
        Column("Status", "string", ".status.phase", "Summary of the mission's state."),
        Column("Outcome", "string", ".status.outcome", "Outcome of the run."),
        Column(
            "Reason",
            "string",
            '.status.conditions[?(@.type=="Succeeded")].reason',
            "Reason of the condition Succeeded.",
        ),
        Column("Attempt", "string", ".status.display.attempt", "Current and maximum attempt."),
        Column("Facts", "string", ".status.display.facts", "Facts that the run got and left."),
        Column("Cost", "string", ".status.display.cost", "Cost in US dollars."),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        Column("Run", "string", ".status.runId", "Id of the run.", priority=1),
        Column("Message", "string", ".status.message", "Why it is in this state.", priority=1),
    )
    SELECTABLE = (".spec.formationRef", ".status.phase", ".status.outcome")

    spec: MissionSpec = Field(description="Work, the cells that do it, and when it is done.")
    status: MissionStatus = Field(
        default_factory=MissionStatus, description="Observed state, written by the operator."
    )
