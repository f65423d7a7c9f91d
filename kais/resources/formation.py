"""Formation: a team of cells and its topology."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Rule, Status
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
)

MAX_REPLICAS = 100
"""Most cells of one template."""
MAX_CELLS = 1000
"""Most cells of one formation, all templates together: the largest team that is tested."""


class TopologyType(StrEnum):
    """Who may talk to whom."""

    FULL_MESH = "full_mesh"
    HIERARCHY = "hierarchy"
    STAR = "star"
    RING = "ring"
    STIGMERGY = "stigmergy"
    CUSTOM = "custom"


class FormationPhase(StrEnum):
    """Where a formation stands, for people; no logic reads it back."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    FAILED = "Failed"


class Route(Model):
    """One allowed direction of talk."""

    from_: Label = Field(alias="from", description="the cell that may begin, by template name")
    to: Annotated[list[Label], Field(min_length=1, max_length=100)] = Field(
        description="the cells it may talk to, by template name"
    )
    protocol: Line | None = Field(
        default=None, description="how they talk; kept for the cells, kais does not read it"
    )


class Broadcast(Model):
    """Who may talk to everybody at once."""

    enabled: Bool = Field(description="whether broadcasting is allowed at all")
    from_: Annotated[list[Label], Field(max_length=100)] = Field(
        alias="from", description="the cells that may, by template name"
    )


class Blackboard(Model):
    """The shared board of a stigmergy: cells leave marks instead of talking."""

    decay_minutes: Annotated[Number, Field(ge=0, le=5_256_000)] = Field(
        description="minutes after which a mark has faded"
    )


class Topology(Model):
    """Who may talk to whom inside a formation."""

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

    type: TopologyType = Field(description="the shape that decides who may talk to whom")
    root: Label | None = Field(default=None, description="top of a hierarchy, by template name")
    hub: Label | None = Field(default=None, description="middle of a star, by template name")
    routes: Annotated[list[Route], Field(max_length=200)] | None = Field(
        default=None, description="the routes of a custom topology, or the tree of a hierarchy"
    )
    broadcast: Broadcast | None = Field(
        default=None, description="who may talk to everybody at once; unset lets nobody"
    )
    blackboard: Blackboard | None = Field(
        default=None, description="the shared board that a stigmergy works through"
    )


class CellTemplate(Model):
    """One role of the team and how many of it there are."""

    name: Label = Field(description="the role's name; its cells are <formation>-<name>-<index>")
    replicas: Int = Field(
        default=1, ge=1, le=MAX_REPLICAS, description="how many cells play the role"
    )
    spec: CellTemplateSpec = Field(description="what each of these cells is")


class FormationBudget(Model):
    """What the whole team may spend."""

    max_total_cost: Cost | None = Field(
        default=None, description="most paid in all in US dollars; 0 allows no paid call"
    )
    max_cost_per_hour: Cost | None = Field(
        default=None, description="most paid per hour in US dollars; 0 allows no paid call"
    )
    allocation: Annotated[dict[str, Line], Field(max_length=100)] | None = Field(
        default=None, description="share of the budget for each role, such as 40%"
    )


class AccessMode(StrEnum):
    """How many nodes may mount the shared workspace."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class Workspace(Model):
    """The volume that the cells of a formation share at /workspace/shared."""

    size: Quantity = Field(default="1Gi", description="room that is asked for, such as 1Gi")
    storage_class_name: Name | None = Field(
        default=None, description="class of the volume; unset takes the cluster's default"
    )
    access_mode: AccessMode = Field(
        default=AccessMode.READ_WRITE_ONCE,
        description="ReadWriteMany lets cells run on several nodes, where the class can do it",
    )


class FormationKnowledge(Model):
    """Where the team's knowledge lies."""

    scope: Segment | None = Field(
        default=None,
        description=(
            "formation segment of the scope; unset is the Blueprint's name when made from one, "
            "else this Formation's: all uses of one Blueprint in a realm share what they learn"
        ),
    )


class FormationSpec(Model):
    """A team of cells and how they work together.

    The bound on all cells has no Python half: a team that was stored before it must stay readable,
    so that it can be scaled down. `too_many_cells` is what decisions ask.
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
        description=f"the roles of the team; each name stands once, all together {MAX_CELLS} cells"
    )
    topology: Topology = Field(
        default_factory=lambda: Topology(type=TopologyType.FULL_MESH),
        description="who may talk to whom; unset lets everybody talk to everybody",
        json_schema_extra={"default": {"type": "full_mesh"}},
    )
    budget: FormationBudget | None = Field(default=None, description="what the team may spend")
    workspace: Workspace | None = Field(
        default=None, description="the volume that the cells share; unset gives none"
    )
    knowledge: FormationKnowledge | None = Field(
        default=None, description="where the team's knowledge lies"
    )

    @property
    def cell_count(self) -> int:
        """How many cells the templates ask for."""
        return sum(template.replicas for template in self.cells)

    def too_many_cells(self) -> str | None:
        """Say that the team is larger than a formation may be; None when it is not."""
        if self.cell_count <= MAX_CELLS:
            return None
        return (
            f"the templates ask for {self.cell_count} cells, and a formation has at most"
            f" {MAX_CELLS}: lower the replicas or split the team"
        )


class CellSummary(Model):
    """One cell of the team at a glance."""

    name: Name = Field(description="the Cell's object name")
    phase: Line | None = Field(default=None, description="the Cell's own phase")
    cost: Cost | None = Field(default=None, description="US dollars that cell has spent")


class FormationDisplay(Model):
    """Texts for the columns of kubectl get."""

    cells: Line | None = Field(default=None, description="ready and wanted cells, such as 2/3")
    cost: Line | None = Field(
        default=None, description="total cost, rounded for reading; - while none was reported"
    )


class FormationStatus(Status):
    """What the operator knows about a formation."""

    phase: FormationPhase | None = Field(
        default=None, description="where the formation stands, for people"
    )
    ready_cells: Int | None = Field(default=None, ge=0, description="cells whose Ready is True")
    total_cells: Int | None = Field(default=None, ge=0, description="cells that the spec asks for")
    total_cost: Cost | None = Field(
        default=None, description="US dollars spent by all cells, gone ones included"
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
    ] = Field(default_factory=list, description="each cell at a glance")
    message: Text | None = Field(default=None, description="the summary's words, for people")
    display: FormationDisplay | None = Field(default=None, description="texts for columns")


class Formation(Resource):
    """A team of cells and its topology."""

    PLURAL = "formations"
    SHORT_NAME = "fm"
    DESCRIPTION: ClassVar[str] = "A team of cells and the topology it works in."
    COLUMNS = (
        Column("Cells", "string", ".status.display.cells", "ready and wanted cells"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "whether it can work",
        ),
        Column("Cost", "string", ".status.display.cost", "US dollars spent"),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
    )
    SELECTABLE = (".status.phase",)

    spec: FormationSpec = Field(description="the roles and how they work together")
    status: FormationStatus = Field(
        default_factory=FormationStatus, description="what the operator found"
    )
