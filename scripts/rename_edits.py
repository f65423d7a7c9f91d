"""Collects the edits of one file for a map of renames."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst import metadata

from scripts import rename_syntax

if TYPE_CHECKING:
    from scripts.rename import Renamer

Edits = dict[tuple[int, int], str]  # byte offset and length -> new text


@dataclass
class FileEdits:
    """Collects the edits of one file."""

    renamer: Renamer
    file: rename_syntax.SourceFile
    edits: Edits
    problems: list[str]

    def collect_bound(self) -> None:
        """Collect the edits of names that scopes resolve."""
        self.spans = self.file.wrapper.resolve(metadata.ByteSpanPositionProvider)
        self.positions = self.file.wrapper.resolve(metadata.PositionProvider)
        self.names = self.renamer.map.names
        for scope, assignment in rename_syntax.assignments(self.file):
            if isinstance(assignment, metadata.ImportAssignment):
                self._import(scope, assignment)
            else:
                self._assignment(scope, assignment)
        self._captures()
        self._parameter_lists()

    def collect_used(self) -> None:
        """Collect the edits of attributes, keyword arguments and import statements."""
        self.file.wrapper.module.visit(_Uses(self))
        if self.renamer.map.modules:
            self.file.wrapper.module.visit(_ImportStatements(self))

    def replace(self, node: cst.CSTNode, new: str) -> None:
        """Record the new text of a node."""
        span = self.spans[node]
        self.edits[span.start, span.length] = new

    def _assignment(self, scope: metadata.Scope, assignment: metadata.Assignment) -> None:
        key = rename_syntax.key_of(self.file.module, assignment)
        if key not in self.names and isinstance(assignment.node, cst.Param):
            key = self.renamer.fixture(self.file.path, assignment.name)
        new = self.names.get(key)
        if new is None:
            return
        self._require_free(scope, assignment, new)
        node = rename_syntax.name_node(assignment.node)
        if node is not None:
            self.replace(node, new)
        self._references(assignment, new)

    def _references(self, assignment: metadata.BaseAssignment, new: str) -> None:
        for access in assignment.references:
            node: cst.CSTNode = access.node
            while isinstance(node, cst.Attribute):
                node = node.value
            if isinstance(node, cst.Name) and node.value == assignment.name:
                self.replace(node, new)

    def _require_free(
        self, scope: metadata.Scope, assignment: metadata.Assignment, new: str
    ) -> None:
        """Record a problem if the new name already has a meaning in the scope of the old one."""
        if self.is_taken(scope, assignment, new):
            line = self.positions[
                rename_syntax.name_node(assignment.node) or assignment.node
            ].start.line
            self.problems.append(
                f"{self.file.path}:{line}: {assignment.name} -> {new}: {new} is taken"
            )

    def is_taken(
        self, scope: metadata.Scope, assignment: metadata.BaseAssignment, new: str
    ) -> bool:
        """Return whether a name is bound or used in a scope of an assignment or its references."""
        scopes = {scope} | {access.scope for access in assignment.references}
        for reachable_scope in list(scopes):
            while reachable_scope is not scope and not isinstance(
                reachable_scope, metadata.GlobalScope
            ):
                scopes.add(reachable_scope)
                reachable_scope = reachable_scope.parent  # noqa: PLW2901 (walks up to the scope of the definition)
        return any(self._binds(reachable_scope, new, assignment.name) for reachable_scope in scopes)

    def _binds(self, scope: metadata.Scope, new: str, old: str) -> bool:
        bound = [
            candidate
            for candidate in scope.assignments
            if candidate.name == new and candidate.scope is scope
        ]
        if any(not self._goes_away(candidate, old) for candidate in bound):
            return True
        accesses = [
            candidate
            for candidate in scope.accesses
            if getattr(candidate.node, "value", None) == new
        ]
        return any(
            not candidate.referents
            or any(not self._goes_away(referent, old) for referent in candidate.referents)
            for candidate in accesses
            if isinstance(candidate.node, cst.Name)
        )

    def _goes_away(self, assignment: metadata.BaseAssignment, old: str) -> bool:
        """Return whether an assignment is itself renamed."""
        if isinstance(assignment, metadata.ImportAssignment | metadata.BuiltinAssignment):
            if isinstance(assignment, metadata.BuiltinAssignment):
                return False
            dotted = next(iter(assignment.get_qualified_names_for(assignment.name))).name
            return (
                self.renamer.origin(dotted) in self.names or dotted in self.renamer.map.modules
            ) and assignment.name != old
        if not isinstance(assignment, metadata.Assignment):
            return False
        return rename_syntax.key_of(self.file.module, assignment) in self.names

    def _import(self, scope: metadata.Scope, assignment: metadata.ImportAssignment) -> None:
        dotted = next(iter(assignment.get_qualified_names_for(assignment.name))).name
        moved = self.renamer.map.modules.get(dotted)
        if moved is not None and assignment.name == dotted.rpartition(".")[2]:
            self._references(assignment, self.local_name(scope, assignment, moved))
            return
        key = self.renamer.origin(dotted)
        new = self.names.get(key)
        if new is None:
            return
        for alias in rename_syntax.aliases(assignment.node):
            name = alias.name
            if not isinstance(name, cst.Name) or name.value != key.rpartition(":")[2]:
                continue
            self.replace(name, new)
            if alias.asname is None:
                self._require_free(scope, assignment, new)
                self._references(assignment, new)

    def local_name(
        self, scope: metadata.Scope, assignment: metadata.ImportAssignment, moved: str
    ) -> str:
        """Return the name under which a moved module is imported: with its package if ambiguous."""
        parent, _, leaf = moved.rpartition(".")
        if leaf == assignment.name or not self.is_taken(scope, assignment, leaf):
            return leaf
        return f"{parent.rpartition('.')[2]}_{leaf}"

    def _captures(self) -> None:
        """Rename the names that patterns bind, which libcst's scopes omit."""
        collector = rename_syntax.Captures()
        self.file.wrapper.module.visit(collector)
        for function, owner, name in collector.captures:
            new = self.names.get(f"{self.file.module}:{owner}.{name}")
            if new is not None:
                occurrences = rename_syntax.EveryName(name)
                function.visit(occurrences)
                for node in occurrences.nodes:
                    self.replace(node, new)

    def _parameter_lists(self) -> None:
        """Rename parameters in the strings of `pytest.mark.parametrize`."""
        collector = rename_syntax.ParameterLists()
        self.file.wrapper.module.visit(collector)
        for owner, string in collector.strings:
            prefix = f"{self.file.module}:{owner}."
            new = string.value
            for key in self.names:
                if key.startswith(prefix):
                    name = key.removeprefix(prefix)
                    new = re.sub(rf"\b{re.escape(name)}\b", self.names[key], new)
            if new != string.value:
                self.replace(string, new)

    def attribute(self, node: cst.Name, position: cst.CSTNode) -> None:
        """Rename an attribute by the definition that jedi infers; report it if there is none."""
        if not self.renamer.is_attribute(node.value):
            return
        start = self.positions[node].start
        keys = list(self.renamer.definitions(self.file.path, start.line, start.column))
        for key in keys:
            if key in self.names:
                self.replace(node, self.names[key])
                return
        if not keys:
            code = self.file.wrapper.module.code_for_node(position)
            self.renamer.unresolved.append(f"{self.file.path}:{start.line}: {code.strip()[:80]}")

    def keyword(self, call: cst.Call, keyword: cst.Name) -> None:
        """Rename a keyword argument by the function or class that is called."""
        if keyword.value not in self.renamer.map.leaves:
            return
        callees = list(self._dotted(call.func))
        if "dataclasses.replace" in callees:
            end = self.positions[call.args[0].value].end
            callees += self.renamer.classes(self.file.path, end.line, end.column - 1)
        if any(self._rename_keyword(self.renamer.origin(callee), keyword) for callee in callees):
            return
        start = self.positions[keyword].start
        for key in self.renamer.definitions(self.file.path, start.line, start.column):
            if key in self.names:
                self.replace(keyword, self.names[key])
                return

    def pattern(self, node: cst.MatchClass, element: cst.MatchKeywordElement) -> None:
        """Rename an attribute in a pattern by the class that the pattern names."""
        if element.key.value not in self.renamer.map.leaves:
            return
        name = element.key.value
        keys = {
            f"{self.renamer.origin(definition)}.{name}" for definition in self._dotted(node.cls)
        }
        for key in keys & self.names.keys():
            self.replace(element.key, self.names[key])
            return
        if not keys & self.renamer.attributes:
            self.attribute(element.key, element)

    def _rename_keyword(self, key: str, keyword: cst.Name) -> bool:
        for owner in (key, f"{key}.__init__"):
            new = self.names.get(f"{owner}.{keyword.value}")
            if new is not None:
                self.replace(keyword, new)
                return True
        return False

    def _dotted(self, node: cst.CSTNode) -> Iterable[str]:
        qualified = self.file.wrapper.resolve(metadata.QualifiedNameProvider)
        dotted = qualified.get(node, set())
        resolved = dotted() if callable(dotted) else dotted
        for name in resolved:
            if name.source is metadata.QualifiedNameSource.LOCAL:
                yield f"{self.file.module}.{rename_syntax.INNER.sub('', name.name)}"
            else:
                yield name.name

    def use(self, node: cst.Attribute) -> None:
        """Rename the last part of `owner.name`."""
        if node.attr.value not in self.renamer.map.leaves:
            return
        for dotted in self._dotted(node):
            key = self.renamer.origin(dotted)
            if key in self.names:
                self.replace(node.attr, self.names[key])
                return
        for dotted in self._dotted(node.value):
            if self.renamer.origin(dotted).endswith(":"):
                return  # the name of another module
        self.attribute(node.attr, node)


