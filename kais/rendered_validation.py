"""Validates what a template rendered, as the API server would.

Stricter than the API server: an unknown field is an error, because the author of a template would
not notice that it is pruned, and names of unknown cells are reported before the first write.
"""

import difflib
import functools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from kais import forbidden_pod_fields, topology
from kais.errors import InvalidResource, Violation
from kais.resources.base import Model
from kais.resources.cell_template import CellTemplateSpec
from kais.resources.formation import FormationSpec
from kais.resources.mission import MissionSpec

ModelT = TypeVar("ModelT", bound=Model)
_CELL = re.compile(r"cells\[(\d+)\]\.")
_MAX_OWNERS = 2  # more objects with a field of the same name are no hint
_SET_BY_OPERATOR = ("formationRef", "cellRef")


@dataclass(frozen=True)
class ValidatedSpecs:
    """The specs as the API writes them, or their violations.

    Attributes:
        formation_spec: spec of the Formation; empty with violations.
        mission_spec: spec of the Mission, None without one.
        violations: all broken rules.
        may_name_secrets: whether a cell has a field that can name a Secret; most have none.
    """

    formation_spec: dict[str, Any]
    mission_spec: dict[str, Any] | None
    violations: tuple[Violation, ...] = ()
    may_name_secrets: bool = False


def validate_rendered(formation: Any, mission: Any, *, instance: str) -> ValidatedSpecs:
    """Validate a rendered formation and mission; the mission gets its formationRef.

    Args:
        formation: The rendered tree of the Formation's spec.
        mission: The rendered tree of the Mission's spec, None without one.
        instance: Name that the Formation will carry.
    """
    formation_spec, violations = _read(FormationSpec, formation, "formation")
    mission_spec: MissionSpec | None = None
    if mission is not None:
        mission_spec, mission_violations = _mission(mission, instance)
        violations += mission_violations
    if formation_spec is not None:
        violations += [
            _with_prefix("formation", problem) for problem in topology.problems(formation_spec)
        ]
        excess = formation_spec.too_many_cells()
        violations += [] if excess is None else [Violation("formation.cells", excess)]
        violations += _pod_violations(formation_spec)
    if formation_spec is not None and mission_spec is not None:
        violations += _entrypoint(formation_spec, mission_spec)
    if violations or formation_spec is None:
        return ValidatedSpecs({}, None, tuple(violations))
    return ValidatedSpecs(
        formation_spec.to_dict(),
        None if mission_spec is None else mission_spec.to_dict(),
        may_name_secrets=any(_may_name_secrets(cell.spec) for cell in formation_spec.cells),
    )


def _may_name_secrets(spec: CellTemplateSpec) -> bool:
    container = spec.container
    if container is None:
        has_reference = spec.mind is not None and spec.mind.credentials_ref is not None
    else:
        has_reference = container.env_from is not None or any(
            variable.value_from is not None for variable in container.env
        )
    has_headers = any("headersFrom" in (tool.config or {}) for tool in spec.tools)
    return has_reference or has_headers or spec.pod_template is not None


def _mission(tree: Any, instance: str) -> tuple[MissionSpec | None, list[Violation]]:
    if not isinstance(tree, dict):
        return None, [Violation("mission", f"must be an object, got {type(tree).__name__}")]
    reserved = [
        Violation(f"mission.{name}", "is set by the operator; leave it out")
        for name in _SET_BY_OPERATOR
        if name in tree
    ]
    if reserved:
        return None, reserved
    return _read(MissionSpec, {**tree, "formationRef": instance}, "mission")


def _read(model: type[ModelT], tree: Any, path: str) -> tuple[ModelT | None, list[Violation]]:
    if not isinstance(tree, dict):
        return None, [Violation(path, f"must be an object, got {type(tree).__name__}")]
    violations = list(unknown_fields(model, tree, path))
    try:
        return model.from_dict(tree), violations
    except InvalidResource as exc:
        model_violations = [
            Violation(_joined(path, v.path), _with_cell(v, tree)) for v in exc.violations
        ]
        return None, [*violations, *model_violations]


def _pod_violations(formation: FormationSpec) -> Iterator[Violation]:
    for index, cell in enumerate(formation.cells):
        for violation in forbidden_pod_fields.violations(cell.spec):
            yield Violation(f"formation.cells[{index}].spec.{violation.path}", violation.message)


def _with_cell(violation: Violation, tree: dict[str, Any]) -> str:
    """Return the message with the name of the cell that it is about, and the missing image."""
    message = violation.message
    if violation.path.endswith("container.image") and message == "is required":
        message += ": the image that the cell runs, such as registry.example/team/agent:1.0"
    match = _CELL.match(violation.path)
    cells = tree.get("cells")
    if match is None or not isinstance(cells, list):
        return message
    cell = cells[int(match[1])]
    name = cell.get("name") if isinstance(cell, dict) else None
    return f"{message} (cell {name})" if isinstance(name, str) else message


def _entrypoint(formation: FormationSpec, mission: MissionSpec) -> Iterator[Violation]:
    cell = mission.entrypoint.cell if mission.entrypoint is not None else None
    if topology.entrypoint_cell(formation, cell) is None:
        available = ", ".join(template.name for template in formation.cells)
        yield Violation(
            "mission.entrypoint.cell",
            f'"{cell}" is not a cell of the formation; it has {available}',
        )


def unknown_fields(model: type[BaseModel], tree: Any, path: str) -> Iterator[Violation]:
    """Yield the fields that the models do not have, also inside lists and optional models."""
    if isinstance(tree, list):
        for i, item in enumerate(tree):
            yield from unknown_fields(model, item, f"{path}[{i}]")
        return
    if not isinstance(tree, dict):
        return
    fields = _fields(model)
    for key, child in tree.items():
        if key in fields:
            below = fields[key]
            if below is not None:
                yield from unknown_fields(below, child, _joined(path, key))
        elif model.model_config.get("extra") != "allow":
            hint = _hint(str(key), fields)
            yield Violation(_joined(path, str(key)), f"is not a field of this object{hint}")


def _hint(name: str, fields: Collection[str]) -> str:
    """Return the field that may be meant, or the objects of a Blueprint that have the field."""
    matches = difflib.get_close_matches(name, fields, n=1)
    if matches:
        return f"; did you mean {matches[0]}?"
    owners = [
        path
        for spec, root in ((FormationSpec, "formation"), (MissionSpec, "mission"))
        for path in _owners(spec, root, name)
    ]
    is_certain = 0 < len(owners) <= _MAX_OWNERS
    return f"; it is a field of {' and '.join(owners)}" if is_certain else ""


def _owners(model: type[BaseModel], path: str, name: str) -> Iterator[str]:
    """Yield the paths of the objects that have a field of this name."""
    for field, below in _fields(model).items():
        if field == name:
            yield path
        if below is not None:
            yield from _owners(below, f"{path}.{field}", name)


@functools.cache
def _fields(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """Return each field in the API's spelling, with the model in it; None for plain values."""
    return {
        field.alias or name: _model_in(field.annotation)
        for name, field in model.model_fields.items()
    }


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in get_args(annotation))
    return next((model for model in models if model is not None), None)


def _joined(path: str, below: str) -> str:
    return ".".join(part for part in (path, below) if part)


def _with_prefix(path: str, problem: str) -> Violation:
    subpath, _, message = problem.partition(": ")
    return Violation(_joined(path, subpath), message)
