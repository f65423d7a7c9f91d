"""Compiles leaves: parses their text and rejects what the template language does not allow.

A leaf that is exactly one `{{ expression }}` yields that value with its type; any other is text.
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, Template, meta, nodes, pass_context
from jinja2.exceptions import TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

from kais import parameter_rules
from kais.templates import limits, metering, sandbox
from kais.templates.limits import LeafError, Refused, TemplateFailed

RESULT = "result"
"""The name under which an expression stores its value."""
BUDGET = metering.BUDGET
_COUNT, _CONCAT, _WEIGHED, _COPIED = " count", " concat", " weighed", " copied"
_DELIMITER = re.compile(r"{[{%#]")
_FORBIDDEN: Mapping[type[nodes.Node], str] = {
    nodes.AssignBlock: "set without =",
    nodes.Block: "block",
    nodes.CallBlock: "call",
    nodes.Extends: "extends",
    nodes.FilterBlock: "filter",
    nodes.FromImport: "from",
    nodes.Import: "import",
    nodes.Include: "include",
    nodes.Macro: "macro",
}


def is_template(leaf: str) -> bool:
    """Whether a text contains anything to evaluate."""
    return "{" in leaf and _DELIMITER.search(leaf) is not None


@dataclass(frozen=True)
class CompiledLeaf:
    """One compiled leaf.

    Attributes:
        source: The text in the template.
        names: The external names that it uses, each with the offset of its first use.
        start: Offset of the expression, or 1.
        is_expression: Whether it yields a typed value.
        member: The name and attributes, if the expression consists of nothing else; else empty.
        size: The number of nodes of its syntax tree.
    """

    source: str
    names: Mapping[str, int]
    start: int
    is_expression: bool
    template: Template
    member: tuple[str, ...] = ()
    size: int = 1


def compile_leaf(source: str, *, path: str, names: Set[str]) -> CompiledLeaf:
    """Parse a leaf and check every name in it.

    Raises:
        TemplateFailed: The leaf does not parse, or uses a name that is not in `names`.
    """
    leaf = _compile_with_location(_compiled, source, path)
    require_names(leaf, path=path, names=names)
    return leaf


def require_names(leaf: CompiledLeaf, *, path: str, names: Set[str]) -> None:
    """Check every name in a leaf.

    Raises:
        TemplateFailed: The leaf uses a name that is not in `names`.
    """
    if leaf.names.keys() <= names:
        return
    available = sorted(names)
    unknown = sorted((at, name) for name, at in leaf.names.items() if name not in names)
    raise TemplateFailed(
        [error_at(path, leaf.source, _undeclared(name, available), at) for at, name in unknown]
    )


def nodes_of_failed(source: str) -> int:
    """Estimate how many nodes were parsed of a leaf that does not compile."""
    return len(source) // limits.OPERATION_CHARACTERS


def compile_expression(source: str, *, path: str, names: Set[str]) -> CompiledLeaf:
    """Compile the expression of a directive, with or without braces.

    Raises:
        TemplateFailed: It is not a single expression, or uses an unknown name.
    """
    leaf = compile_leaf(braced(source), path=path, names=names)
    if not leaf.is_expression:
        raise TemplateFailed([LeafError(path, "must be one expression")])
    return leaf


def braced(source: str) -> str:
    """Return a directive's expression as a leaf, with braces."""
    return (source if is_template(source) else f"{{{{ {source} }}}}").strip()


def names_in(source: str) -> frozenset[str]:
    """Return the external names that a leaf uses.

    Raises:
        TemplateFailed: The leaf does not parse.
    """
    return frozenset(_compile_with_location(_compiled, source, "").names)


def error_at(path: str, source: str, message: str, offset: int | None) -> LeafError:
    """Return an error with line and column, if the offset is known."""
    if offset is None:
        return LeafError(path, message)
    line, column = sandbox.line_and_column(source, offset)
    return LeafError(path, message, line=line, column=column)


