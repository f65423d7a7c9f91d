"""BlueprintRevision: an immutable snapshot of a blueprint, kept while it is in use."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kais import names
from kais.resources.base import Column, Model, Resource, Rule
from kais.resources.blueprint import Statistics, TemplateSpec
from kais.resources.field_types import Int, Line, Name, Text


class BlueprintRevisionSpec(TemplateSpec):
    """A snapshot: its blueprint and number, the template, and the changes since the last one."""

    RULES = (Rule("self == oldSelf", "a revision is immutable; edit its Blueprint instead"),)

    blueprint: Name = Field(description="Name of the Blueprint.")
    revision: Int = Field(
        ge=1, description="Number of the revision, never reused under the same Blueprint name."
    )
    changes: Text | None = Field(
        default=None, description="Summary of the changes since the previous revision."
    )
    breaking: Annotated[list[Line], Field(max_length=200)] = Field(
        default_factory=list,
        description="Changes that may break instances of the previous revision.",
    )

    def template(self) -> TemplateSpec:
        """Return the part that rendering depends on and that is hashed."""
        return TemplateSpec.model_validate(self.model_dump(by_alias=True), by_alias=True)


def template_of(spec: TemplateSpec) -> dict[str, Any]:
    """Return the part of a blueprint's spec that a revision keeps, as a JSON tree."""
    return spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=set(TemplateSpec.model_fields)
    )


def hash_of(spec: TemplateSpec) -> str:
    """Hash the part of a spec that a revision keeps; equal hashes mean the same revision.

    Defaults are omitted, so that a field added by a later version does not create a new revision.
    """
    hashed = set(TemplateSpec.model_fields)
    return names.spec_hash(
        spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=hashed)
    )


class BlueprintRevisionDisplay(Model):
    """Texts for the columns of kubectl get."""

    success: Line | None = Field(default=None, description="Success rate, such as 87%.")


class BlueprintRevisionStatus(Statistics):
    """The observed state of a revision."""

    display: BlueprintRevisionDisplay | None = Field(
        default=None, description="Texts for the columns of kubectl get."
    )


class BlueprintRevision(Resource):
    """One immutable snapshot of a blueprint."""

    PLURAL = "blueprintrevisions"
    SHORT_NAME = "bpr"
    DESCRIPTION: ClassVar[str] = (
        "An immutable, numbered snapshot of a Blueprint. Only the operator creates revisions."
    )
    COLUMNS = (
        Column("Blueprint", "string", ".spec.blueprint", "Name of the Blueprint."),
        Column("Revision", "integer", ".spec.revision", "Number of the revision."),
        Column(
            "Compiled",
            "string",
            '.status.conditions[?(@.type=="Compiled")].status',
            "Whether the revision can be rendered.",
        ),
        Column("Uses", "integer", ".status.usageCount", "Number of runs."),
        Column("Success", "string", ".status.display.success", "Success rate."),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        Column(
            "Changes", "string", ".spec.changes", "Changes since the previous revision.", priority=1
        ),
    )
    SELECTABLE = (".spec.blueprint", ".spec.revision")

    spec: BlueprintRevisionSpec = Field(description="Snapshot of the Blueprint; immutable.")
    status: BlueprintRevisionStatus = Field(
        default_factory=BlueprintRevisionStatus,
        description="Observed state, written by the operator.",
    )
