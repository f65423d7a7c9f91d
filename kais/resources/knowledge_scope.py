"""KnowledgeScope: how knowledge behaves in one scope."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status
from kais.resources.field_types import Bool, Int, Line, Number, Segment, Share, Timestamp
from kais.scopes import Level


class PromotionPolicy(StrEnum):
    """Who copies a proven fact one level up."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class DeletionPolicy(StrEnum):
    """What becomes of the knowledge when its KnowledgeScope is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Retention(Model):
    """When facts are archived; archived ones stay in history and can be restored."""

    max_facts: Int | None = Field(
        default=None, ge=1, le=100_000_000, description="live facts kept; the least useful go first"
    )
    ttl_days: Number | None = Field(
        default=None, gt=0, le=36500, description="days after which a fact counts as expired"
    )
    half_life_days: Number | None = Field(
        default=None, gt=0, le=36500, description="days in which an unconfirmed fact loses half"
    )


class Promotion(Model):
    """When a proven fact is copied one level up."""

    policy: PromotionPolicy = Field(
        default=PromotionPolicy.MANUAL,
        description="Automatic copies by rule, Manual only when asked",
    )
    min_missions: Int = Field(
        default=3, ge=1, le=10000, description="succeeded missions that must have had the fact"
    )
    min_confidence: Share = Field(default=0.7, description="confidence that the fact must be above")


class Injection(Model):
    """How much of what is known is put before a cell."""

    enabled: Bool = Field(default=True, description="false puts nothing before cells of this scope")
    max_facts: Int = Field(default=20, ge=1, le=100, description="most facts put before a cell")
    max_tokens: Int = Field(
        default=1500, ge=1, le=100_000, description="most tokens that these facts may take"
    )
    min_confidence: Share = Field(default=0.5, description="facts below this confidence stay out")


class Extraction(Model):
    """What is drawn from runs of this scope."""

    enabled: Bool = Field(default=True, description="false draws no facts from runs")
    max_facts: Int = Field(default=7, ge=1, le=7, description="most facts drawn from one run")
    model: Line | None = Field(
        default=None, description="model that reads the record; unset uses rules and no model"
    )


def _fits_level(spec: "KnowledgeScopeSpec") -> bool:
    if spec.level is Level.CELL:
        return spec.cell is not None
    if spec.level is Level.FORMATION:
        return spec.formation is not None and spec.cell is None
    return spec.formation is None and spec.cell is None


class KnowledgeScopeSpec(Model):
    """Which scope is meant and how knowledge behaves in it."""

    RULES = (
        Rule(
            "self.level == 'cell' ? has(self.cell) : self.level == 'formation' ? "
            "(has(self.formation) && !has(self.cell)) : (!has(self.formation) && !has(self.cell))",
            "level and names must fit: formation needs formation; cell needs cell and, inside a "
            "formation, formation; realm and platform take neither",
            _fits_level,
        ),
    )

    level: Level = Field(description="how wide the scope is; its realm is the namespace")
    formation: Segment | None = Field(
        default=None, description="formation segment of the path, by default a Blueprint's name"
    )
    cell: Segment | None = Field(
        default=None, description="cell segment of the path: the cell's short name such as lead-0"
    )
    read_only: Bool = Field(default=False, description="true refuses new facts in this scope")
    inherit: Bool = Field(default=True, description="false hides what wider scopes know")
    retention: Retention | None = Field(
        default=None, description="when facts are archived; unset archives nothing"
    )
    promotion: Promotion = Field(
        default_factory=Promotion,
        description="when a proven fact is copied one level up",
        json_schema_extra={"default": {}},
    )
    injection: Injection = Field(
        default_factory=Injection,
        description="how much of what is known is put before a cell",
        json_schema_extra={"default": {}},
    )
    extraction: Extraction = Field(
        default_factory=Extraction,
        description="what is drawn from runs of this scope",
        json_schema_extra={"default": {}},
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="Delete erases the facts of exactly this path, and their promoted copies, "
        "with the object; Retain keeps them",
    )


class KnowledgeScopeDisplay(Model):
    """Texts for the columns of kubectl get."""

    useful: Line | None = Field(
        default=None, description="usefulness, rounded for reading; - before any"
    )


class KnowledgeScopeStatus(Status):
    """What the operator knows about a scope."""

    path: Line | None = Field(
        default=None, description="the scope's path, such as realm:demo/formation:review-team"
    )
    endpoint: Line | None = Field(
        default=None, description="address of the knowledge service that holds it"
    )
    facts: Int | None = Field(default=None, ge=0, description="live facts in exactly this scope")
    recalls: Int | None = Field(
        default=None, ge=0, description="recalls that were given facts of this scope"
    )
    usefulness: Share | None = Field(
        default=None, description="share of successes among runs that had facts of this scope"
    )
    last_write_time: Timestamp | None = Field(
        default=None, description="when a fact was last written here"
    )
    display: KnowledgeScopeDisplay | None = Field(default=None, description="texts for columns")


class KnowledgeScope(Resource):
    """How knowledge behaves in one scope."""

    PLURAL = "knowledgescopes"
    SHORT_NAME = "ksc"
    DESCRIPTION: ClassVar[str] = (
        "Settings of one scope of the knowledge service; a scope nobody declares has the defaults."
    )
    COLUMNS = (
        Column("Scope", "string", ".status.path", "path of the scope"),
        Column("Facts", "integer", ".status.facts", "live facts"),
        Column("Recalls", "integer", ".status.recalls", "recalls that were given facts of it"),
        Column(
            "Useful", "string", ".status.display.useful", "successes of runs that had its facts"
        ),
        Column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "whether it is set"
        ),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
    )
    SELECTABLE = (".spec.level",)

    spec: KnowledgeScopeSpec = Field(description="which scope is meant and how it behaves")
    status: KnowledgeScopeStatus = Field(
        default_factory=KnowledgeScopeStatus, description="what the operator found"
    )
