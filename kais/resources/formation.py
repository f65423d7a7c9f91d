"""Formation: a team of cells and its topology."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status, message_column, reason_column
from kais.resources.cell_template import CellTemplateSpec
from kais.resources.field_types import (
    Bool,
    Cost,
    Int,
    Label,
    Line,
    Name,
    Number,
    Quantity,
    Segment,
    Text,
    Timestamp,
)

MAX_REPLICAS = 100
"""The maximum number of cells of one template."""
MAX_CELLS = 1000
"""The maximum number of cells of one formation, in all templates: the largest tested team."""


class TopologyType(StrEnum):
    """Which cells of a formation may talk to which."""

    FULL_MESH = "full_mesh"
    HIERARCHY = "hierarchy"
    STAR = "star"
    RING = "ring"
    STIGMERGY = "stigmergy"
    CUSTOM = "custom"


class FormationPhase(StrEnum):
    """The phase of a formation, for people; no decision depends on it."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    FAILED = "Failed"


class Route(Model):
    """One allowed direction of talk."""

    from_: Label = Field(
        alias="from", description="Cell that may start the communication, by template name."
    )
    to: Annotated[list[Label], Field(min_length=1, max_length=100)] = Field(
        description="Cells that it may communicate with, by template name."
    )
    protocol: Line | None = Field(
        default=None, description="Protocol, for use by the cells. kais does not evaluate it."
    )


class Broadcast(Model):
    """The cells that may talk to all others at once."""

    enabled: Bool = Field(description="Whether broadcasting is allowed.")
    from_: Annotated[list[Label], Field(max_length=100)] = Field(
        alias="from", description="Cells that may broadcast, by template name."
    )


class Blackboard(Model):
    """The shared board of a stigmergy: cells leave marks instead of talking to each other."""

    decay_minutes: Annotated[Number, Field(ge=0, le=5_256_000)] = Field(
        description="Minutes after which an entry expires."
    )


class Topology(Model):
    """Which cells of a formation may talk to which."""

    RULES = (
        Rule(
            "self.type != 'star' || has(self.hub)",
            "a star needs a hub",
            lambda t: t.type != TopologyType.STAR or t.hub is not None,
        ),
        Rule(
            "self.type != 'hierarchy' || has(self.root)",
            "a hierarchy needs a root",
            lambda t: t.type != TopologyType.HIERARCHY or t.root is not None,
        ),
        Rule(
            "self.type != 'stigmergy' || has(self.blackboard)",
            "a stigmergy needs a blackboard",
            lambda t: t.type != TopologyType.STIGMERGY or t.blackboard is not None,
        ),
        Rule(
            "self.type != 'custom' || (has(self.routes) && self.routes.size() > 0)",
            "a custom topology needs routes",
            lambda t: t.type != TopologyType.CUSTOM or bool(t.routes),
        ),
    )

    type: TopologyType = Field(
        description="Shape of the topology; determines which cells may communicate."
    )
    root: Label | None = Field(default=None, description="Top of a hierarchy, by template name.")
    hub: Label | None = Field(default=None, description="Centre of a star, by template name.")
    routes: Annotated[list[Route], Field(max_length=200)] | None = Field(
        default=None, description="Routes of a custom topology, or the tree of a hierarchy."
    )
    broadcast: Broadcast | None = Field(
        default=None, description="Cells that may broadcast. Default: none."
    )
    blackboard: Blackboard | None = Field(default=None, description="Shared board of a stigmergy.")


class CellTemplate(Model):
    """One role of the team and how many of it there are."""

    name: Label = Field(
        description="Name of the template. Its cells are named <formation>-<name>-<index>."
    )
    replicas: Int = Field(
        default=1, ge=1, le=MAX_REPLICAS, description="Number of cells of this template."
    )
    spec: CellTemplateSpec = Field(description="Spec of each of these cells.")


class FormationBudget(Model):
    """The budget of all cells of a formation."""

    max_total_cost: Cost | None = Field(
        default=None, description="Maximum total cost in US dollars. 0 allows no paid calls."
    )
    max_cost_per_hour: Cost | None = Field(
        default=None,
        description=(
            "Maximum cost of the team within an hour in US dollars. A team that has reached it is "
            "paused. 0 allows no paid calls."
        ),
    )
    allocation: Annotated[dict[str, Line], Field(max_length=100)] | None = Field(
        default=None,
        description=(
            "Share of the total budget per template, such as 40%. The cells of a template have it "
            "together. Default: equal shares of the rest for the cells with a mind."
        ),
    )


