"""The syntax of Python files for renames: scopes, bindings, patterns and attributes."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst import metadata

from scripts import rename_map

INNER = re.compile(r"<locals>\.|<comprehension>\.")


@dataclass(frozen=True)
class SourceFile:
    """A parsed file."""

    path: Path
    module: str
    source: bytes
    wrapper: metadata.MetadataWrapper

    @property
    def scopes(self) -> list[metadata.Scope]:
        """The scopes of the file, without duplicates."""
        resolved = self.wrapper.resolve(metadata.ScopeProvider)
        return [scope for scope in dict.fromkeys(resolved.values()) if scope is not None]


class Captures(cst.CSTVisitor):
    """Collects the names that `match` binds in functions, and the attributes that methods set."""

    def __init__(self) -> None:
        self.captures: list[tuple[cst.FunctionDef, str, str]] = []
        self.attributes: list[tuple[cst.Name, str, str]] = []  # node, class, name
        self._owners: list[cst.FunctionDef | cst.ClassDef] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._owners.append(node)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._owners.pop()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._owners.append(node)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._owners.pop()

    def visit_MatchAs(self, node: cst.MatchAs) -> None:
        self._capture(node.name)

    def visit_MatchStar(self, node: cst.MatchStar) -> None:
        self._capture(node.name)

    def _capture(self, name: cst.Name | None) -> None:
        function = self._owners[-1] if self._owners else None
        if name is not None and isinstance(function, cst.FunctionDef):
            owner = ".".join(scope_node.name.value for scope_node in self._owners)
            self.captures.append((function, owner, name.value))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._attribute(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._attribute(node.target)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        targets: list[cst.BaseExpression] = [node.target]
        if isinstance(node.target, cst.Tuple):
            targets = [element.value for element in node.target.elements]
        for target in targets:
            self._attribute(target)

    def _attribute(self, target: cst.BaseExpression) -> None:
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return
        if target.value.value == "self" and len(self._owners) > 1:
            owner = ".".join(scope_node.name.value for scope_node in self._owners[:-1])
            self.attributes.append((target.attr, owner, target.attr.value))


class ParameterLists(cst.CSTVisitor):
    """Collects the strings by which `pytest.mark.parametrize` names parameters of a function."""

    def __init__(self) -> None:
        self._owners: list[str] = []
        self.strings: list[tuple[str, cst.SimpleString]] = []  # qualified function, string

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._owners.append(node.name.value)
        for decorator in node.decorators:
            call = decorator.decorator
            if (
                isinstance(call, cst.Call)
                and code_of(call.func) == rename_map.PARAMETRIZE
                and call.args
            ):
                names = call.args[0].value
                items = [names]
                if isinstance(names, cst.Tuple | cst.List):
                    items = [element.value for element in names.elements]
                self.strings += [
                    (".".join(self._owners), item)
                    for item in items
                    if isinstance(item, cst.SimpleString)
                ]

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._owners.pop()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._owners.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._owners.pop()


class EveryName(cst.CSTVisitor):
    """Collects all uses of one name as a variable."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.nodes: list[cst.Name] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        if node.value == self._name:
            self.nodes.append(node)


def functions(tree: ast.AST, owner: str = "") -> Iterator[str]:
    """Yield the qualified name of each function, including inner ones."""
    for node in ast.iter_child_nodes(tree):
        qualified = owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            qualified = f"{owner}{node.name}."
            if not isinstance(node, ast.ClassDef):
                yield qualified[:-1]
        yield from functions(node, qualified)


def class_attributes(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, str]]:
    """Yield class and name of each method, field and attribute that methods set on `self`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            qualified = f"{owner}{node.name}"
            for child in node.body:
                yield from ((qualified, name) for name in _defined(child))
            for statement in ast.walk(node):
                if isinstance(statement, ast.Attribute) and _is_set_on_self(statement):
                    yield qualified, statement.attr
            yield from class_attributes(node, f"{qualified}.")


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a class defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_set_on_self(node: ast.Attribute) -> bool:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    return owner == "self" and isinstance(node.ctx, ast.Store)


def assignments(file: SourceFile) -> Iterator[tuple[metadata.Scope, metadata.Assignment]]:
    """Yield the bindings of each scope, without the built-in names."""
    for scope in file.scopes:
        for assignment in scope.assignments:
            if assignment.scope is scope and isinstance(assignment, metadata.Assignment):
                yield scope, assignment


def key_of(module: str, assignment: metadata.BaseAssignment) -> str:
    """Return `module:Qualified.name` of an assignment."""
    names = assignment.get_qualified_names_for(assignment.name)
    return f"{module}:{INNER.sub('', next(iter(names)).name)}"


def name_node(node: cst.CSTNode) -> cst.Name | None:
    """Return the name that a node binds."""
    if isinstance(node, cst.Name):
        return node
    name = getattr(node, "name", None)
    if isinstance(name, cst.AsName):
        name = name.name
    return name if isinstance(name, cst.Name) else None


def aliases(node: cst.CSTNode) -> Sequence[cst.ImportAlias]:
    """Return the names that an import statement imports."""
    names = getattr(node, "names", ())
    return () if isinstance(names, cst.ImportStar) else names


def is_fixture(node: cst.CSTNode) -> bool:
    """Return whether a function is a pytest fixture."""
    return isinstance(node, cst.FunctionDef) and any(
        "fixture" in code_of(decorator.decorator) for decorator in node.decorators
    )


def code_of(node: cst.CSTNode) -> str:
    """Return the source of a node."""
    return cst.Module(body=[]).code_for_node(node)