_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_OPEN = re.compile(r"end of template.*'end of (print statement|statement block)'")


def _unclosed(source: str, message: str) -> tuple[str, int] | None:
    """Return the message and the offset of an expression that is not closed; None for others."""
    match = _OPEN.search(message)
    if match is None:
        return None
    begin, end = ("{{", "}}") if match[1] == "print statement" else ("{%", "%}")
    return f"the expression that begins here is not closed; end it with {end}", source.rfind(
        begin
    ) + 1


def failure_message(exc: BaseException) -> str:
    """Return a short message for a failure."""
    if isinstance(exc, RecursionError):
        return "is nested too deeply"
    if isinstance(exc, MemoryError):
        return "needs too much memory"
    text = str(getattr(exc, "message", None) or str(exc) or type(exc).__name__)
    match = _UNDEFINED.fullmatch(text) if isinstance(exc, UndefinedError) else None
    if match is not None:  # the compiler reported names that are not declared
        name = match[1]
        return (
            f"'{name}' has no value: it is optional and has no default; test it with"
            f" `{name} is defined`, or write `{name} | default(...)`"
        )
    return text[:500]


class _MeteringTransformer(NodeTransformer):
    """Adds metering to loops, comparisons, slices, keys and the operator `~`."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the visitor's own spelling
        body_nodes = nodes.Const(_size(node), lineno=node.lineno, environment=self.environment)
        self.generic_visit(node)
        node.iter = self._filtered(node.iter, _COUNT, body_nodes)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the visitor's spelling
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno, environment=self.environment)
        return self._filtered(parts, _CONCAT)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        node.expr = self._weighed(node.expr)
        for operand in node.ops:
            operand.expr = self._weighed(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):  # compiled without a call of the sandbox
            node.node = self._filtered(node.node, _COPIED)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        node.key = self._weighed(node.key)
        return node

    def _weighed(self, node: nodes.Expr) -> nodes.Expr:
        return node if isinstance(node, nodes.Const) else self._filtered(node, _WEIGHED)

    def _filtered(self, node: nodes.Node, name: str, *args: nodes.Node) -> nodes.Filter:
        at = {"lineno": node.lineno, "environment": self.environment}
        return nodes.Filter(node, name, list(args), [], None, None, **at)


@pass_context
def _counted(context: Context, items: Iterable[Any], body_nodes: int = 0) -> list[Any]:
    listed = list(items)
    budget = metering.budget_of(context)
    budget.spend_steps(len(listed))
    budget.spend_operations(len(listed) * body_nodes)
    return listed


@pass_context
def _copied(context: Context, value: Any) -> Any:
    metering.spend_operator(context, value)
    return value


@functools.cache
def environment() -> sandbox.Sandbox:
    """Return the sandbox in which all leaves are compiled and run."""
    sandbox_environment = sandbox.Sandbox()
    sandbox_environment.filters |= {
        _COUNT: _counted,
        _COPIED: _copied,
        _CONCAT: sandbox_environment.filters["join"],
        _WEIGHED: pass_context(metering.meter_comparison),
    }
    return sandbox_environment


@functools.lru_cache(maxsize=512)  # an arbitrary size: the leaves of some dozens of blueprints
def _compiled(source: str) -> CompiledLeaf:
    if len(source) > limits.LEAF_CHARACTERS:
        raise Refused(f"is longer than {limits.LEAF_CHARACTERS:,} characters")
    sandbox = environment()
    tree = sandbox.parse(source)
    _check_nodes(tree)
    names = meta.find_undeclared_variables(tree) - set(sandbox.globals)
    size = _size(tree)
    offsets = {name: _first_use(source, tree, name) for name in names}
    expression = _only_expression(tree)
    start = 1 if expression is None else expression.lineno
    if expression is not None:
        assign = nodes.Assign(nodes.Name(RESULT, "store", lineno=1), expression, lineno=start)
        tree = nodes.Template([assign], lineno=1)
        tree.set_environment(sandbox)
    _MeteringTransformer(sandbox).visit(tree)
    template = sandbox.from_string(tree)
    return CompiledLeaf(
        source, offsets, start, expression is not None, template, _member_of(expression), size
    )


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = tree.body[0].nodes
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData) else None


def _member_of(expression: nodes.Expr | None) -> tuple[str, ...]:
    """Return the name and attributes that an expression consists of; empty for any other."""
    attributes: list[str] = []
    while isinstance(expression, nodes.Getattr):
        attributes.append(expression.attr)
        expression = expression.node
    if not isinstance(expression, nodes.Name):
        return ()
    return (expression.name, *reversed(attributes))


def _check_nodes(tree: nodes.Template) -> None:
    for node in _walk(tree):
        keyword = _FORBIDDEN.get(type(node))
        if isinstance(node, nodes.Name) and node.name == "self":
            keyword = "self"
        if keyword is None and isinstance(node, nodes.For) and node.recursive:
            keyword = "recursive"
        if keyword is not None:
            raise TemplateSyntaxError(
                f"'{keyword}' is not part of the template language", node.lineno
            )
        if isinstance(node, nodes.Filter | nodes.Test):
            _require_allowed(node)
        if isinstance(node, nodes.Const):
            _require_json(node)


def _require_json(node: nodes.Const) -> None:
    """Refuse a constant that JSON cannot hold, which no later step may write or name."""
    if isinstance(node.value, float) and math.isinf(node.value):
        raise TemplateSyntaxError("the number is too large", node.lineno)
    if isinstance(node.value, str) and not _is_unicode(node.value):
        raise TemplateSyntaxError(
            "a text has half a surrogate pair; write the character itself, or its escape with \\U"
            " and eight digits",
            node.lineno,
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_allowed(node: nodes.Filter | nodes.Test) -> None:
    is_filter = isinstance(node, nodes.Filter)
    allowed = environment().filters if is_filter else environment().tests
    if node.name not in allowed or node.name.startswith(" "):
        noun = "filter" if is_filter else "test"
        suggestions = sorted(name for name in allowed if name.isidentifier())
        hint = parameter_rules.did_you_mean(node.name, suggestions, noun="available:")
        raise TemplateSyntaxError(f"there is no {noun} '{node.name}'; {hint}", node.lineno)


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _size(tree: nodes.Node) -> int:
    return sum(1 for _ in _walk(tree))


def _first_use(source: str, tree: nodes.Template, name: str) -> int:
    """Return the offset of a name's first use; some nodes have only that of their statement."""
    uses = [n.lineno for n in tree.find_all(nodes.Name) if n.name == name and n.ctx == "load"]
    start = min(uses, default=1) - 1
    match = re.compile(rf"\b{re.escape(name)}\b").search(source, start)
    return (match.start() if match else start) + 1


def _compile_with_location(compile_source: Any, source: str, path: str) -> CompiledLeaf:
    try:
        leaf: CompiledLeaf = compile_source(source)
    except sandbox.LexError as exc:
        raise TemplateFailed([error_at(path, source, str(exc), exc.offset)]) from exc
    except TemplateSyntaxError as exc:
        message = exc.message or ""
        message, offset = _unclosed(source, message) or (message, exc.lineno)
        raise TemplateFailed([error_at(path, source, message, offset)]) from exc
    except RecursionError as exc:
        raise TemplateFailed([LeafError(path, "is nested too deeply")]) from exc
    except (TemplateError, Refused, ValueError, SyntaxError, MemoryError) as exc:
        raise TemplateFailed([LeafError(path, failure_message(exc))]) from exc
    return leaf


def _undeclared(name: str, available: list[str]) -> str:
    hint = parameter_rules.did_you_mean(name, available)
    listed = f"declared: {', '.join(available)}"
    return f"'{name}' is not declared; {hint if hint == listed else f'{hint} {listed}'}"
