"""Counts the cost of filters, tests and methods before they run.

Templates see metered filters only, which call Jinja's through a sandbox without metering. A call
into C cannot be interrupted, so its cost is bounded by the size of its arguments. Lazy results are
materialized, so that they are counted once.
"""

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from typing import Any, Final

from jinja2 import Environment, pass_context
from jinja2.runtime import Context

from kais.templates import limits
from kais.templates.limits import Budget, Refused

BUDGET: Final = " budget"  # no expression can name it, because of the space
"""The name under which a scope contains the budget of its rendering."""

_CONSTANT: Final = frozenset(
    {
        *("abs", "count", "d", "default", "first", "float", "int", "last", "length", "round"),
        *("boolean", "defined", "divisibleby", "even", "false", "integer", "iterable", "mapping"),
        *("none", "number", "odd", "sequence", "string", "true", "undefined"),
    }
)
"""Filters and tests whose cost does not depend on the size of their input."""
_LINEAR: Final = frozenset(
    {"items", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr"}
)
"""Filters and tests that read each item once, without its members."""
_PER_CHARACTER: Final = frozenset({"join", "max", "min", "sort", "sum", "unique"})
"""Filters and tests that read a text character by character."""
_MATERIALIZED_TYPES: Final = frozenset({str, int, float, bool, list, dict, tuple, type(None)})
_SORTING: Final = frozenset({"dictsort", "sort"})


def budget_of(context: Context) -> Budget:
    """Return the budget of the rendering."""
    budget: Budget = context.parent[BUDGET]
    return budget


def metered_filters(names: Iterable[str], plain: Environment) -> dict[str, Any]:
    """Return filters that count their cost and run the filters of `plain`."""
    return {name: _metered(name, plain.call_filter) for name in names}


def metered_tests(names: Iterable[str], plain: Environment) -> dict[str, Any]:
    """Return tests that count their cost and run the tests of `plain`."""
    return {name: _metered(name, plain.call_test) for name in names}


def call(context: Context, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a method of a value and count what it costs."""
    owner = getattr(function, "__self__", None)
    _spend(budget_of(context), _operations_of(budget_of(context), owner), (args, kwargs))
    return materialize(context.call(function, *args, **kwargs))


def spend_operator(context: Context, *values: Any) -> None:
    """Count what an operator reads and writes: it copies values without reading their members."""
    sizes = (len(v) for v in values if isinstance(v, str | list | tuple))
    budget_of(context).spend_operations(1 + sum(sizes) // limits.OPERATION_CHARACTERS)


def meter_comparison(context: Context, value: Any) -> Any:
    """Count a value that is compared or hashed, with all its members."""
    if isinstance(value, str):
        if len(value) >= limits.OPERATION_CHARACTERS:
            spend_operator(context, value)
    elif isinstance(value, dict | list | tuple):
        budget = budget_of(context)
        budget.spend_operations(_operations_of(budget, value))
    return value


def materialize(value: Any) -> Any:
    """Return a list for a lazy value, whose items would be computed after the cost was counted."""
    if type(value) in _MATERIALIZED_TYPES:
        return value
    is_lazy = isinstance(value, Iterator | KeysView | ItemsView | ValuesView)
    return list(value) if is_lazy else value


def _metered(name: str, run: Callable[..., Any]) -> Any:
    is_constant = name in _CONSTANT

    @pass_context
    def metered(context: Context, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        budget = context.parent[BUDGET]
        if is_constant:
            budget.spend_operations(1)
        else:
            _spend(budget, _cost(name, value, budget), (args, kwargs))
        result = materialize(run(name, value, args, kwargs, context=context))
        if isinstance(result, str):
            budget.spend_operations(len(result) // limits.OPERATION_CHARACTERS)
        return result

    return metered


def _cost(name: str, value: Any, budget: Budget) -> int:
    size = len(value) if isinstance(value, str | dict | list | tuple) else 0
    if name in _LINEAR or (name in _PER_CHARACTER and isinstance(value, str)):
        cost = 1 + size
    else:
        cost = _operations_of(budget, value)
    return cost * max(1, size.bit_length()) if name in _SORTING else cost


def _spend(budget: Budget, cost: int, arguments: tuple[Any, Mapping[str, Any]]) -> None:
    """Count work that may be repeated for each part of the other arguments."""
    budget.spend_operations(cost)
    args, kwargs = arguments
    if args or kwargs:
        budget.spend_operations(cost * _operations_of(budget, [*args, *kwargs.values()]))


def _operations_of(budget: Budget, value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value) // limits.OPERATION_CHARACTERS
    return limits.operations_of(value, limits.OPERATIONS - budget.operations)


def check_number(value: Any, *, subject: str) -> None:
    """Check that a value is a number that arithmetic can process quickly.

    Raises:
        Refused: The value is not a number, or is too large.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{subject} takes a number")
    if isinstance(value, int) and value.bit_length() > limits.INTEGER_BITS:
        raise Refused("the number is too large")
