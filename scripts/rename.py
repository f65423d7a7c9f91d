"""Rename modules, functions, classes, parameters and variables by a map, in code and tests.

Usage: python -m scripts.rename MAP [--dry-run]

The scopes of libcst decide about names, parameters, variables and imports, jedi about attributes
whose type has to be inferred. An attribute that jedi cannot infer is renamed when the map renames
everything of that name in the classes of the repository, and is reported otherwise: mypy finds
those in production code, the tests find the rest. Text in strings, comments and documents is left
alone. Run `make format` afterwards: it sorts and joins the imports.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jedi
import libcst as cst
from libcst import metadata

from scripts import rename_map
from scripts.rename_map import RenameMap

ROOT = Path(__file__).resolve().parent.parent
Edits = dict[tuple[int, int], str]  # byte offset and length -> new text
_INNER = re.compile(r"<locals>\.|<comprehension>\.")
_WORD = re.compile(rb"\w+")
_KEYWORD = re.compile(rb"(\w+)=")


class RenameFailed(Exception):
    """A map that cannot be applied: a name is missing, or a new name is taken."""


def main(arguments: Sequence[str]) -> int:
    """Apply a map to the working tree; 1 when it cannot be applied."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("map", type=Path)
    parser.add_argument("--dry-run", action="store_true", help="report, write nothing")
    options = parser.parse_args(arguments)
    renamer = Renamer(ROOT, rename_map.parse(options.map.read_text()))
    try:
        changes = renamer.changes()
    except RenameFailed as exc:
        print(exc, file=sys.stderr)  # noqa: T201
        return 1
    for line in renamer.unresolved:
        print(f"not renamed: {line}", file=sys.stderr)  # noqa: T201
    if not options.dry_run:
        renamer.write(changes)
    print(f"{len(changes)} files change")  # noqa: T201
    return 0


@dataclass(frozen=True)
class _File:
    path: Path
    module: str
    source: bytes
    wrapper: metadata.MetadataWrapper

    @property
    def scopes(self) -> list[metadata.Scope]:
        resolved = self.wrapper.resolve(metadata.ScopeProvider)
        return [scope for scope in dict.fromkeys(resolved.values()) if scope is not None]


