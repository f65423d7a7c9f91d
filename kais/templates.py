"""The template language: a parsed tree whose string leaves and keys may hold expressions.

Values go into the tree, never into YAML text, so no value can change the structure. Two directives
in a list's item or a mapping's value: `$if: <expression>` keeps or drops the node,
`$for: {item: name, in: <expression>}` repeats it and splices in a list. What has no value (none) is
left out.

Runs in the caller's process; the caps here bound space and steps. Time and memory are bounded by
who runs it: `progress` is told each leaf before its evaluation, so a killed worker's leaf is known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kais import template_leaves, template_limits
from kais.template_limits import Budget, CapExceeded, LeafError, TemplateFailed

__all__ = ["Budget", "LeafError", "Progress", "TemplateFailed", "check", "render"]

Progress = Callable[[str], None]
_IF, _FOR = "$if", "$for"
_DROPPED = object()


def check(
    tree: Any, names: Iterable[str], *, path: str = "", progress: Progress | None = None
) -> list[LeafError]:
    """Parse every leaf, key and directive, and list all that is wrong; nothing is evaluated."""
    return list(_Checker(progress or _nobody).node(tree, frozenset(names), path, depth=0))


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

    Several trees of one rendering share a budget. `declared` names what may be undefined: `x is
    defined` tells, and using it otherwise is an error.

    Raises:
        TemplateFailed: With every leaf that fails; a cap that is exceeded ends it at that leaf.
    """
    renderer = _Renderer(budget or Budget(), progress or _nobody, frozenset(declared))
    made = renderer.node(tree, dict(variables), path, depth=0)
    if renderer.errors:
        raise TemplateFailed(renderer.errors)
    return made


def _nobody(path: str) -> None:
    del path


