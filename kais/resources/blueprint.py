"""Blueprint: an editable template of formations and missions."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status, message_column, reason_column
from kais.resources.field_types import (
    Bool,
    Cost,
    Int,
    IntOrText,
    Line,
    Name,
    Number,
    Share,
    Text,
    Timestamp,
    Tree,
)

RESERVED_NAMES = ("blueprint", "instance")
"""Names that are always in the scope of a template."""
KEYWORDS = ("and", "or", "not", "in", "is", "if", "else", "true", "false", "none")
"""Keywords of the template language, which no expression could use as a parameter's name."""
KEYWORDS_TITLED = ("True", "False", "None")
_INVALID_NAMES = (*RESERVED_NAMES, *KEYWORDS, *KEYWORDS_TITLED)


class ParameterType(StrEnum):
    """The type of a parameter's value; values are never converted."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ENUM = "enum"
    ARRAY = "array"
    OBJECT = "object"
    SECRET_REF = "secretRef"  # noqa: S105 - the name of a type, no secret


class KnowledgePolicy(StrEnum):
    """Which runs get knowledge."""

    ALWAYS = "Always"
    NEVER = "Never"
    HOLDOUT = "Holdout"


class Parameter(Model):
    """One value that an instance of the blueprint may or must pass."""

    RULES = (
        Rule(
            f"!(self.name in {list(_INVALID_NAMES)!r})",
            "the template language reserves this name",
            lambda p: p.name not in _INVALID_NAMES,
        ),
        Rule(
            "self.type != 'enum' || (has(self.values) && self.values.size() > 0)",
            "an enum needs values",
            lambda p: p.type != ParameterType.ENUM or bool(p.values),
        ),
    )

    name: Annotated[
        str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    ] = Field(description="Name of the parameter, unique within the Blueprint.")
    type: ParameterType = Field(
        description="Type of the value. Text is never converted to a number."
    )
    default: Any = Field(
        default=None,
        description=("Value if the instance sets none. It must satisfy the parameter's own rules."),
    )
    required: Bool | None = Field(
        default=None,
        description=(
            "Whether an instance must set the parameter. Default: true if there is no "
            "default value."
        ),
    )
    description: Text | None = Field(
        default=None, description="Effect of the value, for the people who set it."
    )
    values: Annotated[list[IntOrText], Field(max_length=256)] | None = Field(
        default=None,
        description=("Values that an enum allows, or names of Secrets that a secretRef may use."),
    )
    min: Number | None = Field(default=None, description="Minimum of a number, inclusive.")
    max: Number | None = Field(default=None, description="Maximum of a number, inclusive.")
    pattern: Line | None = Field(
        default=None,
        description=(
            "Regular expression that the whole text must match; for a secretRef, the name "
            "of the Secret."
        ),
    )
    min_length: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="Minimum length of a string in characters."
    )
    max_length: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="Maximum length of a string in characters."
    )
    min_items: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="Minimum number of items in an array."
    )
    max_items: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="Maximum number of items in an array."
    )
    immutable: Bool = Field(
        default=False, description="If true, the value cannot be changed in an existing instance."
    )
    example: Any = Field(
        default=None, description="Sample value for test renderings if there is no default."
    )

    @property
    def has_default(self) -> bool:
        """Whether a default replaces a missing value."""
        return self.default is not None

    @property
    def is_required(self) -> bool:
        """Whether an instance must pass the value."""
        return self.required if self.required is not None else not self.has_default


class BlueprintKnowledge(Model):
    """Which runs of this blueprint get knowledge."""

    policy: KnowledgePolicy = Field(
        default=KnowledgePolicy.ALWAYS,
        description="Holdout withholds knowledge from some runs to measure its effect.",
    )
    holdout_percent: Int = Field(
        default=20,
        ge=1,
        le=99,
        description="Share of runs without knowledge when the policy is Holdout.",
    )


class Experiment(Model):
    """One finding that speaks for the blueprint."""

    name: Line = Field(description="Name of the experiment.")
    finding: Text | None = Field(
        default=None, description="Result of the experiment in one sentence."
    )


class Evidence(Model):
    """The claims of the author about the blueprint, shown next to measurements."""

    experiments: Annotated[list[Experiment], Field(max_length=100)] = Field(
        default_factory=list, description="Findings in favour of the Blueprint."
    )
    success_rate: Number | None = Field(
        default=None, description="Success rate that the author observed."
    )
    avg_completion_time: float | Annotated[str, Field(max_length=32)] | None = Field(
        default=None,
        description="Mean duration that the author observed, in seconds or as 284s.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
    avg_cost: Number | None = Field(
        default=None, description="Mean cost in US dollars that the author observed."
    )


Parameters = Annotated[
    list[Parameter],
    Field(
        max_length=100,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
]


class TemplateSpec(Model):
    """The part of a blueprint that a revision keeps: everything that rendering depends on."""

    description: Text | None = Field(
        default=None, description="Purpose of the team, shown in lists."
    )
    parameters: Parameters = Field(
        default_factory=list, description="Parameters of the template; names are unique."
    )
    formation: Tree = Field(
        description=(
            "Template of the Formation's spec. Strings may contain expressions in double braces."
        )
    )
    mission: Tree | None = Field(
        default=None,
        description=(
            "Template of the Mission's spec, started once per instance. If unset, instances "
            "have no mission."
        ),
    )
    knowledge: BlueprintKnowledge = Field(
        default_factory=BlueprintKnowledge,
        description="Which runs get knowledge.",
        json_schema_extra={"default": {}},
    )


class Rollout(Model):
    """How a new revision is tried on a share of instances before all get it."""

    RULES = (
        Rule(
            "self.minRuns <= self.maxRuns",
            "minRuns must not exceed maxRuns",
            lambda r: r.min_runs <= r.max_runs,
        ),
    )

    canary_percent: Int = Field(
        default=20, ge=1, le=99, description="Share of new instances that get a new revision."
    )
    min_runs: Int = Field(
        default=20,
        ge=1,
        le=1_000_000,
        description=(
            "Number of counted runs of the new revision at the first look; each further look "
            "takes twice as many."
        ),
    )
    max_runs: Int = Field(
        default=200,
        ge=1,
        le=1_000_000,
        description="Number of counted runs after which a canary that is not decided stops.",
    )
    margin: Share = Field(
        default=0.1,
        description="Loss of success rate that is accepted when a new revision is promoted.",
    )


class BlueprintSpec(TemplateSpec):
    """A template, the claims of its author, and how revisions are rolled out and kept."""

    evidence: Evidence | None = Field(
        default=None, description="Claims of the author. A change creates no revision."
    )
    rollout: Rollout | None = Field(
        default=None,
        description=(
            "Tries each new revision on a share of new instances. If unset, all new instances get "
            "it at once. A change creates no revision."
        ),
    )
    revision_history_limit: Int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Number of revisions to keep. Revisions in use are always kept.",
    )


class Interval(Model):
    """Wilson's 95 % interval of a success rate."""

    low: Share = Field(description="Lower bound of the interval.")
    high: Share = Field(description="Upper bound of the interval.")