@dataclass
class Renamer:
    """Works out the new text of each file that a map changes."""

    root: Path
    map: RenameMap
    folders: Sequence[str] = rename_map.SOURCE_FOLDERS
    unresolved: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """List the modules and set up what jedi needs."""
        paths = rename_map.source_paths(self.root, self.folders)
        self._paths = {rename_map.module_name(path): path for path in paths}
        self._project = jedi.Project(self.root, added_sys_path=[str(self.root / "operator")])
        self._relevant = self.map.leaves | {
            part for key in self.map.names for part in key.partition(":")[2].split(".")
        }
        self._files: dict[Path, _File] = {}
        self._keys: dict[tuple[str, int, int], str] = {}  # path, line, column -> key of the map
        self._fixtures: dict[str, Path] = {}  # key of a fixture -> the folder or file that sees it
        self._class_names: dict[str, set[str]] = defaultdict(set)  # attribute -> keys that have it

    def changes(self) -> dict[Path, bytes]:
        """Return the new source of each file that changes, by its path relative to the root.

        Raises:
            RenameFailed: The map names what does not exist, or a new name is already taken.
        """
        self._locate()
        problems: list[str] = []
        files = [_FileEdits(self, self._file(path), {}, problems) for path in self._candidates()]
        for each in files:
            each.collect_bound()
        if problems:  # before types are inferred, which takes minutes
            raise RenameFailed("\n".join(problems))
        changed = {}
        for each in files:
            each.collect_used()
            if each.edits:
                changed[each.file.path] = _edited(each.file.source, each.edits)
        return changed

    def write(self, changed: Mapping[Path, bytes]) -> None:
        """Write changed files, then move the modules with git."""
        for path, source in changed.items():
            (self.root / path).write_bytes(source)
        for old, new in self.map.modules.items():
            path = self._paths[old]
            target = self._target(path, old, new)
            (self.root / target).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", str(path), str(target)], cwd=self.root, check=True)

    @staticmethod
    def _target(path: Path, old: str, new: str) -> Path:
        """Return the path of a moved module: its folder of import plus the new dotted name."""
        depth = len(old.split("."))
        package = path.name == "__init__.py"
        base = Path(*path.parts[: len(path.parts) - depth - package])
        target = base.joinpath(*new.split("."))
        return target / "__init__.py" if package else target.with_suffix(".py")

    def _file(self, path: Path) -> _File:
        if path not in self._files:
            source = (self.root / path).read_bytes()
            wrapper = metadata.MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
            self._files[path] = _File(path, rename_map.module_name(path), source, wrapper)
        return self._files[path]

    def _candidates(self) -> Iterator[Path]:
        """Yield each file that has a renamed word and can see a package of the map."""
        modules = [*self.map.modules, *(key.partition(":")[0] for key in self.map.names)]
        packages = {module.partition(".")[0].encode() for module in modules}
        defining = {key.partition(":")[0] for key in self.map.names}
        words = {old.rpartition(".")[2].encode() for old in self.map.modules}
        words |= {leaf.encode() for leaf in self.map.leaves - self._local}
        keywords = {leaf.encode() for leaf in self._local}
        for module, path in self._paths.items():
            source = (self.root / path).read_bytes()
            used = set(_WORD.findall(source))
            inside = module.partition(".")[0].encode() in packages
            if module in defining or (
                (inside or packages & used)
                and (words & used or keywords & set(_KEYWORD.findall(source)))
            ):
                yield path

    def _locate(self) -> None:
        """Find the definition of each name of the map, and what else the classes define so."""
        missing = [old for old in self.map.modules if old not in self._paths]
        defined: set[str] = set()
        functions: set[str] = set()
        for module in dict.fromkeys(key.partition(":")[0] for key in self.map.names):
            if module in self._paths:
                defined |= self._locate_in(self._file(self._paths[module]))
                tree = ast.parse(self._file(self._paths[module]).source)
                functions |= {f"{module}:{name}" for name in _functions(tree)}
        missing += [key for key in self.map.names if key not in defined]
        if missing:
            raise RenameFailed("\n".join(f"there is no {each}" for each in missing))
        inner = {key for key in self.map.names if key.rpartition(".")[0] in functions}
        self._local = {key.rpartition(".")[2] for key in inner}
        self._local -= {
            key.partition(":")[2].rpartition(".")[2] for key in set(self.map.names) - inner
        }
        for path in self._candidates():
            module = rename_map.module_name(path)
            for owner, name in _class_attributes(ast.parse((self.root / path).read_bytes())):
                self._class_names[name].add(f"{module}:{owner}.{name}")

    def _locate_in(self, file: _File) -> set[str]:
        """Note positions of attributes and fixtures; return the keys of all that is defined."""
        keys = set()
        positions = file.wrapper.resolve(metadata.PositionProvider)
        for _, assignment in _assignments(file):
            key = _key(file.module, assignment)
            keys.add(key)
            node = _name_node(assignment.node)
            if node is not None and key in self.map.names:
                start = positions[node].start
                self._keys[str(self.root / file.path), start.line, start.column] = key
            if _is_fixture(assignment.node) and key in self.map.names:
                beside = file.path.name == "conftest.py"
                self._fixtures[key] = file.path.parent if beside else file.path
        collector = _Captures()
        file.wrapper.module.visit(collector)
        for node, owner, name in collector.attributes:
            key = f"{file.module}:{owner}.{name}"
            keys.add(key)
            if key in self.map.names:
                start = positions[node].start
                self._keys[str(self.root / file.path), start.line, start.column] = key
        keys |= {f"{file.module}:{owner}.{name}" for _, owner, name in collector.captures}
        return keys

    def key_of_definition(self, path: Path | None, line: int | None, column: int | None) -> str:
        """Return the key of what is defined at a position, or an empty string."""
        return self._keys.get((str(path), line or 0, column or 0), "")

    def is_all_renamed(self, attribute: str) -> str | None:
        """Return the new name when the map renames each attribute of that name to the same."""
        keys = self._class_names[attribute]
        targets = {self.map.names.get(key) for key in keys}
        return targets.pop() if keys and len(targets) == 1 else None

    def is_attribute(self, name: str) -> bool:
        """Tell whether the map renames an attribute of that name."""
        return any(key in self.map.names for key in self._class_names[name])

    def origin(self, dotted: str) -> str:
        """Return the key `module:name` of a dotted name, following imports of the repository."""
        for _ in range(5):  # re-exports are one or two steps deep
            parts = dotted.split(".")
            for cut in range(len(parts), 0, -1):
                module = ".".join(parts[:cut])
                if module in self._paths:
                    break
            else:
                return ""
            rest = ".".join(parts[cut:])
            if not rest:
                return f"{module}:"
            key = f"{module}:{rest}"
            if parts[-1] not in self._relevant:
                return key
            source = (self.root / self._paths[module]).read_bytes()
            if (
                key in self.map.names
                or b"import" not in source
                or parts[cut].encode() not in source
            ):
                return key
            imported = self._imported(self._file(self._paths[module]), parts[cut])
            if imported is None:
                return key
            dotted = ".".join([imported, *parts[cut + 1 :]])
        return ""

    @staticmethod
    def _imported(file: _File, name: str) -> str | None:
        for scope, assignment in _assignments(file):
            if isinstance(scope, metadata.GlobalScope) and assignment.name == name:
                if isinstance(assignment, metadata.ImportAssignment):
                    return next(iter(assignment.get_qualified_names_for(name))).name
                return None
        return None

    def definitions(self, path: Path, line: int, column: int) -> Iterator[str]:
        """Yield the keys of what jedi takes the name at a position to be."""
        script = self._script(path)
        for name in script.goto(line, column, follow_imports=True):
            yield self.key_of_definition(name.module_path, name.line, name.column)

    def classes(self, path: Path, line: int, column: int) -> Iterator[str]:
        """Yield the dotted names of the classes of the expression that ends at a position."""
        for name in self._script(path).infer(line, column):
            yield name.full_name or ""

    def _script(self, path: Path) -> jedi.Script:
        if getattr(self, "_last", (None, None))[0] != path:
            self._last = (path, jedi.Script(path=self.root / path, project=self._project))
        return self._last[1]

    def fixture(self, path: Path, name: str) -> str:
        """Return the key of the renamed fixture that a test file sees under a name."""
        for key, seen_from in self._fixtures.items():
            if key.rpartition(":")[2] == name and (path == seen_from or seen_from in path.parents):
                return key
        return ""


