"""KnowledgeScope: the rules for the knowledge of one scope."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status, message_column, reason_column
from kais.resources.field_types import Bool, Int, Line, Number, Segment, Share, Timestamp
from kais.scopes import Level


class PromotionPolicy(StrEnum):
    """Whether proven facts are copied to the scope above automatically or on request."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class DeletionPolicy(StrEnum):
    """Whether knowledge survives the deletion of its KnowledgeScope."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Retention(Model):
    """When facts are archived; archived facts stay in history and can be restored."""

    max_facts: Int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description=("Maximum number of live facts. The least useful ones are archived first."),
    )
    ttl_days: Number | None = Field(
        default=None, gt=0, le=36500, description="Days after which a fact expires."
    )
    half_life_days: Number | None = Field(
        default=None,
        gt=0,
        le=36500,
        description="Half-life in days of the weight of an unconfirmed fact.",
    )


class Promotion(Model):
    """When a proven fact is copied to the scope above."""

    policy: PromotionPolicy = Field(
        default=PromotionPolicy.MANUAL,
        description="Automatic copies facts by rule; Manual copies them on request only.",
    )
    min_missions: Int = Field(
        default=3,
        ge=1,
        le=10000,
        description="Number of succeeded missions that must have received the fact.",
    )
    min_confidence: Share = Field(default=0.7, description="Confidence that the fact must exceed.")


class Injection(Model):
    """How many recalled facts a cell gets."""

    enabled: Bool = Field(
        default=True, description="If false, cells of this scope get no recalled facts."
    )
    max_facts: Int = Field(
        default=20, ge=1, le=100, description="Maximum number of facts that a cell gets."
    )
    max_tokens: Int = Field(
        default=1500, ge=1, le=100_000, description="Maximum number of tokens of these facts."
    )
    min_confidence: Share = Field(default=0.5, description="Minimum confidence of these facts.")


Synonym = Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[^\s./:@#,-]+$")]
SynonymGroup = Annotated[list[Synonym], Field(min_length=2, max_length=16)]


class Extraction(Model):
    """Which facts are extracted from runs of this scope."""

    enabled: Bool = Field(default=True, description="If false, no facts are extracted from runs.")
    max_facts: Int = Field(
        default=7, ge=1, le=7, description="Maximum number of facts extracted from one run."
    )
    model: Line | None = Field(
        default=None,
        description="Model that extracts facts beside the rules: one that the installation allows "
        "in `knowledge.extraction.models`. If it cannot be asked, the rules extract alone. "
        "Default: rules alone.",
    )


def _fits_level(spec: "KnowledgeScopeSpec") -> bool:
    if spec.level is Level.CELL:
        return spec.cell is not None
    if spec.level is Level.FORMATION:
        return spec.formation is not None and spec.cell is None
    return spec.formation is None and spec.cell is None


class KnowledgeScopeSpec(Model):
    """The selected scope and the rules for its knowledge."""

    RULES = (
        Rule(
            "self.level == 'cell' ? has(self.cell) : self.level == 'formation' ? "
            "(has(self.formation) && !has(self.cell)) : (!has(self.formation) && !has(self.cell))",
            (
                "level and names must match: formation needs formation; cell needs cell and, "
                "inside a formation, formation; realm and platform take neither"
            ),
            _fits_level,
        ),
    )

    level: Level = Field(
        description="Level of the scope. Its realm is the namespace of the object."
    )
    formation: Segment | None = Field(
        default=None, description="Formation segment of the path, usually the name of a Blueprint."
    )
    cell: Segment | None = Field(
        default=None,
        description="Cell segment of the path: the short name of the cell, such as lead-0.",
    )
    read_only: Bool = Field(default=False, description="If true, the scope accepts no new facts.")
    inherit: Bool = Field(
        default=True, description="If false, facts of wider scopes are not visible here."
    )
    retention: Retention | None = Field(
        default=None, description="When facts are archived. Default: never."
    )
    promotion: Promotion = Field(
        default_factory=Promotion,
        description="When a proven fact is copied to the scope above.",
        json_schema_extra={"default": {}},
    )
    injection: Injection = Field(
        default_factory=Injection,
        description="How many facts a cell gets.",
        json_schema_extra={"default": {}},
    )
    extraction: Extraction = Field(
        default_factory=Extraction,
        description="How facts are extracted from runs of this scope.",
        json_schema_extra={"default": {}},
    )
    synonyms: Annotated[list[SynonymGroup], Field(max_length=100)] = Field(
        default_factory=list,
        description=(
            "Groups of words that find each other in recalls of this scope and of those below it, "
            "such as [oncall, pager]. One word or identifier each."
        ),
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description=(
            "Delete erases the facts of exactly this path, and their promoted copies, with "
            "the object. Retain keeps them."
        ),
    )


class KnowledgeScopeDisplay(Model):
    """Texts for the columns of kubectl get."""

    useful: Line | None = Field(default=None, description="Usefulness, rounded; - if unknown.")


class KnowledgeScopeStatus(Status):
    """The observed state of a scope."""

    path: Line | None = Field(
        default=None, description="Path of the scope, such as realm:demo/formation:review-team."
    )
    endpoint: Line | None = Field(default=None, description="Address of the knowledge service.")
    facts: Int | None = Field(
        default=None, ge=0, description="Number of live facts in exactly this scope."
    )
    recalls: Int | None = Field(
        default=None, ge=0, description="Number of recalls that returned facts of this scope."
    )
    usefulness: Share | None = Field(
        default=None, description="Success rate of the runs that received facts of this scope."
    )
    last_write_time: Timestamp | None = Field(
        default=None, description="When a fact was last written in this scope."
    )
    display: KnowledgeScopeDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class KnowledgeScope(Resource):
    """The rules for the knowledge of one scope."""

    PLURAL = "knowledgescopes"
    SHORT_NAME = "ksc"
    DESCRIPTION: ClassVar[str] = (
        "Settings of one scope of the knowledge service. Scopes without a "
        "KnowledgeScope have the defaults."
    )
    COLUMNS = (
        Column("Scope", "string", ".status.path", "Path of the scope."),
        Column("Facts", "integer", ".status.facts", "Number of live facts."),
        Column(
            "Recalls",
            "integer",
            ".status.recalls",
            "Number of recalls that returned facts of this scope.",
        ),
        Column(
            "Useful",
            "string",
            ".status.display.useful",
            "Success rate of the runs that received facts of this scope.",
        ),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the settings are in effect.",
        ),
        reason_column(),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        message_column(),
    )
    SELECTABLE = (".spec.level",)

    spec: KnowledgeScopeSpec = Field(description="Scope and its settings.")
    status: KnowledgeScopeStatus = Field(
        default_factory=KnowledgeScopeStatus, description="Observed state, written by the operator."
    )
