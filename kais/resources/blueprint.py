"""Blueprint: the editable head of a template for formations and missions."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status
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
"""Names that a template finds in scope already."""
KEYWORDS = ("and", "or", "not", "in", "is", "if", "else", "true", "false", "none")
"""Words of the template language: as a parameter's name no expression could reach them."""
KEYWORDS_TITLED = ("True", "False", "None")
_TAKEN = (*RESERVED_NAMES, *KEYWORDS, *KEYWORDS_TITLED)


class ParameterType(StrEnum):
    """What a parameter's value is; the declared type decides, nothing is guessed."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ENUM = "enum"
    ARRAY = "array"
    OBJECT = "object"
    SECRET_REF = "secretRef"  # noqa: S105 - the name of a type, no secret


class KnowledgePolicy(StrEnum):
    """Which runs are given what is known."""

    ALWAYS = "Always"
    NEVER = "Never"
    HOLDOUT = "Holdout"


class Parameter(Model):
    """One value that a use of the blueprint may or must give."""

    RULES = (
        Rule(
            f"!(self.name in {list(_TAKEN)!r})",
            "this name is taken by the template language",
            lambda p: p.name not in _TAKEN,
        ),
        Rule(
            "self.type != 'enum' || (has(self.values) && self.values.size() > 0)",
            "an enum needs values",
            lambda p: p.type != ParameterType.ENUM or bool(p.values),
        ),
    )

    name: Annotated[
        str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    ] = Field(description="what the template and the user call it; each name stands once")
    type: ParameterType = Field(
        description="decides how a value is read; text never becomes a number by itself"
    )
    default: Any = Field(
        default=None, description="value when a use gives none; must obey the parameter's own rules"
    )
    required: Bool | None = Field(
        default=None, description="whether a use must give it; unset is true without a default"
    )
    description: Text | None = Field(
        default=None, description="what the value does, for who fills it in"
    )
    values: Annotated[list[IntOrText], Field(max_length=256)] | None = Field(
        default=None,
        description="the values that an enum allows, or the Secrets that a secretRef may name",
    )
    min: Number | None = Field(default=None, description="least number allowed, itself included")
    max: Number | None = Field(default=None, description="largest number allowed, itself included")
    pattern: Line | None = Field(
        default=None,
        description="regular expression that the whole text must match; of a secretRef, its name",
    )
    min_length: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="fewest characters of a string"
    )
    max_length: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="most characters of a string"
    )
    min_items: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="fewest items of an array"
    )
    max_items: Annotated[Int, Field(ge=0)] | None = Field(
        default=None, description="most items of an array"
    )
    immutable: Bool = Field(
        default=False, description="true refuses a change of the value in an existing use"
    )
    example: Any = Field(
        default=None, description="value that the template is tried with when there is no default"
    )

    @property
    def has_default(self) -> bool:
        """Whether a use may leave the value out and still has one."""
        return self.default is not None

    @property
    def is_required(self) -> bool:
        """Whether a use must give the value."""
        return self.required if self.required is not None else not self.has_default


class BlueprintKnowledge(Model):
    """Which runs of this blueprint are given what is known."""

    policy: KnowledgePolicy = Field(
        default=KnowledgePolicy.ALWAYS,
        description="Holdout withholds knowledge from some runs, to measure what it is worth",
    )
    holdout_percent: Int = Field(
        default=20, ge=1, le=99, description="share of runs without knowledge under Holdout"
    )


class Experiment(Model):
    """One finding that speaks for the blueprint."""

    name: Line = Field(description="what the experiment is called where it was made")
    finding: Text | None = Field(default=None, description="what it showed, in a sentence")


class Evidence(Model):
    """What its author claims of the blueprint; shown beside what was measured here."""

    experiments: Annotated[list[Experiment], Field(max_length=100)] = Field(
        default_factory=list, description="findings that speak for the blueprint"
    )
    success_rate: Number | None = Field(
        default=None, description="share of successes that the author saw"
    )
    avg_completion_time: float | Annotated[str, Field(max_length=32)] | None = Field(
        default=None,
        description="mean duration that the author saw, in seconds or as 284s",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
    avg_cost: Number | None = Field(
        default=None, description="mean cost in US dollars that the author saw"
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
    """The part of a blueprint that a revision keeps: all that rendering depends on."""

    description: Text | None = Field(
        default=None, description="what the team is for, shown in lists"
    )
    parameters: Parameters = Field(
        default_factory=list, description="what a use may or must give; each name stands once"
    )
    formation: Tree = Field(
        description="template of a Formation's spec; strings may hold expressions in double braces"
    )
    mission: Tree | None = Field(
        default=None,
        description="template of a Mission's spec, started once in each use; unset starts none",
    )
    knowledge: BlueprintKnowledge = Field(
        default_factory=BlueprintKnowledge,
        description="which runs are given what is known",
        json_schema_extra={"default": {}},
    )


class BlueprintSpec(TemplateSpec):
    """A template, what its author claims of it and how many revisions are kept."""

    evidence: Evidence | None = Field(
        default=None, description="what the author claims; changing it makes no new revision"
    )
    revision_history_limit: Int = Field(
        default=10, ge=1, le=1000, description="revisions kept; one in use is kept beyond it"
    )


class Interval(Model):
    """Wilson's 95 % interval of a success rate."""

    low: Share = Field(description="lower end of the interval")
    high: Share = Field(description="upper end of the interval")


