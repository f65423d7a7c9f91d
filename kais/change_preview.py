"""Previews what another template would change in the objects of a live instance.

Compares the objects as the template renders them; what the operator adds is the same before and
after. An existing Mission is never changed, so only its Formation can be. Runs templates and
patterns of users, as `kais.blueprint_rendering` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kais import blueprint_rendering
from kais.blueprint_rendering import Rendering, Violations
from kais.resources.blueprint_instance import BlueprintInstance, UpdatePolicy
from kais.resources.blueprint_revision import BlueprintRevision
from kais.templates import Progress

_MISSION_STAYS = "its Mission stays unchanged until `kais mission retry {name}` or a new instance"
_MISSION_STAYS_PINNED = (
    "its Mission stays unchanged, also in a retry, until spec.blueprintRef.revision of the instance"
    " names the new revision; `kais mission retry {name}` then runs it. Or create a new instance"
)
_PARTS = (("Formation", "formation_spec"), ("Mission", "mission_spec"))


@dataclass(frozen=True)
class ObjectChange:
    """The spec of one object of an instance before and after; None where it does not exist."""

    kind: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True)
class ChangePreview:
    """The changes that another template would make to one instance.

    Attributes:
        changes: The objects that would change.
        problems: The violations, if it cannot be rendered; its objects then stay.
        note: The parts that would stay although the template differs; empty if there are none.
    """

    changes: tuple[ObjectChange, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON tree."""
        changes = [vars(change) for change in self.changes]
        return {"changes": changes, "problems": list(self.problems), "note": self.note}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> "ChangePreview":
        """Read what `to_dict` returned."""
        changes = tuple(ObjectChange(**change) for change in tree["changes"])
        return cls(changes, tuple(tree["problems"]), tree["note"])


def preview_template(
    template: Mapping[str, Any],
    instance: BlueprintInstance,
    *,
    present: BlueprintRevision,
    progress: Progress | None = None,
) -> ChangePreview:
    """Preview an instance with this template instead of its revision.

    `template` is the spec of a Blueprint, the parameters are those of the instance. The value of
    `blueprint.revision` is the present one on both sides, so that it makes no difference.
    `progress` is called with each leaf before it is evaluated.
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
    return ChangePreview(applicable, note=_mission_note(instance) if applicable != changes else "")


def _mission_note(instance: BlueprintInstance) -> str:
    """Say what brings the Mission of a started instance to the new template."""
    spec = instance.spec
    follows = spec.update_policy is UpdatePolicy.AUTOMATIC and spec.blueprint_ref.revision is None
    note = _MISSION_STAYS if follows else _MISSION_STAYS_PINNED
    return note.format(name=instance.metadata.name)


def _render(
    template: Mapping[str, Any],
    instance: BlueprintInstance,
    present: BlueprintRevision,
    progress: Progress | None,
) -> Rendering:
    return blueprint_rendering.render_blueprint(
        template,
        instance.spec.parameters,
        blueprint=present.spec.blueprint,
        revision=present.spec.revision,
        instance=instance.metadata.name,
        namespace=instance.metadata.namespace,
        progress=progress,
    )