@dataclass
class _FileEdits:
    """Collects the edits of one file."""

    renamer: Renamer
    file: _File
    edits: Edits
    problems: list[str]

    def collect_bound(self) -> None:
        """Collect the edits of names that scopes resolve."""
        self.spans = self.file.wrapper.resolve(metadata.ByteSpanPositionProvider)
        self.positions = self.file.wrapper.resolve(metadata.PositionProvider)
        self.names = self.renamer.map.names
        for scope, assignment in _assignments(self.file):
            if isinstance(assignment, metadata.ImportAssignment):
                self._import(scope, assignment)
            else:
                self._assignment(scope, assignment)
        self._captures()

    def collect_used(self) -> None:
        """Collect the edits of attributes, keyword arguments and import statements."""
        self.file.wrapper.module.visit(_Uses(self))
        if self.renamer.map.modules:
            self.file.wrapper.module.visit(_ImportStatements(self))

    def replace(self, node: cst.CSTNode, new: str) -> None:
        """Note the new text of a node."""
        span = self.spans[node]
        self.edits[span.start, span.length] = new

    def _assignment(self, scope: metadata.Scope, assignment: metadata.Assignment) -> None:
        key = _key(self.file.module, assignment)
        if key not in self.names and isinstance(assignment.node, cst.Param):
            key = self.renamer.fixture(self.file.path, assignment.name)
        new = self.names.get(key)
        if new is None:
            return
        self._require_free(scope, assignment, new)
        node = _name_node(assignment.node)
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
        """Note a problem when the new name already means something where the old one stands."""
        if self.is_taken(scope, assignment, new):
            line = self.positions[_name_node(assignment.node) or assignment.node].start.line
            self.problems.append(
                f"{self.file.path}:{line}: {assignment.name} -> {new}: {new} is taken"
            )

    def is_taken(
        self, scope: metadata.Scope, assignment: metadata.BaseAssignment, new: str
    ) -> bool:
        """Tell whether a name is bound or used where an assignment or its references stand."""
        scopes = {scope} | {access.scope for access in assignment.references}
        for each in list(scopes):
            while each is not scope and not isinstance(each, metadata.GlobalScope):
                scopes.add(each)
                each = each.parent  # noqa: PLW2901 (walks up to the scope of the definition)
        return any(self._binds(each, new, assignment.name) for each in scopes)

    def _binds(self, scope: metadata.Scope, new: str, old: str) -> bool:
        bound = [each for each in scope.assignments if each.name == new and each.scope is scope]
        if any(not self._goes_away(each, old) for each in bound):
            return True
        accesses = [each for each in scope.accesses if getattr(each.node, "value", None) == new]
        return any(
            not each.referents or any(not self._goes_away(one, old) for one in each.referents)
            for each in accesses
            if isinstance(each.node, cst.Name)
        )

    def _goes_away(self, assignment: metadata.BaseAssignment, old: str) -> bool:
        """Tell whether an assignment is renamed itself."""
        if isinstance(assignment, metadata.ImportAssignment | metadata.BuiltinAssignment):
            if isinstance(assignment, metadata.BuiltinAssignment):
                return False
            dotted = next(iter(assignment.get_qualified_names_for(assignment.name))).name
            return (
                self.renamer.origin(dotted) in self.names or dotted in self.renamer.map.modules
            ) and assignment.name != old
        if not isinstance(assignment, metadata.Assignment):
            return False
        return _key(self.file.module, assignment) in self.names

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
        for alias in _aliases(assignment.node):
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
        """Return the name under which a moved module is imported: with its package if taken."""
        parent, _, leaf = moved.rpartition(".")
        if leaf == assignment.name or not self.is_taken(scope, assignment, leaf):
            return leaf
        return f"{parent.rpartition('.')[2]}_{leaf}"

    def _captures(self) -> None:
        """Rename what patterns bind: libcst knows no scope of theirs."""
        collector = _Captures()
        self.file.wrapper.module.visit(collector)
        for function, owner, name in collector.captures:
            new = self.names.get(f"{self.file.module}:{owner}.{name}")
            if new is not None:
                every = _EveryName(name)
                function.visit(every)
                for node in every.nodes:
                    self.replace(node, new)

    def attribute(self, node: cst.Name, where: cst.CSTNode) -> None:
        """Rename an attribute by the definition that jedi infers."""
        if not self.renamer.is_attribute(node.value):
            return
        start = self.positions[node].start
        keys = list(self.renamer.definitions(self.file.path, start.line, start.column))
        for key in keys:
            if key in self.names:
                self.replace(node, self.names[key])
                return
        new = self.renamer.is_all_renamed(node.value)
        if new is not None and not keys:
            self.replace(node, new)
        elif not keys:
            code = self.file.wrapper.module.code_for_node(where)
            self.renamer.unresolved.append(f"{self.file.path}:{start.line}: {code.strip()[:80]}")

    def keyword(self, call: cst.Call, keyword: cst.Name) -> None:
        """Rename a keyword argument by the function or class that is called."""
        if keyword.value not in self.renamer.map.leaves:
            return
        callees = list(self._dotted(call.func))
        if "dataclasses.replace" in callees:
            end = self.positions[call.args[0].value].end
            callees += self.renamer.classes(self.file.path, end.line, end.column - 1)
        if any(self._rename_keyword(self.renamer.origin(each), keyword) for each in callees):
            return
        start = self.positions[keyword].start
        for key in self.renamer.definitions(self.file.path, start.line, start.column):
            if key in self.names:
                self.replace(keyword, self.names[key])
                return

    def _rename_keyword(self, key: str, keyword: cst.Name) -> bool:
        for owner in (key, f"{key}.__init__"):
            new = self.names.get(f"{owner}.{keyword.value}")
            if new is not None:
                self.replace(keyword, new)
                return True
        return False

    def _dotted(self, node: cst.CSTNode) -> Iterable[str]:
        qualified = self.file.wrapper.resolve(metadata.QualifiedNameProvider)
        found = qualified.get(node, set())
        resolved = found() if callable(found) else found
        for name in resolved:
            if name.source is metadata.QualifiedNameSource.LOCAL:
                yield f"{self.file.module}.{_INNER.sub('', name.name)}"
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
    """Hands attributes and keyword arguments to the edits of a file."""

    def __init__(self, edits: _FileEdits) -> None:
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

    def visit_MatchKeywordElement(self, node: cst.MatchKeywordElement) -> None:
        if node.key.value in self._edits.renamer.map.leaves:
            self._edits.attribute(node.key, node)