class AccessMode(StrEnum):
    """How many nodes may mount the shared workspace."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class Workspace(Model):
    """The volume that the cells of a formation share at /workspace/shared."""

    size: Quantity = Field(default="1Gi", description="Requested size, such as 1Gi.")
    storage_class_name: Name | None = Field(
        default=None, description="Storage class of the volume. Default: that of the cluster."
    )
    access_mode: AccessMode = Field(
        default=AccessMode.READ_WRITE_ONCE,
        description=(
            "Access mode. ReadWriteMany lets cells run on several nodes if the storage "
            "class supports it."
        ),
    )


class FormationKnowledge(Model):
    """The scope of the formation's knowledge."""

    scope: Segment | None = Field(
        default=None,
        description=(
            "Formation segment of the scope. Default: the name of the Blueprint, so that "
            "all its instances in a realm share knowledge; without a Blueprint, the name of "
            "the Formation."
        ),
    )


class FormationSpec(Model):
    """The cells of a formation and how they work together.

    The limit on all cells has no check in Python: a formation that was stored before the limit
    must stay readable, so that it can be scaled down. Decisions use `too_many_cells`.
    """

    RULES = (
        Rule(
            "self.cells.map(c, has(c.replicas) ? c.replicas : 1).sum() <= " + str(MAX_CELLS),
            f"a formation has at most {MAX_CELLS} cells: lower the replicas or split the team",
        ),
    )

    cells: Annotated[
        list[CellTemplate],
        Field(
            min_length=1,
            max_length=100,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(
        description=f"Templates of the cells. Names are unique; at most {MAX_CELLS} cells together."
    )
    topology: Topology = Field(
        default_factory=lambda: Topology(type=TopologyType.FULL_MESH),
        description="Which cells may communicate. Default: all with all.",
        json_schema_extra={"default": {"type": "full_mesh"}},
    )
    budget: FormationBudget | None = Field(default=None, description="Budget of the team.")
    workspace: Workspace | None = Field(
        default=None, description="Volume that the cells share. Default: none."
    )
    knowledge: FormationKnowledge | None = Field(
        default=None, description="Scope of the team's knowledge."
    )

    @property
    def cell_count(self) -> int:
        """The number of cells of all templates."""
        return sum(template.replicas for template in self.cells)

    def too_many_cells(self) -> str | None:
        """Return a message if the formation has more cells than allowed, else None."""
        if self.cell_count <= MAX_CELLS:
            return None
        return (
            f"the templates ask for {self.cell_count} cells, and a formation has at most"
            f" {MAX_CELLS}: lower the replicas or split the team"
        )


class CellSummary(Model):
    """One cell of the team at a glance."""

    name: Name = Field(description="Name of the Cell.")
    phase: Line | None = Field(default=None, description="Phase of the Cell.")
    cost: Cost | None = Field(default=None, description="Cost of the cell in US dollars.")


class FormationDisplay(Model):
    """Texts for the columns of kubectl get."""

    cells: Line | None = Field(default=None, description="Ready and desired cells, such as 2/3.")
    cost: Line | None = Field(
        default=None, description="Total cost, rounded; - if none was reported."
    )


class FormationStatus(Status):
    """The observed state of a formation."""

    phase: FormationPhase | None = Field(
        default=None, description="Summary of the formation's state, for people."
    )
    ready_cells: Int | None = Field(
        default=None, ge=0, description="Number of cells whose condition Ready is True."
    )
    total_cells: Int | None = Field(default=None, ge=0, description="Number of cells in the spec.")
    total_cost: Cost | None = Field(
        default=None,
        description="Cost of the team in US dollars, with that of cells that were removed.",
    )
    cells: Annotated[
        list[CellSummary],
        Field(
            max_length=MAX_CELLS,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(default_factory=list, description="Name, phase and cost of each cell.")
    paused_until: Timestamp | None = Field(
        default=None,
        description=(
            "Until when no attempt starts, because the team has spent budget.maxCostPerHour within "
            "the last hour. Unset while it may spend."
        ),
    )
    message: Text | None = Field(default=None, description="Message of the summary condition.")
    display: FormationDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class Formation(Resource):
    """A team of cells and its topology."""

    PLURAL = "formations"
    SHORT_NAME = "fm"
    DESCRIPTION: ClassVar[str] = "A team of cells and its topology."
    COLUMNS = (
        Column("Cells", "string", ".status.display.cells", "Ready and desired cells."),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether all cells are ready.",
        ),
        reason_column(),
        Column("Cost", "string", ".status.display.cost", "Cost in US dollars."),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        Column("Phase", "string", ".status.phase", "Summary of the formation's state.", priority=1),
        message_column(),
    )
    SELECTABLE = (".status.phase",)

    spec: FormationSpec = Field(description="Templates of the cells, and how they work together.")
    status: FormationStatus = Field(
        default_factory=FormationStatus, description="Observed state, written by the operator."
    )