class Statistics(Status):
    """The ledger's counts of runs; they are derived, so deleting them loses nothing."""

    usage_count: Int | None = Field(
        default=None, ge=0, description="Number of runs: running, succeeded, failed and excluded."
    )
    last_used: Timestamp | None = Field(default=None, description="When the latest run started.")
    running: Int | None = Field(
        default=None, ge=0, description="Number of runs without an outcome."
    )
    succeeded: Int | None = Field(default=None, ge=0, description="Number of runs that succeeded.")
    failed: Int | None = Field(
        default=None,
        ge=0,
        description="Number of runs that failed, timed out or exceeded their budget.",
    )
    excluded: Int | None = Field(
        default=None,
        ge=0,
        description=(
            "Number of runs that were cancelled or that the cluster could not run. They do "
            "not count towards the success rate."
        ),
    )
    avg_success_rate: Share | None = Field(
        default=None,
        description=(
            "Share of succeeded runs among succeeded and failed ones. Unset before the first."
        ),
    )
    success_interval: Interval | None = Field(
        default=None, description="95 % confidence interval of the success rate."
    )
    median_duration_seconds: Cost | None = Field(
        default=None,
        description="Median time from start to outcome of the runs in the success rate.",
    )
    avg_cost: Cost | None = Field(
        default=None, description="Mean cost in US dollars of the runs in the success rate."
    )


class Version(Model):
    """One revision at a glance."""

    version: Int = Field(ge=1, description="Number of the revision.")
    revision: Name = Field(description="Name of the BlueprintRevision.")
    hash: Line | None = Field(default=None, description="Hash of the revision's content.")
    created_at: Timestamp | None = Field(default=None, description="When the revision was created.")
    changes: Text | None = Field(
        default=None, description="Summary of the changes since the previous revision."
    )
    usage_count: Int | None = Field(
        default=None, ge=0, description="Number of runs of this revision."
    )
    avg_success_rate: Share | None = Field(
        default=None, description="Success rate of this revision. Unset until a run counts."
    )


class BlueprintDisplay(Model):
    """Texts for the columns of kubectl get."""

    parameters: Line | None = Field(
        default=None, description="Names of the parameters; an asterisk marks required ones."
    )
    success: Line | None = Field(default=None, description="Success rate, such as 87%.")
    interval: Line | None = Field(
        default=None, description="95 % confidence interval, such as 62-97%."
    )
    claimed: Line | None = Field(
        default=None, description="Claims of the author, such as 90%, 284s, $1.20."
    )


class BlueprintStatus(Statistics):
    """The observed state of a blueprint."""

    latest_revision: Int | None = Field(
        default=None, ge=0, description="Number of the newest revision, whether it compiles or not."
    )
    served_revision: Int | None = Field(
        default=None, ge=0, description="Number of the revision that new instances get."
    )
    versions: Annotated[
        list[Version],
        Field(
            max_length=20,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["version"],
            },
        ),
    ] = Field(default_factory=list, description="Latest revisions, newest first, at most 20.")
    display: BlueprintDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class Blueprint(Resource):
    """An editable template."""

    PLURAL = "blueprints"
    SHORT_NAME = "bp"
    DESCRIPTION: ClassVar[str] = (
        "A template with parameters for a team and its mission. Each change of the spec "
        "becomes a revision."
    )
    COLUMNS = (
        Column(
            "Params", "string", ".status.display.parameters", "Parameters; * marks required ones."
        ),
        Column("Revision", "integer", ".status.latestRevision", "Newest revision."),
        Column("Served", "integer", ".status.servedRevision", "Revision that new instances get."),
        Column("Uses", "integer", ".status.usageCount", "Number of runs."),
        Column("Success", "string", ".status.display.success", "Success rate."),
        Column(
            "CI95",
            "string",
            ".status.display.interval",
            "95 % confidence interval of the success rate.",
        ),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the Blueprint is usable.",
        ),
        reason_column(),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        Column("Excluded", "integer", ".status.excluded", "Runs that do not count.", priority=1),
        Column("Claimed", "string", ".status.display.claimed", "Claims of the author.", priority=1),
        message_column(),
    )

    spec: BlueprintSpec = Field(description="Template and its parameters.")
    status: BlueprintStatus = Field(
        default_factory=BlueprintStatus, description="Observed state, written by the operator."
    )