class _Uses(cst.CSTVisitor):
    """Passes attributes and keyword arguments to the edits of a file."""

    def __init__(self, edits: FileEdits) -> None:
        self._edits = edits

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._edits.use(node)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Call(self, node: cst.Call) -> None:
        for argument in node.args:
            if argument.keyword is not None:
                self._edits.keyword(node, argument.keyword)

    def visit_MatchClass(self, node: cst.MatchClass) -> None:
        for element in node.kwds:
            self._edits.pattern(node, element)


class _ImportStatements(cst.CSTVisitor):
    """Rewrites the import statements of modules that move."""

    def __init__(self, edits: FileEdits) -> None:
        self._edits = edits
        self._modules = edits.renamer.map.modules

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            moved = self._modules.get(rename_syntax.code_of(alias.name))
            if moved is not None:
                self._edits.replace(alias.name, moved)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar) or node.module is None or node.relative:
            return
        module = rename_syntax.code_of(node.module)
        if not any(
            f"{module}.{rename_syntax.code_of(imported.name)}" in self._modules
            for imported in node.names
        ):
            if module in self._modules:
                self._edits.replace(node.module, self._modules[module])
            return
        statements = [self._statement(node, module, alias) for alias in node.names]
        span = self._edits.spans[node]
        indent = " " * self._edits.positions[node].start.column
        for start, length in list(self._edits.edits):
            if span.start <= start < span.start + span.length:
                del self._edits.edits[start, length]
        self._edits.edits[span.start, span.length] = f"\n{indent}".join(statements)

    def _statement(self, node: cst.ImportFrom, module: str, alias: cst.ImportAlias) -> str:
        name = rename_syntax.code_of(alias.name)
        bound = rename_syntax.code_of(alias.asname.name) if alias.asname else ""
        moved = self._modules.get(f"{module}.{name}")
        if moved is None:
            new_module = self._modules.get(module, module)
            key = self._edits.renamer.origin(f"{module}.{name}")
            new = self._edits.names.get(key, name)
            return f"from {new_module} import {new}" + (f" as {bound}" if bound else "")
        parent, _, leaf = moved.rpartition(".")
        if not bound:
            for scope, assignment in rename_syntax.assignments(self._edits.file):
                if (
                    isinstance(assignment, metadata.ImportAssignment)
                    and assignment.node is node
                    and assignment.name == name
                ):
                    bound = self._edits.local_name(scope, assignment, moved)
        return f"from {parent} import {leaf}" + (f" as {bound}" if bound not in ("", leaf) else "")
