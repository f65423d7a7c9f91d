"""A tree of the template language, prepared once and rendered many times.

Constant parts are rendered during preparation: a rendering only counts them against the caps.
Renderings share these parts and must not change them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kais.templates import compiler, evaluator, limits
from kais.templates.evaluator import Scope
from kais.templates.limits import Budget, CapExceeded, LeafError, TemplateFailed

Progress = Callable[[str], None]
IF, FOR = "$if", "$for"
LOOP = "must be {item: name, in: expression}"
SOURCE = "must be an expression or a list"
CONDITION = "must be an expression"
_DROPPED = object()


class RenderState:
    """The state of one rendering: its budget and the errors so far."""

    def __init__(self, budget: Budget, progress: Progress) -> None:
        self.budget = budget
        self.progress = progress
        self.errors: list[LeafError] = []
        self.compiled: set[Node] = set()

    def spend_node(self, path: str) -> None:
        """Count a value of the output."""
        try:
            self.budget.spend_node()
        except CapExceeded as exc:
            raise self.cap_error(path, exc) from exc

    def cap_error(self, path: str, exc: CapExceeded) -> TemplateFailed:
        """Return the error that ends a rendering at a cap."""
        return TemplateFailed([*self.errors, LeafError(path, str(exc))])

    def count_value(self, value: Any, path: str) -> Any:
        """Count the value of a leaf against the caps, including the text of an expression."""
        try:
            if type(value) is str:
                self.budget.spend_text(value)
            elif value is not _DROPPED:
                self.budget.spend_value(value)
        except CapExceeded as exc:
            raise self.cap_error(path, exc) from exc
        return value


class Node(ABC):
    """One part of a tree; `path` is its location."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def render(self, run: RenderState, scope: Scope) -> Any:
        """Return the part's value; `_DROPPED` if it is dropped or failed."""

    @property
    def is_constant(self) -> bool:
        """Whether the part neither depends on a scope nor can fail."""
        return False


class _Literal(Node):
    """A number, a boolean, or null, which is left out."""

    def __init__(self, value: Any, path: str) -> None:
        super().__init__(path)
        self._value = _DROPPED if value is None else value

    def render(self, run: RenderState, scope: Scope) -> Any:
        run.spend_node(self.path)
        return self._value

    @property
    def is_constant(self) -> bool:
        return True


class _Text(Node):
    """Text without expressions."""

    def __init__(self, text: str, path: str, *, is_key: bool = False) -> None:
        super().__init__(path)
        self._text = text
        self._is_key = is_key

    def render(self, run: RenderState, scope: Scope) -> Any:
        if not self._is_key:
            run.spend_node(self.path)
        return run.count_value(self._text, self.path)

    @property
    def is_constant(self) -> bool:
        return True


class _Expression(Node):
    """The expression of a leaf or directive; compiled on first use."""

    def __init__(self, source: str, path: str, compile_source: Any) -> None:
        super().__init__(path)
        self._source = source
        self._compiler = compile_source
        self._leaf: compiler.CompiledLeaf | None = None

    def render(self, run: RenderState, scope: Scope) -> Any:
        run.progress(self.path)
        try:
            leaf = self._compiled(run, scope)
            value = evaluator.evaluate(leaf, scope, path=self.path)
        except TemplateFailed as exc:
            run.errors += exc.errors
            return _DROPPED
        except CapExceeded as exc:
            raise run.cap_error(self.path, exc) from exc
        return _DROPPED if value is None else value

    def _compiled(self, run: RenderState, scope: Scope) -> compiler.CompiledLeaf:
        """Compile the expression once, and count the cost in each rendering."""
        leaf = self._leaf or self._compiler(self._source, path=self.path, names=scope.names)
        self._leaf = leaf
        if not leaf.names.keys() <= scope.names:
            compiler.require_names(leaf, path=self.path, names=scope.names)
        if self not in run.compiled:
            run.compiled.add(self)
            run.budget.spend_compiling(leaf.size)
        return leaf


