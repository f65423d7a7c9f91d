"""What a new spec of a blueprint changes against the one before, in words, and what of it breaks.

Breaking is what may make a use fail or mean something else that named the same parameters before: a
parameter removed, retyped, newly required, with another default, or with stricter rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kais import tree_diff
from kais.resources.blueprint import Parameter, ParameterType, TemplateSpec

_SHOWN_CHANGES = 20  # of a tree; enough to recognise an edit
_LOWER = {"min": "min", "min_length": "minLength", "min_items": "minItems"}
_UPPER = {"max": "max", "max_length": "maxLength", "max_items": "maxItems"}


@dataclass(frozen=True)
class Comparison:
    """The difference of two specs.

    Attributes:
        changes: All of it in words, joined by "; "; empty when they are equal.
        breaking: Each change that callers of the old one may break on.
    """

    changes: str
    breaking: tuple[str, ...]


def compare(old: TemplateSpec, new: TemplateSpec) -> Comparison:
    """Say what changed from the old spec to the new one."""
    breaking, harmless = [], []
    before = {parameter.name: parameter for parameter in old.parameters}
    after = {parameter.name: parameter for parameter in new.parameters}
    for name in [*before, *(name for name in after if name not in before)]:
        broken, fine = _parameter(name, before.get(name), after.get(name))
        breaking += broken
        harmless += fine
    changes = [*breaking, *harmless, *_others(old, new)]
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
    breaking = [f"{subject} {words}" for words in _broken(old, new)]
    if not breaking and old != new:
        return [], [f"{subject} has looser rules or a new description"]
    return breaking, []


def _broken(old: Parameter, new: Parameter) -> Iterator[str]:
    if old.type != new.type:
        yield f"changed its type from {old.type} to {new.type}"
        return
    if new.is_required and not old.is_required:
        yield "became required"
    elif old.default != new.default:
        before, after = tree_diff.shown(old.default), tree_diff.shown(new.default)
        yield f"changed its default from {before} to {after}"
    if new.immutable and not old.immutable:
        yield "became immutable"
    yield from _stricter(old, new)


def _stricter(old: Parameter, new: Parameter) -> Iterator[str]:
    for field, word in (_LOWER | _UPPER).items():
        before, after = getattr(old, field), getattr(new, field)
        if after is None or after == before:
            continue
        if before is None or (after > before if field in _LOWER else after < before):
            words = f"{tree_diff.shown(after)} instead of {tree_diff.shown(before)}"
            yield f"is stricter: {word} {words}"
    if new.pattern is not None and new.pattern != old.pattern:
        yield f"is stricter: it must match {new.pattern}"
    is_secret = new.type is ParameterType.SECRET_REF
    if is_secret and new.values is not None and old.values is None:
        listed = ", ".join(tree_diff.shown(value) for value in new.values)
        yield f"is stricter: its Secret must be one of {listed}"
    elif new.type is ParameterType.ENUM or (is_secret and new.values is not None):
        gone = [value for value in old.values or [] if value not in (new.values or [])]
        if gone:
            yield f"no longer takes {', '.join(tree_diff.shown(value) for value in gone)}"


def _others(old: TemplateSpec, new: TemplateSpec) -> Iterator[str]:
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
    found = tree_diff.between(old, new, path=path)
    yield from found[:_SHOWN_CHANGES]
    if len(found) > _SHOWN_CHANGES:
        yield f"and {len(found) - _SHOWN_CHANGES} more changes of {path}"
