"""Cell: one agent or task."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Status
from kais.resources.cell_template import CellTemplateSpec
from kais.resources.field_types import Cost, Int, Line, Name, Reference, Text, Timestamp


class CellPhase(StrEnum):
    """Where a cell stands, for people; no logic reads it back."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    PAUSED = "Paused"


class CellSpec(CellTemplateSpec):
    """One agent or task and whom it belongs to."""

    parent_ref: Reference | None = Field(
        default=None, description="the Cell that made this one; its limits cover this one too"
    )
    formation_ref: Reference | None = Field(
        default=None, description="the Formation whose scope, workspace and peers the cell shares"
    )


class CellDisplay(Model):
    """Texts for the columns of kubectl get."""

    status: Line | None = Field(
        default=None, description="the phase, or Standby for a cell that waits for a mission"
    )
    model: Line | None = Field(
        default=None, description="the mind's model, or the image of a container"
    )
    cost: Line | None = Field(
        default=None, description="total cost, rounded for reading; - while none was reported"
    )


class CellStatus(Status):
    """What the operator knows about a cell."""

    phase: CellPhase | None = Field(default=None, description="where the cell stands, for people")
    pod_name: Name | None = Field(
        default=None, description="the pod that is or was last at work for the cell"
    )
    total_cost: Cost | None = Field(
        default=None, description="US dollars spent since the cell was made, over all its pods"
    )
    total_tokens: Int | None = Field(
        default=None, ge=0, description="tokens used since the cell was made, over all its pods"
    )
    last_active: Timestamp | None = Field(
        default=None, description="when the cell last began or ended a piece of work"
    )
    message: Text | None = Field(default=None, description="the summary's words, for people")
    display: CellDisplay | None = Field(default=None, description="texts for columns")


class Cell(Resource):
    """One agent or task."""

    PLURAL = "cells"
    SHORT_NAME = "cl"
    DESCRIPTION: ClassVar[str] = "One agent or task: a mind, or an image of your own."
    COLUMNS = (
        Column("Status", "string", ".status.display.status", "where the cell stands"),
        Column("Model", "string", ".status.display.model", "model of the mind, or image"),
        Column("Cost", "string", ".status.display.cost", "US dollars spent"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "whether it can work",
        ),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
    )
    SELECTABLE = (".spec.formationRef", ".status.phase")

    spec: CellSpec = Field(description="who does the work and within which limits")
    status: CellStatus = Field(default_factory=CellStatus, description="what the operator found")