class _Leaf(_Expression):
    """Text with expressions, in a value or a key."""

    def __init__(self, source: str, path: str, *, is_key: bool = False) -> None:
        super().__init__(source, path, compiler.compile_leaf)
        self._is_key = is_key

    def render(self, run: RenderState, scope: Scope) -> Any:
        if not self._is_key:
            run.spend_node(self.path)
        return run.count_value(super().render(run, scope), self.path)


class _Invalid(Node):
    """A part that can never be rendered."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(path)
        self._message = message

    def render(self, run: RenderState, scope: Scope) -> Any:
        run.spend_node(self.path)
        run.errors.append(LeafError(self.path, self._message))
        return _DROPPED


class _List(Node):
    """A list, whose loops are spliced in."""

    def __init__(self, items: list[Node], path: str) -> None:
        super().__init__(path)
        self._items = items

    def render(self, run: RenderState, scope: Scope) -> Any:
        run.spend_node(self.path)
        result: list[Any] = []
        for item in self._items:
            value = item.render(run, scope)
            if isinstance(item, _For):
                result += value
            elif value is not _DROPPED:
                result.append(value)
        return result

    @property
    def is_constant(self) -> bool:
        return all(item.is_constant for item in self._items)


class _Mapping(Node):
    """A mapping, whose keys may be templates."""

    def __init__(self, members: list[tuple[Node, Node]], path: str) -> None:
        super().__init__(path)
        self._members = members

    def render(self, run: RenderState, scope: Scope) -> Any:
        run.spend_node(self.path)
        result: dict[str, Any] = {}
        for key, child in self._members:
            name = key.render(run, scope)
            if name is _DROPPED:
                continue
            if str(name) in result:
                run.errors.append(LeafError(key.path, f"the key '{name}' is a duplicate"))
            value = child.render(run, scope)
            if value is not _DROPPED:
                result[str(name)] = value
        return result

    @property
    def is_constant(self) -> bool:
        return all(key.is_constant and child.is_constant for key, child in self._members)


class _If(Node):
    """A node that a directive keeps or drops."""

    def __init__(self, condition: Node | bool, node: Node, path: str) -> None:
        super().__init__(path)
        self._condition = condition
        self._node = node

    def render(self, run: RenderState, scope: Scope) -> Any:
        condition = self._condition
        condition = condition.render(run, scope) if isinstance(condition, Node) else condition
        return (
            self._node.render(run, scope) if condition is not _DROPPED and condition else _DROPPED
        )


class _For(Node):
    """A node that a directive repeats."""

    def __init__(self, name: str, source: Node, node: Node, path: str, *, size: int) -> None:
        super().__init__(path)
        self._name = name
        self._size = size
        self._source = source
        self._node = node

    def render(self, run: RenderState, scope: Scope) -> list[Any]:
        result = []
        for item in self._items(run, scope):
            value = self._node.render(run, scope.with_variable(self._name, item))
            if value is not _DROPPED:
                result.append(value)
        return result

    def _items(self, run: RenderState, scope: Scope) -> list[Any]:
        value, path = self._source.render(run, scope), self._source.path
        if value is _DROPPED:
            return []
        if not isinstance(value, list):
            run.errors.append(LeafError(path, f"must be a list, got {type(value).__name__}"))
            return []
        try:
            run.budget.spend_steps(len(value))
            run.budget.spend_operations(len(value) * self._size)
        except CapExceeded as exc:
            raise run.cap_error(path, exc) from exc
        return value


class _Constant(Node):
    """A part that is the same in every rendering, with its cost."""

    def __init__(self, node: Node, value: Any, usage: Budget) -> None:
        super().__init__(node.path)
        self._node = node
        self._value = value
        self._used = usage

    def render(self, run: RenderState, scope: Scope) -> Any:
        if run.budget.merge_if_room(self._used):
            return self._value
        return self._node.render(run, scope)  # the node reports where the cap is exceeded

    @property
    def is_constant(self) -> bool:
        return True


@dataclass(frozen=True)
class Program:
    """A prepared tree."""

    _root: Node

    def render(
        self,
        variables: Mapping[str, Any],
        *,
        declared: Iterable[str] = (),
        budget: Budget | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Render to plain JSON, as `templates.render` does."""
        budget_used = budget or Budget()
        run = RenderState(budget_used, progress or no_progress)
        result = self._root.render(run, evaluator.create_scope(variables, declared, budget_used))
        if run.errors:
            raise TemplateFailed(run.errors)
        return result


