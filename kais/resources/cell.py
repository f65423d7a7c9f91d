"""Cell: one agent, task or service."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from kais.resources.base import Column, Model, Resource, Status, message_column, reason_column
from kais.resources.cell_template import CellTemplateSpec
from kais.resources.field_types import Cost, Int, Line, Name, Reference, Text, Timestamp


class CellPhase(StrEnum):
    """The phase of a cell, for people; no decision depends on it."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    PAUSED = "Paused"


class CellSpec(CellTemplateSpec):
    """One agent, task or service, and its owners."""

    parent_ref: Reference | None = Field(
        default=None, description="Cell that created this one; its limits include this cell."
    )
    formation_ref: Reference | None = Field(
        default=None, description="Formation whose scope, workspace and peers the cell shares."
    )


class CellDisplay(Model):
    """Texts for the columns of kubectl get."""

    status: Line | None = Field(
        default=None, description="Phase of the cell, or Standby while it waits for a mission."
    )
    model: Line | None = Field(default=None, description="Model of the mind, if the cell has one.")
    cost: Line | None = Field(
        default=None, description="Total cost, rounded, if the cell has a mind."
    )


class CellStatus(Status):
    """The observed state of a cell."""

    phase: CellPhase | None = Field(
        default=None, description="Summary of the cell's state, for people."
    )
    pod_name: Name | None = Field(default=None, description="Current or latest pod of the cell.")
    total_cost: Cost | None = Field(
        default=None, description="Total cost of the cell's pods in US dollars."
    )
    total_tokens: Int | None = Field(
        default=None, ge=0, description="Total number of tokens used by the cell's pods."
    )
    last_active: Timestamp | None = Field(
        default=None, description="When the cell last started or ended work."
    )
    message: Text | None = Field(default=None, description="Message of the summary condition.")
    display: CellDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class Cell(Resource):
    """One agent, task or service."""

    PLURAL = "cells"
    SHORT_NAME = "cl"
    DESCRIPTION: ClassVar[str] = (
        "One agent, task or service: a mind, or a container with your own image."
    )
    COLUMNS = (
        Column("Status", "string", ".status.display.status", "Summary of the cell's state."),
        Column(
            "Model",
            "string",
            ".status.display.model",
            "Model of the mind.",
        ),
        Column("Cost", "string", ".status.display.cost", "Cost in US dollars."),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the cell is ready.",
        ),
        reason_column(),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        Column("Pod", "string", ".status.podName", "Current or latest pod.", priority=1),
        Column("Image", "string", ".spec.container.image", "Image of the container.", priority=1),
        message_column(),
    )
    SELECTABLE = (".spec.formationRef", ".status.phase")

    spec: CellSpec = Field(description="Program that the cell runs, and its limits.")
    status: CellStatus = Field(
        default_factory=CellStatus, description="Observed state, written by the operator."
    )
