"""BlueprintInstance: one recorded use of a blueprint."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from kais.outcomes import Outcome
from kais.resources.base import Column, Model, Resource, Status, message_column, reason_column
from kais.resources.field_types import Bool, Int, Line, Name, Reference, Segment, Tree

MAX_TTL_S = 2**31 - 1
"""The longest time to live that the API server accepts, 68 years; a longer one that was stored
before this rule is read as this."""


class UpdatePolicy(StrEnum):
    """Whether an existing instance gets new revisions."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class AfterMission(StrEnum):
    """The operator's treatment of the cells after the mission."""

    SCALE_DOWN = "ScaleDown"
    KEEP = "Keep"


class InstancePhase(StrEnum):
    """The phase of an instance, for people; no decision depends on it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class BlueprintReference(Model):
    """The blueprint that is used, and its revision."""

    name: Reference = Field(description="Name of the Blueprint, in the same namespace.")
    revision: Int | None = Field(
        default=None,
        ge=1,
        description=(
            "Number of the revision. Default: the revision that is served when the run starts."
        ),
    )


class InstanceKnowledge(Model):
    """The knowledge settings of this instance that differ from the blueprint's."""

    scope: Segment | None = Field(
        default=None,
        description=(
            "Scope of the Formation's knowledge, to keep it separate from other instances. "
            "Default: the name of the Blueprint."
        ),
    )
    inject: Bool | None = Field(
        default=None,
        description="If false, the run gets no recalled facts. Default: as in the template.",
    )
    extract: Bool | None = Field(
        default=None,
        description=("If false, no facts are extracted from the run. Default: as in the template."),
    )


class BlueprintInstanceSpec(Model):
    """The blueprint and the parameters of an instance, and how the operator runs it."""

    blueprint_ref: BlueprintReference = Field(description="Blueprint to instantiate.")
    parameters: Tree = Field(
        default_factory=dict,
        description=("Values of the Blueprint's parameters. All are validated before rendering."),
        json_schema_extra={"default": {}},
    )
    update_policy: UpdatePolicy = Field(
        default=UpdatePolicy.MANUAL,
        description=(
            "Automatic updates the instance to new revisions until one has a breaking change."
        ),
    )
    suspend: Bool = Field(
        default=False, description="If true, no attempts are started. A running attempt continues."
    )
    ttl_seconds_after_finished: Int | None = Field(
        default=None,
        ge=0,
        description="Seconds after the end of the run until the instance is deleted.",
        json_schema_extra={"maximum": MAX_TTL_S},
    )
    after_mission: AfterMission | None = Field(
        default=None, description="Treatment of the cells after the mission. Default: ScaleDown."
    )
    knowledge: InstanceKnowledge | None = Field(
        default=None, description="Knowledge settings that differ from the template."
    )


class InstanceAcknowledged(Model):
    """The requests in annotations that the operator has accepted."""

    rerun: Line | None = Field(default=None, description="Value of kais.io/rerun.")


class BlueprintInstanceStatus(Status):
    """The observed state of an instance."""

    revision_in_use: Int | None = Field(
        default=None, ge=1, description="Number of the revision that the instance uses."
    )
    parameters_hash: Line | None = Field(
        default=None, description="Hash of the rendered values, including defaults."
    )
    run_id: Line | None = Field(
        default=None, description="ID of the run in the ledger. The annotation is authoritative."
    )
    formation: Name | None = Field(default=None, description="Name of the instance's Formation.")
    mission: Name | None = Field(
        default=None, description="Name of the instance's Mission, if any."
    )
    phase: InstancePhase | None = Field(
        default=None, description="Summary of the instance's state, for people."
    )
    outcome: Outcome | None = Field(default=None, description="Outcome of the run.")
    acknowledged: InstanceAcknowledged | None = Field(
        default=None, description="Values of command annotations that the operator has processed."
    )


class BlueprintInstance(Resource):
    """One recorded use of a blueprint."""

    PLURAL = "blueprintinstances"
    SHORT_NAME = "bpi"
    DESCRIPTION: ClassVar[str] = (
        "An instance of a Blueprint. The operator renders it into a Formation and a Mission."
    )
    COLUMNS = (
        Column("Blueprint", "string", ".spec.blueprintRef.name", "Name of the Blueprint."),
        Column("Rev", "integer", ".status.revisionInUse", "Revision that the instance uses."),
        Column("Phase", "string", ".status.phase", "Summary of the instance's state."),
        Column("Outcome", "string", ".status.outcome", "Outcome of the run."),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the instance is ready.",
        ),
        reason_column(),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        message_column(),
    )
    SELECTABLE = (".spec.blueprintRef.name", ".status.revisionInUse", ".status.phase")

    spec: BlueprintInstanceSpec = Field(description="Blueprint and parameters.")
    status: BlueprintInstanceStatus = Field(
        default_factory=BlueprintInstanceStatus,
        description="Observed state, written by the operator.",
    )
