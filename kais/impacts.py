"""What another template would do to a use that lives: its objects before and after, in words.

The objects are told as the template gives them; what the operator adds is the same before and
after. A mission that has been made is never changed, so only its Formation can be. Runs users'
templates and patterns, as `kais.blueprints` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kais import blueprints, differences
from kais.blueprints import Rendering, Violations
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision


@dataclass(frozen=True)
class Impact:
    """What one use would make of another template.

    Attributes:
        instance: `kind/namespace/name` of the use.
        changes: What would change in its objects, one line each.
        problems: Why it could not be rendered: every violation. Its objects would then stay.
        note: What would not happen although the template says so; empty when there is nothing.
    """

    instance: str
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_none(self) -> bool:
        """Whether the use would stay as it is."""
        return not self.changes and not self.problems


def of_template(
    template: Mapping[str, Any], instance: BlueprintInstance, *, present: BlueprintRevision
) -> Impact:
    """Say what a use would become with this template instead of the revision that it stands on.

    `template` is a Blueprint's spec. Parameters are the use's own; `blueprint.revision` in a
    template is the present number on both sides, so that it is no change by itself.
    """
    old = _render(present.spec.template().to_dict(), instance, present)
    new = _render(template, instance, present)
    if isinstance(new, Violations):
        return Impact(instance.ref, problems=new.violations)
    if isinstance(old, Violations):
        return Impact(instance.ref, note="it does not render now, so nothing can be compared")
    formation = differences.between(old.formation_spec, new.formation_spec, path="Formation.spec")
    mission = differences.between(old.mission_spec, new.mission_spec, path="Mission.spec")
    note = ""
    if mission and instance.status.run_id is not None:
        note = "its Mission stays as it is until kais.io/rerun or a new use"
        return Impact(instance.ref, tuple(formation), note=note)
    return Impact(instance.ref, (*formation, *mission))


def _render(
    template: Mapping[str, Any], instance: BlueprintInstance, present: BlueprintRevision
) -> Rendering:
    return blueprints.render_blueprint(
        template,
        instance.spec.parameters,
        blueprint=present.spec.blueprint,
        revision=present.spec.revision,
        instance=instance.metadata.name,
        namespace=instance.metadata.namespace,
    )
