"""BlueprintRevision: one immutable snapshot of a blueprint, kept while anybody uses it."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kais import names
from kais.resources.base import Column, Model, Resource, Rule
from kais.resources.blueprint import Statistics, TemplateSpec
from kais.resources.field_types import Int, Line, Name, Text


class BlueprintRevisionSpec(TemplateSpec):
    """A snapshot: whose it is, its number, what rendering depends on and what it changed."""

    RULES = (Rule("self == oldSelf", "a revision never changes; edit its Blueprint instead"),)

    blueprint: Name = Field(description="name of the Blueprint that was snapshot")
    revision: Int = Field(ge=1, description="number, never used twice for one Blueprint's name")
    changes: Text | None = Field(
        default=None, description="what it changed against the revision before, in words"
    )
    breaking: Annotated[list[Line], Field(max_length=200)] = Field(
        default_factory=list,
        description="changes that callers of the revision before may break on, in words",
    )

    def template(self) -> TemplateSpec:
        """Give the part that rendering depends on and the hash is taken of."""
        return TemplateSpec.model_validate(self.model_dump(by_alias=True), by_alias=True)


def template_of(spec: TemplateSpec) -> dict[str, Any]:
    """Give what a revision keeps of a blueprint's spec, as a JSON tree."""
    return spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=set(TemplateSpec.model_fields)
    )


def hash_of(spec: TemplateSpec) -> str:
    """Hash what a revision keeps: specs with equal hashes are one revision.

    Defaults are left out, so that a field added by a later version makes no new revision.
    """
    kept = set(TemplateSpec.model_fields)
    return names.spec_hash(
        spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=kept)
    )


class BlueprintRevisionDisplay(Model):
    """Texts for the columns of kubectl get."""

    success: Line | None = Field(default=None, description="success rate, such as 87%")


class BlueprintRevisionStatus(Statistics):
    """What the operator knows about a revision."""

    display: BlueprintRevisionDisplay | None = Field(default=None, description="texts for columns")


class BlueprintRevision(Resource):
    """One immutable snapshot of a blueprint."""

    PLURAL = "blueprintrevisions"
    SHORT_NAME = "bpr"
    DESCRIPTION: ClassVar[str] = (
        "An immutable, numbered snapshot of a Blueprint, written by the operator only."
    )
    COLUMNS = (
        Column("Blueprint", "string", ".spec.blueprint", "whose snapshot it is"),
        Column("Revision", "integer", ".spec.revision", "its number"),
        Column(
            "Compiled",
            "string",
            '.status.conditions[?(@.type=="Compiled")].status',
            "whether it can be rendered",
        ),
        Column("Uses", "integer", ".status.usageCount", "runs that were ever opened"),
        Column("Success", "string", ".status.display.success", "success rate"),
        Column("Age", "date", ".metadata.creationTimestamp", "time since it was made"),
        Column("Changes", "string", ".spec.changes", "what it changed", priority=1),
    )
    SELECTABLE = (".spec.blueprint", ".spec.revision")

    spec: BlueprintRevisionSpec = Field(description="the snapshot; never changes")
    status: BlueprintRevisionStatus = Field(
        default_factory=BlueprintRevisionStatus, description="what the operator found"
    )