def prepare(tree: Any, *, path: str = "") -> Program:
    """Prepare a tree. Nothing is parsed or evaluated yet, so no errors are raised."""
    return Program(_node(tree, path, depth=0))


def no_progress(_: str) -> None:
    """Ignore the progress."""


def _node(tree: Any, path: str, *, depth: int) -> Node:
    if depth > limits.DEPTH:
        return _Invalid("is nested too deeply", path)
    if isinstance(tree, str):
        node: Node = _Leaf(tree, path) if compiler.is_template(tree) else _Text(tree, path)
    elif isinstance(tree, list):
        node = _List([_item(item, f"{path}[{i}]", depth) for i, item in enumerate(tree)], path)
    elif isinstance(tree, dict):
        node = _Mapping(
            [
                (_key(key, join(path, key)), _item(child, join(path, key), depth))
                for key, child in members(tree)
            ],
            path,
        )
    else:
        node = _Literal(tree, path)
    return _fold_constant(node)


def _fold_constant(node: Node) -> Node:
    if not node.is_constant:
        return node
    run = RenderState(Budget(), no_progress)
    try:
        value = node.render(run, evaluator.EMPTY_SCOPE)
    except TemplateFailed:
        return node
    return node if run.errors else _Constant(node, value, run.budget)


def _key(key: str, path: str) -> Node:
    is_leaf = compiler.is_template(key)
    return (
        _Leaf(key, path, is_key=True) if is_leaf else _fold_constant(_Text(key, path, is_key=True))
    )


def _item(tree: Any, path: str, depth: int) -> Node:
    """Return a node for an item of a list or a mapping, which may have directives."""
    if not (isinstance(tree, dict) and FOR in tree):
        return _conditional(tree, path, depth=depth + 1)
    directive = tree[FOR]
    if not isinstance(directive, dict) or not isinstance(directive.get("item"), str):
        return _Invalid(LOOP, join(path, FOR))
    if not isinstance(directive.get("in"), str | list):
        return _Invalid(SOURCE, f"{path}.{FOR}.in")
    below = f"{path}.{FOR}.in"
    listed = directive["in"]
    source = (
        _Expression(listed, below, compiler.compile_expression)
        if isinstance(listed, str)
        else _node(listed, below, depth=0)
    )
    node = _conditional(tree, path, depth=depth + 1)
    return _For(directive["item"], source, node, path, size=_size(tree))


def _size(tree: Any, depth: int = 0) -> int:
    """Count the parts of a tree down to the maximum depth, including parts that are dropped."""
    if depth > limits.DEPTH:
        return 1
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(_size(part, depth + 1) for part in parts)


def _conditional(tree: Any, path: str, *, depth: int) -> Node:
    node = _node(tree, path, depth=depth)
    if not (isinstance(tree, dict) and IF in tree):
        return node
    condition = tree[IF]
    if not isinstance(condition, str | bool):
        return _Invalid(CONDITION, join(path, IF))
    if isinstance(condition, str):
        below = join(path, IF)
        condition = _Expression(condition, below, compiler.compile_expression)
    return _If(condition, node, path)


def join(path: str, key: str) -> str:
    """Return the path of a member: `formation.cells`."""
    return f"{path}.{key}" if path else key


def members(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the members of a mapping without its directives."""
    return ((str(key), child) for key, child in tree.items() if key not in (IF, FOR))
