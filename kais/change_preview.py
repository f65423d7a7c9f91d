"""What another template would do to a use that lives: its objects before and after.

The objects are told as the template gives them; what the operator adds is the same before and
after. A mission that has been made is never changed, so only its Formation can be. Runs users'
templates and patterns, as `kais.blueprints` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kais import blueprints
from kais.blueprints import Rendering, Violations
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais.templates import Progress

MISSION_STAYS = "its Mission stays as it is until `kais mission retry NAME` or a new use"
_PARTS = (("Formation", "formation_spec"), ("Mission", "mission_spec"))


@dataclass(frozen=True)
class ObjectChange:
    """The spec of one object of a use as it is and as it would be; None where there is none."""

    kind: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True)
class ChangePreview:
    """What one use would make of another template.

    Attributes:
        changes: The objects that would change.
        problems: Why it could not be rendered: every violation. Its objects would then stay.
        note: What would not happen although the template says so; empty when there is nothing.
    """

    changes: tuple[ObjectChange, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give it as a JSON tree."""
        changes = [vars(change) for change in self.changes]
        return {"changes": changes, "problems": list(self.problems), "note": self.note}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> "ChangePreview":
        """Read what `to_dict` gave."""
        changes = tuple(ObjectChange(**change) for change in tree["changes"])
        return cls(changes, tuple(tree["problems"]), tree["note"])


def preview_template(
    template: Mapping[str, Any],
    instance: BlueprintInstance,
    *,
    present: BlueprintRevision,
    progress: Progress | None = None,
) -> ChangePreview:
    """Say what a use would become with this template instead of the revision that it stands on.

    `template` is a Blueprint's spec. Parameters are the use's own; `blueprint.revision` in a
    template is the present number on both sides, so that it is no change by itself. `progress` is
    called with each leaf before it is run.
    """
    old = _render(present.spec.template().to_dict(), instance, present, progress)
    new = _render(template, instance, present, progress)
    if isinstance(new, Violations):
        return ChangePreview(problems=new.violations)
    if isinstance(old, Violations):
        return ChangePreview(note="it does not render now, so nothing can be compared")
    comparisons = [
        ObjectChange(kind, getattr(old, part), getattr(new, part)) for kind, part in _PARTS
    ]
    changes = tuple(change for change in comparisons if change.before != change.after)
    if instance.status.run_id is None:
        return ChangePreview(changes)
    applicable = tuple(change for change in changes if change.kind != "Mission")
    return ChangePreview(applicable, note=MISSION_STAYS if applicable != changes else "")


def _render(
    template: Mapping[str, Any],
    instance: BlueprintInstance,
    present: BlueprintRevision,
    progress: Progress | None,
) -> Rendering:
    return blueprints.render_blueprint(
        template,
        instance.spec.parameters,
        blueprint=present.spec.blueprint,
        revision=present.spec.revision,
        instance=instance.metadata.name,
        namespace=instance.metadata.namespace,
        progress=progress,
    )
