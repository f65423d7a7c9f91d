"""Compares two specs of a blueprint, and reports the breaking changes.

A change is breaking if an instance with the same parameters may fail or get another result: a
parameter was removed, retyped, became required, or has another default or stricter rules. So is a
change that deletes the volume of its team, or that the volume cannot take.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kais import tree_diff
from kais.resources.blueprint import Parameter, ParameterType, TemplateSpec
from kais.resources.formation import AccessMode

_SHOWN_CHANGES = 20  # of a tree; enough to recognise an edit
_LOWER = {"min": "min", "min_length": "minLength", "min_items": "minItems"}
_UPPER = {"max": "max", "max_length": "maxLength", "max_items": "maxItems"}


@dataclass(frozen=True)
class Comparison:
    """The difference of two specs.

    Attributes:
        changes: All changes, joined by "; "; empty when the specs are equal.
        breaking: The breaking changes.
    """

    changes: str
    breaking: tuple[str, ...]


def compare(old: TemplateSpec, new: TemplateSpec) -> Comparison:
    """Return the changes from the old spec to the new one."""
    breaking, harmless = [], []
    old_parameters = {parameter.name: parameter for parameter in old.parameters}
    new_parameters = {parameter.name: parameter for parameter in new.parameters}
    for name in [*old_parameters, *(name for name in new_parameters if name not in old_parameters)]:
        broken, other_changes = _parameter(name, old_parameters.get(name), new_parameters.get(name))
        breaking += broken
        harmless += other_changes
    breaking += _workspace_breaks(old.formation, new.formation)
    changes = [*breaking, *harmless, *_other_changes(old, new)]
    return Comparison("; ".join(changes), tuple(breaking))


def _parameter(
    name: str, old: Parameter | None, new: Parameter | None
) -> tuple[list[str], list[str]]:
    subject = f"parameter '{name}'"
    if old is None and new is not None:
        added = f"{subject} was added"
        return ([f"{added} and is required"], []) if new.is_required else ([], [added])
    if new is None or old is None:
        return [f"{subject} was removed"], []
    breaking = [f"{subject} {message}" for message in _breaking_changes(old, new)]
    if not breaking and old != new:
        return [], [f"{subject} has looser rules or a new description"]
    return breaking, []


def _breaking_changes(old: Parameter, new: Parameter) -> Iterator[str]:
    if old.type != new.type:
        yield f"changed its type from {old.type} to {new.type}"
        return
    if new.is_required and not old.is_required:
        yield "became required"
    elif old.default != new.default:
        old_default, new_default = tree_diff.excerpt(old.default), tree_diff.excerpt(new.default)
        yield f"changed its default from {old_default} to {new_default}"
    if new.immutable and not old.immutable:
        yield "became immutable"
    yield from _stricter_rules(old, new)


def _stricter_rules(old: Parameter, new: Parameter) -> Iterator[str]:
    for field, rule in (_LOWER | _UPPER).items():
        old_bound, new_bound = getattr(old, field), getattr(new, field)
        if new_bound is None or new_bound == old_bound:
            continue
        if old_bound is None or (
            new_bound > old_bound if field in _LOWER else new_bound < old_bound
        ):
            change = f"{tree_diff.excerpt(new_bound)} instead of {tree_diff.excerpt(old_bound)}"
            yield f"is stricter: {rule} {change}"
    if new.pattern is not None and new.pattern != old.pattern:
        yield f"is stricter: it must match {new.pattern}"
    is_secret = new.type is ParameterType.SECRET_REF
    if is_secret and new.values is not None and old.values is None:
        listed = ", ".join(tree_diff.excerpt(value) for value in new.values)
        yield f"is stricter: its Secret must be one of {listed}"
    elif new.type is ParameterType.ENUM or (is_secret and new.values is not None):
        removed = [value for value in old.values or [] if value not in (new.values or [])]
        if removed:
            yield f"no longer takes {', '.join(tree_diff.excerpt(value) for value in removed)}"


def _workspace_breaks(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    path, before, after = "formation.workspace", old.get("workspace"), new.get("workspace")
    if before is None:
        return
    if after is None:
        yield f"{path} was removed: the volume of the team and its files are deleted"
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return
    condition = after.get("$if")
    if condition is not None and condition != before.get("$if"):
        yield (
            f"{path} depends on another condition: if it is false, the volume of the team and its"
            " files are deleted"
        )
    for field, default in (
        ("accessMode", AccessMode.READ_WRITE_ONCE.value),
        ("storageClassName", None),
    ):
        old_value, new_value = before.get(field, default), after.get(field, default)
        if new_value not in (None, old_value):
            change = f"{tree_diff.excerpt(old_value)} to {tree_diff.excerpt(new_value)}"
            yield f"{path}.{field} changed from {change}: the volume of a team cannot change that"


def _other_changes(old: TemplateSpec, new: TemplateSpec) -> Iterator[str]:
    yield from _trees("formation", old.formation, new.formation)
    if old.mission is None and new.mission is not None:
        yield "mission was added"
    elif new.mission is None and old.mission is not None:
        yield "mission was removed"
    else:
        yield from _trees("mission", old.mission, new.mission)
    if old.knowledge != new.knowledge:
        yield from _trees("knowledge", old.knowledge.to_dict(), new.knowledge.to_dict())
    if old.description != new.description:
        yield "description was changed"


def _trees(path: str, old: Any, new: Any) -> Iterator[str]:
    changes = tree_diff.diff_trees(old, new, path=path)
    yield from changes[:_SHOWN_CHANGES]
    if len(changes) > _SHOWN_CHANGES:
        yield f"and {len(changes) - _SHOWN_CHANGES} more changes of {path}"
