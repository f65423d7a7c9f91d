"""The template language: a parsed tree whose string leaves and keys may hold expressions.

Values go into the tree, never into YAML text, so no value can change the structure. Two directives
in a list's item or a mapping's value: `$if: <expression>` keeps or drops the node,
`$for: {item: name, in: <expression>}` repeats it and splices in a list. What has no value (none) is
left out.

Runs in the process of the caller, with caps on output and steps. The caller bounds time and memory:
`progress` is called with each leaf before it is evaluated, so that the leaf at which a worker was
killed is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kais.templates import compiler, limits, nodes
from kais.templates.compiler import is_template
from kais.templates.limits import Budget, CapExceeded, LeafError, TemplateFailed
from kais.templates.nodes import FOR, IF, Progress, join, members, no_progress

__all__ = ["Budget", "LeafError", "Progress", "TemplateFailed", "check", "is_template", "render"]


def check(
    tree: Any,
    names: Iterable[str],
    *,
    path: str = "",
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> list[LeafError]:
    """Parse every leaf, key and directive, and return all errors; nothing is evaluated.

    The trees of one template share a budget; exceeding a cap ends the list.
    """
    errors: list[LeafError] = []
    checker = _Checker(progress or no_progress, budget or Budget())
    try:
        for error in checker.node(tree, frozenset(names), path, depth=0):
            errors.append(error)  # noqa: PERF402 - what was found before a cap is kept
    except TemplateFailed as exc:
        errors += exc.errors
    return errors


def render(
    tree: Any,
    variables: Mapping[str, Any],
    *,
    path: str = "",
    declared: Iterable[str] = (),
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Any:
    """Render a tree to plain JSON.

    The trees of one rendering share a budget. `declared` lists names that may have no value: test
    them with `x is defined`; any other use of them is an error.

    Raises:
        TemplateFailed: With every leaf that fails; exceeding a cap ends the rendering.
    """
    program = nodes.prepare(tree, path=path)
    return program.render(variables, declared=declared, budget=budget, progress=progress)


_BRANCHES = ("$then", "$else", "$elif")
_NO_BRANCH = (
    "does not exist: $if keeps or drops the fields beside it; write the other case with an $if of"
    " its own, or as {{ a if condition else b }}"
)


class _Checker:
    """Walks one tree and parses its leaves."""

    def __init__(self, progress: Progress, budget: Budget) -> None:
        self.progress = progress
        self.budget = budget

    def node(
        self, tree: Any, names: frozenset[str], path: str, *, depth: int, may_direct: bool = False
    ) -> Iterator[LeafError]:
        """Yield the errors in one node and below it."""
        if depth > limits.DEPTH:
            yield LeafError(path, "is nested too deeply")
        elif isinstance(tree, str):
            yield from self._leaf(tree, names, path)
        elif isinstance(tree, list):
            for i, item in enumerate(tree):
                yield from self.node(item, names, f"{path}[{i}]", depth=depth + 1, may_direct=True)
        elif isinstance(tree, dict):
            if not may_direct and (IF in tree or FOR in tree):
                message = "a directive must be an item of a list or a value of a mapping"
                yield LeafError(path, message)
            else:
                yield from self._mapping(tree, names, path, depth=depth)

    def _mapping(
        self, tree: dict[str, Any], names: frozenset[str], path: str, *, depth: int
    ) -> Iterator[LeafError]:
        if FOR in tree:
            problems, name = self._for(tree[FOR], names, join(path, FOR))
            yield from problems
            names |= {name} if name else set()
        if IF in tree:
            yield from self._condition(tree[IF], names, join(path, IF))
            yield from (LeafError(join(path, key), _NO_BRANCH) for key in _BRANCHES if key in tree)
        for key, child in members(tree):
            below = join(path, key)
            yield from self._leaf(key, names, below)
            yield from self.node(child, names, below, depth=depth + 1, may_direct=True)

    def _for(
        self, directive: Any, names: frozenset[str], path: str
    ) -> tuple[list[LeafError], str | None]:
        if not isinstance(directive, dict) or set(directive) != {"item", "in"}:
            return [LeafError(path, nodes.LOOP)], None
        name, source = directive["item"], directive["in"]
        if not isinstance(name, str) or not name.isidentifier():
            return [LeafError(f"{path}.item", "must be a name")], None
        if name in names:
            return [LeafError(f"{path}.item", f"'{name}' is already in use; choose another")], name
        if isinstance(source, list):
            return list(self.node(source, names, f"{path}.in", depth=0)), name
        if not isinstance(source, str):
            return [LeafError(f"{path}.in", nodes.SOURCE)], name
        return self._expression(source, names, f"{path}.in"), name

    def _condition(self, source: Any, names: frozenset[str], path: str) -> list[LeafError]:
        if isinstance(source, bool):
            return []
        if not isinstance(source, str):
            return [LeafError(path, nodes.CONDITION)]
        return self._expression(source, names, path)

    def _leaf(self, leaf: str, names: frozenset[str], path: str) -> list[LeafError]:
        if not compiler.is_template(leaf):
            return []
        return self._errors(compiler.compile_leaf, leaf, names, path)

    def _expression(self, source: str, names: frozenset[str], path: str) -> list[LeafError]:
        return self._errors(compiler.compile_expression, source, names, path)

    def _errors(
        self, compile_source: Any, source: str, names: frozenset[str], path: str
    ) -> list[LeafError]:
        self.progress(path)
        errors: list[LeafError] = []
        try:
            size = compile_source(source, path=path, names=names).size
        except TemplateFailed as exc:
            errors += exc.errors
            size = compiler.nodes_of_failed(source)
        try:
            self.budget.spend_compiling(size)
        except CapExceeded as exc:
            raise TemplateFailed([*errors, LeafError(path, str(exc))]) from exc
        return errors
