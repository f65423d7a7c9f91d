"""Evaluates one leaf of a template to a typed value or text, within the caps of a rendering."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from jinja2 import Template, Undefined
from jinja2.runtime import Context

from kais.templates import compiler, filters, limits
from kais.templates.compiler import CompiledLeaf
from kais.templates.limits import Budget, CapExceeded, Refused, TemplateFailed


@dataclass(frozen=True)
class Scope:
    """The variables of a leaf: values by name, and the declared names, which may have no value."""

    values: dict[str, Any]
    names: frozenset[str]

    def with_variable(self, name: str, value: Any) -> "Scope":
        """Return a scope with the item of a loop added."""
        return Scope({**self.values, name: value}, self.names | {name})


EMPTY_SCOPE = Scope({}, frozenset())


def create_scope(variables: Mapping[str, Any], declared: Iterable[str], budget: Budget) -> Scope:
    """Return the scope of a rendering; no expression can access its budget."""
    values = {
        **compiler.environment().globals,
        **variables,
        compiler.BUDGET: budget,
    }
    return Scope(values, frozenset(declared).union(variables))


def evaluate(leaf: CompiledLeaf, scope: Scope, *, path: str) -> Any:
    """Evaluate a leaf: a plain JSON value for an expression, text for anything else.

    Raises:
        TemplateFailed: The expression fails; the error names the leaf and the location in it.
        CapExceeded: The rendering exceeds its budget.
    """
    template, budget = leaf.template, scope.values[compiler.BUDGET]
    try:
        budget.spend_operations(leaf.size)
        if leaf.member and leaf.member[0] in scope.values:
            return _member(leaf.member, scope.values, budget)
        context = Context(template.environment, scope.values, None, {})
        text = _join_limited(template.root_render_func(context))
        result_name = compiler.RESULT
        return _to_json_value(context.vars[result_name], budget) if leaf.is_expression else text
    except CapExceeded:
        raise
    except Exception as exc:
        offset = _offset_of(exc.__traceback__, template) or leaf.start
        raise TemplateFailed(
            [compiler.error_at(path, leaf.source, compiler.failure_message(exc), offset)]
        ) from exc


def _to_json_value(value: Any, budget: Budget) -> Any:
    """Convert one value, which may be as large as an output, to plain JSON, and count the work."""
    if type(value) is str:
        return value
    usage = Budget()
    result = to_json_value(value, usage)
    budget.spend_operations(usage.nodes)
    return result


def _member(names: tuple[str, ...], values: Mapping[str, Any], budget: Budget) -> Any:
    """Return a member as the compiled template would, by the rules of the sandbox."""
    value = values[names[0]]
    for name in names[1:]:
        value = compiler.environment().getattr(value, name)
    return _to_json_value(value, budget)


def _join_limited(pieces: Iterable[str]) -> str:
    parts, remaining = [], limits.OUTPUT_BYTES
    for piece in pieces:
        remaining -= len(piece)
        if remaining < 0:
            raise CapExceeded(filters.TOO_LONG)
        parts.append(piece)
    return "".join(parts)


def to_json_value(value: Any, budget: Budget, *, depth: int = 0) -> Any:
    """Convert the result of an expression to plain JSON: tuples and generators become lists.

    `budget` counts this value; with shared members it may be larger than it looks.

    Raises:
        Refused: JSON cannot represent the value.
        CapExceeded: The value is too large.
    """
    if depth > limits.DEPTH:
        raise Refused("the value is nested too deeply")
    if isinstance(value, Undefined):
        str(value)  # raises for a StrictUndefined, with its name
    budget.spend_node()
    if isinstance(value, int) and value.bit_length() > limits.INTEGER_BITS:
        raise Refused("the number is too large")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {
            str(key): to_json_value(item, budget, depth=depth + 1) for key, item in value.items()
        }
    if isinstance(value, Iterable):
        return [to_json_value(item, budget, depth=depth + 1) for item in value]
    raise Refused(f"gives a {type(value).__name__}, which is not a value")


def _finite(value: float) -> float:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - true of NaN only
        raise Refused("gives no finite number")
    return value


def _offset_of(traceback: TracebackType | None, template: Template) -> int | None:
    offset = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            offset = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return offset