class _Checker:
    """Walks one tree and parses its leaves."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def node(
        self, tree: Any, names: frozenset[str], path: str, *, depth: int, may_direct: bool = False
    ) -> Iterator[LeafError]:
        """List what is wrong in one node and below it."""
        if depth > template_limits.DEPTH:
            yield LeafError(path, "is nested too deeply")
        elif isinstance(tree, str):
            yield from self._leaf(tree, names, path)
        elif isinstance(tree, list):
            for i, item in enumerate(tree):
                yield from self.node(item, names, f"{path}[{i}]", depth=depth + 1, may_direct=True)
        elif isinstance(tree, dict):
            if not may_direct and (_IF in tree or _FOR in tree):
                words = "a directive stands in a list's item or a mapping's value only"
                yield LeafError(path, words)
            else:
                yield from self._mapping(tree, names, path, depth=depth)

    def _mapping(
        self, tree: dict[str, Any], names: frozenset[str], path: str, *, depth: int
    ) -> Iterator[LeafError]:
        if _FOR in tree:
            problems, name = self._for(tree[_FOR], names, join(path, _FOR))
            yield from problems
            names |= {name} if name else set()
        if _IF in tree:
            yield from self._condition(tree[_IF], names, join(path, _IF))
        for key, child in _members(tree):
            below = join(path, key)
            yield from self._leaf(key, names, below)
            yield from self.node(child, names, below, depth=depth + 1, may_direct=True)

    def _for(
        self, directive: Any, names: frozenset[str], path: str
    ) -> tuple[list[LeafError], str | None]:
        if not isinstance(directive, dict) or set(directive) != {"item", "in"}:
            return [LeafError(path, "must be {item: name, in: expression}")], None
        name, source = directive["item"], directive["in"]
        if not isinstance(name, str) or not name.isidentifier():
            return [LeafError(f"{path}.item", "must be a name")], None
        if name in names:
            return [LeafError(f"{path}.item", f"'{name}' is taken already; choose another")], name
        if isinstance(source, list):
            return list(self.node(source, names, f"{path}.in", depth=0)), name
        if not isinstance(source, str):
            return [LeafError(f"{path}.in", "must be an expression or a list")], name
        return self._expression(source, names, f"{path}.in"), name

    def _condition(self, source: Any, names: frozenset[str], path: str) -> list[LeafError]:
        if isinstance(source, bool):
            return []
        if not isinstance(source, str):
            return [LeafError(path, "must be an expression")]
        return self._expression(source, names, path)

    def _leaf(self, leaf: str, names: frozenset[str], path: str) -> list[LeafError]:
        if not template_leaves.is_template(leaf):
            return []
        return self._errors(template_leaves.compile_leaf, leaf, names, path)

    def _expression(self, source: str, names: frozenset[str], path: str) -> list[LeafError]:
        return self._errors(template_leaves.compile_expression, source, names, path)

    def _errors(
        self, compiler: Any, source: str, names: frozenset[str], path: str
    ) -> list[LeafError]:
        self.progress(path)
        try:
            compiler(source, path=path, names=names)
        except TemplateFailed as exc:
            return list(exc.errors)
        return []


def join(path: str, key: str) -> str:
    """Give the path of a member: `formation.cells`."""
    return f"{path}.{key}" if path else key


def _members(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((str(key), child) for key, child in tree.items() if key not in (_IF, _FOR))


class _Renderer:
    """Walks one tree, collecting the errors of its leaves."""

    def __init__(self, budget: Budget, progress: Progress, declared: frozenset[str]) -> None:
        self.budget = budget
        self.declared = declared
        self.progress = progress
        self.errors: list[LeafError] = []

    def node(self, tree: Any, scope: dict[str, Any], path: str, *, depth: int) -> Any:
        """Render one node; what is dropped or failed is `_DROPPED`."""
        try:
            self.budget.spend_node()
        except CapExceeded as exc:
            raise TemplateFailed([*self.errors, LeafError(path, str(exc))]) from exc
        if depth > template_limits.DEPTH:
            self.errors.append(LeafError(path, "is nested too deeply"))
            return _DROPPED
        if isinstance(tree, str):
            return self._leaf(tree, scope, path)
        if isinstance(tree, list):
            return self._list(tree, scope, path, depth=depth)
        if isinstance(tree, dict):
            return self._mapping(tree, scope, path, depth=depth)
        return _DROPPED if tree is None else tree

    def _list(self, tree: list[Any], scope: dict[str, Any], path: str, *, depth: int) -> list[Any]:
        made = []
        for i, item in enumerate(tree):
            below = f"{path}[{i}]"
            if isinstance(item, dict) and _FOR in item:
                made += self._repeated(item, scope, below, depth=depth)
            else:
                made.append(self._kept(item, scope, below, depth=depth + 1))
        return [item for item in made if item is not _DROPPED]

    def _mapping(
        self, tree: dict[str, Any], scope: dict[str, Any], path: str, *, depth: int
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, child in _members(tree):
            below = join(path, key)
            name = self._leaf(key, scope, below)
            if name is _DROPPED:
                continue
            if str(name) in made:
                self.errors.append(LeafError(below, f"the key '{name}' stands twice"))
            if isinstance(child, dict) and _FOR in child:
                value: Any = self._repeated(child, scope, below, depth=depth)
            else:
                value = self._kept(child, scope, below, depth=depth + 1)
            if value is not _DROPPED:
                made[str(name)] = value
        return made

    def _kept(self, tree: Any, scope: dict[str, Any], path: str, *, depth: int) -> Any:
        if isinstance(tree, dict) and _IF in tree:
            keep = self._condition(tree[_IF], scope, join(path, _IF))
            return self.node(tree, scope, path, depth=depth) if keep else _DROPPED
        return self.node(tree, scope, path, depth=depth)

    def _repeated(
        self, tree: dict[str, Any], scope: dict[str, Any], path: str, *, depth: int
    ) -> list[Any]:
        directive = tree[_FOR]
        items = self._items(directive["in"], scope, f"{path}.{_FOR}.in")
        made = []
        for item in items:
            inner = {**scope, directive["item"]: item}
            made.append(self._kept(tree, inner, path, depth=depth + 1))
        return [item for item in made if item is not _DROPPED]

    def _items(self, source: Any, scope: dict[str, Any], path: str) -> list[Any]:
        if isinstance(source, str):
            value = self._expression(source, scope, path)
        else:
            value = self.node(source, scope, path, depth=0)
        if value is _DROPPED:
            return []
        if not isinstance(value, list):
            self.errors.append(LeafError(path, f"must be a list, got {type(value).__name__}"))
            return []
        self._spend(path, len(value))
        return value

    def _condition(self, source: Any, scope: dict[str, Any], path: str) -> bool:
        if isinstance(source, bool):
            return source
        value = self._expression(source, scope, path)
        return value is not _DROPPED and bool(value)

    def _expression(self, source: str, scope: dict[str, Any], path: str) -> Any:
        return self._run(source, scope, path, compiler=template_leaves.compile_expression)

    def _leaf(self, leaf: str, scope: dict[str, Any], path: str) -> Any:
        if template_leaves.is_template(leaf):
            value = self._run(leaf, scope, path, compiler=template_leaves.compile_leaf)
            return self._counted(value, path)
        return self._counted(leaf, path)

    def _run(self, source: str, scope: dict[str, Any], path: str, *, compiler: Any) -> Any:
        self.progress(path)
        try:
            leaf = compiler(source, path=path, names=self.declared | scope.keys())
            value = template_leaves.evaluate(leaf, scope, path=path, budget=self.budget)
        except TemplateFailed as exc:
            self.errors += exc.errors
            return _DROPPED
        except CapExceeded as exc:
            raise TemplateFailed([*self.errors, LeafError(path, str(exc))]) from exc
        return _DROPPED if value is None else value

    def _counted(self, value: Any, path: str) -> Any:
        """Count what a leaf gave against the caps; text of expressions was not counted before."""
        left = [value]
        try:
            if type(value) is str:
                self.budget.spend_text(value)
                return value
            while left:
                current = left.pop()
                if isinstance(current, str):
                    self.budget.spend_text(current)
                elif isinstance(current, dict):
                    left += [*current.keys(), *current.values()]
                    self.budget.spend_node()
                elif isinstance(current, list):
                    left += current
                    self.budget.spend_node()
                elif current is not _DROPPED:
                    self.budget.spend_node()
        except CapExceeded as exc:
            raise TemplateFailed([*self.errors, LeafError(path, str(exc))]) from exc
        return value

    def _spend(self, path: str, steps: int) -> None:
        try:
            self.budget.spend_steps(steps)
        except CapExceeded as exc:
            raise TemplateFailed([*self.errors, LeafError(path, str(exc))]) from exc
