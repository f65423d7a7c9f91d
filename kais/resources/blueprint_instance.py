"""BlueprintInstance: one use of a blueprint."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from kais.outcomes import Outcome
from kais.resources.base import Column, Model, Resource, Status
from kais.resources.field_types import Bool, Int, Line, Name, Reference, Segment, Tree


class UpdatePolicy(StrEnum):
    """Whether a new revision reaches an existing use."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class AfterMission(StrEnum):
    """What becomes of the cells when the mission has ended."""

    SCALE_DOWN = "ScaleDown"
    KEEP = "Keep"


class InstancePhase(StrEnum):
    """Where a use stands, for people; no logic reads it back."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class BlueprintReference(Model):
    """Which blueprint is used, and which revision of it."""

    name: Reference = Field(description="name of the Blueprint in the same namespace")
    revision: Int | None = Field(
        default=None,
        ge=1,
        description="number of the revision; unset is the one served at first use",
    )


class InstanceKnowledge(Model):
    """What this one use does differently about knowledge."""

    scope: Segment | None = Field(
        default=None,
        description="another formation scope than the Blueprint's name, to learn apart from others",
    )
    inject: Bool | None = Field(
        default=None,
        description="false gives this run no recalled facts; unset follows the template",
    )
    extract: Bool | None = Field(
        default=None, description="false extracts no facts of this run; unset follows the template"
    )


class BlueprintInstanceSpec(Model):
    """One use: of what, with which values, and what happens around it."""

    blueprint_ref: BlueprintReference = Field(description="which blueprint is used")
    parameters: Tree = Field(
        default_factory=dict,
        description="values of the blueprint's parameters; all are checked before rendering",
        json_schema_extra={"default": {}},
    )
    update_policy: UpdatePolicy = Field(
        default=UpdatePolicy.MANUAL,
        description="Automatic follows new revisions, up to the first that breaks callers",
    )
    suspend: Bool = Field(
        default=False, description="true starts no new attempts; the running one ends by itself"
    )
    ttl_seconds_after_finished: Int | None = Field(
        default=None, ge=0, description="seconds after the end when this use deletes itself"
    )
    after_mission: AfterMission | None = Field(
        default=None, description="what becomes of the cells at the end; unset is ScaleDown"
    )
    knowledge: InstanceKnowledge | None = Field(
        default=None, description="what this use does differently about knowledge"
    )


class InstanceAcknowledged(Model):
    """The verbs that the operator has taken up."""

    rerun: Line | None = Field(default=None, description="nonce of kais.io/rerun")


class BlueprintInstanceStatus(Status):
    """What the operator knows about a use."""

    revision_in_use: Int | None = Field(
        default=None, ge=1, description="number of the revision that this use stands on"
    )
    parameters_hash: Line | None = Field(
        default=None, description="hash of the values that were rendered, defaults included"
    )
    run_id: Line | None = Field(
        default=None, description="key of the run in the ledger; the annotation is what counts"
    )
    formation: Name | None = Field(default=None, description="the Formation that was made")
    mission: Name | None = Field(default=None, description="the Mission that was made, if any")
    phase: InstancePhase | None = Field(
        default=None, description="where the use stands, for people"
    )
    outcome: Outcome | None = Field(default=None, description="how the run ended")
    acknowledged: InstanceAcknowledged | None = Field(
        default=None, description="the annotation verbs that were taken up"
    )


class BlueprintInstance(Resource):
    """One use of a blueprint."""

    PLURAL = "blueprintinstances"
    SHORT_NAME = "bpi"
    DESCRIPTION: ClassVar[str] = (
        "One recorded use of a Blueprint; the operator renders it into a Formation and a Mission."
    )
    COLUMNS = (
        Column("Blueprint", "string", ".spec.blueprintRef.name", "what is used"),
        Column("Rev", "integer", ".status.revisionInUse", "revision that it stands on"),
        Column("Phase", "string", ".status.phase", "where the use stands"),
        Column("Outcome", "string", ".status.outcome", "how the run ended"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "whether all is well",
        ),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
    )
    SELECTABLE = (".spec.blueprintRef.name", ".status.revisionInUse", ".status.phase")

    spec: BlueprintInstanceSpec = Field(description="of what, and with which values")
    status: BlueprintInstanceStatus = Field(
        default_factory=BlueprintInstanceStatus, description="what the operator found"
    )