class Statistics(Status):
    """The ledger's counts of runs; derived, so that wiping them loses nothing."""

    usage_count: Int | None = Field(
        default=None, ge=0, description="uses: running, succeeded, failed and excluded together"
    )
    last_used: Timestamp | None = Field(default=None, description="when the latest run was opened")
    running: Int | None = Field(default=None, ge=0, description="uses that have no outcome")
    succeeded: Int | None = Field(default=None, ge=0, description="runs that reached their aim")
    failed: Int | None = Field(
        default=None, ge=0, description="runs that failed, timed out or overspent"
    )
    excluded: Int | None = Field(
        default=None, ge=0, description="runs cancelled or not carried by the cluster; in no rate"
    )
    avg_success_rate: Share | None = Field(
        default=None, description="succeeded among succeeded and failed; unset while there is none"
    )
    success_interval: Interval | None = Field(
        default=None, description="95 % interval of the success rate: wide while runs are few"
    )
    median_duration_seconds: Cost | None = Field(
        default=None, description="median time from start to outcome of the counted runs"
    )
    avg_cost: Cost | None = Field(
        default=None, description="mean cost of the counted runs in US dollars"
    )


class Version(Model):
    """One revision at a glance."""

    version: Int = Field(ge=1, description="number of the revision")
    revision: Name = Field(description="name of the BlueprintRevision")
    hash: Line | None = Field(default=None, description="hash of what the revision keeps")
    created_at: Timestamp | None = Field(default=None, description="when the revision was made")
    changes: Text | None = Field(
        default=None, description="what it changed against the one before, in words"
    )
    usage_count: Int | None = Field(default=None, ge=0, description="uses of this revision")
    avg_success_rate: Share | None = Field(
        default=None, description="success rate of this revision, unset while nothing counted"
    )


class BlueprintDisplay(Model):
    """Texts for the columns of kubectl get."""

    parameters: Line | None = Field(
        default=None, description="the parameters' names, the required ones with an asterisk"
    )
    success: Line | None = Field(default=None, description="success rate, such as 87%")
    interval: Line | None = Field(default=None, description="95 % interval, such as 62-97%")
    claimed: Line | None = Field(
        default=None, description="what the author claims, such as 90%, 284s, $1.20"
    )


class BlueprintStatus(Statistics):
    """What the operator knows about a blueprint."""

    latest_revision: Int | None = Field(
        default=None, ge=0, description="number of the newest revision, good or not"
    )
    served_revision: Int | None = Field(
        default=None, ge=0, description="number of the revision that new uses get"
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
    ] = Field(default_factory=list, description="the latest revisions, newest first, at most 20")
    display: BlueprintDisplay | None = Field(default=None, description="texts for columns")


class Blueprint(Resource):
    """The editable head of a template."""

    PLURAL = "blueprints"
    SHORT_NAME = "bp"
    DESCRIPTION: ClassVar[str] = (
        "A parameterised template of a team and its mission; each edit becomes a revision."
    )
    COLUMNS = (
        Column("Params", "string", ".status.display.parameters", "parameters; * is required"),
        Column("Revision", "integer", ".status.latestRevision", "newest revision"),
        Column("Served", "integer", ".status.servedRevision", "revision that new uses get"),
        Column("Uses", "integer", ".status.usageCount", "runs that were ever opened"),
        Column("Success", "string", ".status.display.success", "success rate"),
        Column("CI95", "string", ".status.display.interval", "95 % interval of the success rate"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "whether it is usable",
        ),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
        Column("Claimed", "string", ".status.display.claimed", "what its author saw", priority=1),
    )

    spec: BlueprintSpec = Field(description="the template and its parameters")
    status: BlueprintStatus = Field(
        default_factory=BlueprintStatus, description="what the operator found"
    )