class _ImportStatements(cst.CSTVisitor):
    """Rewrites the import statements of modules that move."""

    def __init__(self, edits: _FileEdits) -> None:
        self._edits = edits
        self._modules = edits.renamer.map.modules

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            moved = self._modules.get(_code(alias.name))
            if moved is not None:
                self._edits.replace(alias.name, moved)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar) or node.module is None or node.relative:
            return
        module = _code(node.module)
        if not any(f"{module}.{_code(each.name)}" in self._modules for each in node.names):
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
        name = _code(alias.name)
        bound = _code(alias.asname.name) if alias.asname else ""
        moved = self._modules.get(f"{module}.{name}")
        if moved is None:
            new_module = self._modules.get(module, module)
            key = self._edits.renamer.origin(f"{module}.{name}")
            new = self._edits.names.get(key, name)
            return f"from {new_module} import {new}" + (f" as {bound}" if bound else "")
        parent, _, leaf = moved.rpartition(".")
        if not bound:
            for scope, assignment in _assignments(self._edits.file):
                if (
                    isinstance(assignment, metadata.ImportAssignment)
                    and assignment.node is node
                    and assignment.name == name
                ):
                    bound = self._edits.local_name(scope, assignment, moved)
        return f"from {parent} import {leaf}" + (f" as {bound}" if bound not in ("", leaf) else "")


class _Captures(cst.CSTVisitor):
    """Collects what `match` binds in functions, and the attributes that methods set."""

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
            owner = ".".join(each.name.value for each in self._owners)
            self.captures.append((function, owner, name.value))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._attribute(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._attribute(node.target)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        targets: list[cst.BaseExpression] = [node.target]
        if isinstance(node.target, cst.Tuple):
            targets = [each.value for each in node.target.elements]
        for target in targets:
            self._attribute(target)

    def _attribute(self, target: cst.BaseExpression) -> None:
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return
        if target.value.value == "self" and len(self._owners) > 1:
            owner = ".".join(each.name.value for each in self._owners[:-1])
            self.attributes.append((target.attr, owner, target.attr.value))


class _EveryName(cst.CSTVisitor):
    """Collects each variable of one name."""

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


def _functions(tree: ast.AST, owner: str = "") -> Iterator[str]:
    """Yield the qualified name of each function, inner ones included."""
    for node in ast.iter_child_nodes(tree):
        qualified = owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            qualified = f"{owner}{node.name}."
            if not isinstance(node, ast.ClassDef):
                yield qualified[:-1]
        yield from _functions(node, qualified)


def _class_attributes(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, str]]:
    """Yield class and name of each method, field and attribute that methods set on `self`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            qualified = f"{owner}{node.name}"
            for child in node.body:
                yield from ((qualified, name) for name in _defined(child))
            for each in ast.walk(node):
                if isinstance(each, ast.Attribute) and _is_set_on_self(each):
                    yield qualified, each.attr
            yield from _class_attributes(node, f"{qualified}.")


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


def _assignments(file: _File) -> Iterator[tuple[metadata.Scope, metadata.Assignment]]:
    """Yield what each scope binds, without the built-in names."""
    for scope in file.scopes:
        for assignment in scope.assignments:
            if assignment.scope is scope and isinstance(assignment, metadata.Assignment):
                yield scope, assignment


def _key(module: str, assignment: metadata.BaseAssignment) -> str:
    """Return `module:Qualified.name` of an assignment."""
    names = assignment.get_qualified_names_for(assignment.name)
    return f"{module}:{_INNER.sub('', next(iter(names)).name)}"


def _name_node(node: cst.CSTNode) -> cst.Name | None:
    if isinstance(node, cst.Name):
        return node
    name = getattr(node, "name", None)
    if isinstance(name, cst.AsName):
        name = name.name
    return name if isinstance(name, cst.Name) else None


def _aliases(node: cst.CSTNode) -> Sequence[cst.ImportAlias]:
    names = getattr(node, "names", ())
    return () if isinstance(names, cst.ImportStar) else names


def _is_fixture(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.FunctionDef) and any(
        "fixture" in _code(each.decorator) for each in node.decorators
    )


def _code(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)


def _edited(source: bytes, edits: Edits) -> bytes:
    for (start, length), new in sorted(edits.items(), reverse=True):
        source = source[:start] + new.encode() + source[start + length :]
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
