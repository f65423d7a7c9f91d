"""Show that two commits have the same syntax trees but for a map of renames, or for their prose.

Usage: python -m scripts.compare_trees OLD NEW [--map FILE] [--prose]

FILE holds a rename map (see scripts/rename_map.py); without one, no name may differ. With --prose
string literals, docstrings and comments may differ as well; what an f-string formats may not.
The exit status is 1 at the first difference, which is printed with its file and line.

An identifier may differ as the map says: a parameter or local variable inside its function and in
keyword arguments, everything else wherever it is used. Within one module no two old names may turn
into one new name in the same function, so that nothing is captured.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from scripts import rename_map
from scripts.rename_map import RenameMap

ROOT = Path(__file__).resolve().parent.parent
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_NAMES = re.compile(r"\w+")


class Different(Exception):
    """The first difference between two trees."""


def main(arguments: Sequence[str]) -> int:
    """Compare two commits; return 1 if their trees differ by more than the map and the prose."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--map", type=Path)
    parser.add_argument("--prose", action="store_true")
    options = parser.parse_args(arguments)
    names = rename_map.parse(options.map.read_text() if options.map else "")
    try:
        count = compare(_sources(options.old), _sources(options.new), names, prose=options.prose)
    except Different as exc:
        print(exc, file=sys.stderr)  # noqa: T201
        return 1
    print(f"{count} changed files have equal syntax trees")  # noqa: T201
    return 0


def compare(
    old: Mapping[str, str], new: Mapping[str, str], names: RenameMap, *, prose: bool = False
) -> int:
    """Compare the Python files of two trees, by path; return how many have changed.

    Raises:
        Different: A file is missing or new, or the trees of a file differ.
    """
    moved = {path: _target(path, names) for path in old}
    targets = set(moved.values())
    for path in sorted(new.keys() - targets):
        if not all(_is_docstring(node) for node in ast.parse(new[path]).body):
            raise Different(f"{path} is new")
    rules = _Rules.of(names, old, prose=prose)
    changed = 0
    for path, target in moved.items():
        if target not in new:
            raise Different(f"{path}: there is no {target}")
        if old[path] != new[target] or path != target:
            changed += 1
            _Comparison(rules, path, target).modules(old[path], new[target])
    return changed


@dataclass(frozen=True)
class _Rules:
    """Which identifiers may be renamed, and to what."""

    map: RenameMap
    public: frozenset[tuple[str, str]]  # allowed wherever the name is used
    local: Mapping[str, frozenset[tuple[str, str]]]  # key of a function -> allowed inside it
    keywords: frozenset[tuple[str, str]]
    modules: frozenset[str]
    prose: bool

    @classmethod
    def of(cls, names: RenameMap, sources: Mapping[str, str], *, prose: bool) -> "_Rules":
        modules = {key.partition(":")[0] for key in names.names}
        functions = {
            f"{module}:{name}"
            for path, source in sources.items()
            if (module := rename_map.module_name(Path(path))) in modules
            for name in _functions(ast.parse(source))
        }
        public = {_leaf_pair(old, new) for old, new in names.modules.items()}
        local: dict[str, set[tuple[str, str]]] = {}
        for key, new in names.names.items():
            owner, _, leaf = key.rpartition(".")
            if ":" in owner and owner in functions:
                local.setdefault(owner, set()).add((leaf, new))
            else:
                public.add((key.partition(":")[2].rpartition(".")[2], new))
        for old, new in names.modules.items():  # a module under a taken name gets its package's
            parent, _, leaf = new.rpartition(".")
            public.add((old.rpartition(".")[2], f"{parent.rpartition('.')[2]}_{leaf}"))
        keywords = {pair for pairs in local.values() for pair in pairs} | public
        frozen = {owner: frozenset(pairs) for owner, pairs in local.items()}
        rules = frozenset(rename_map.module_name(Path(path)) for path in sources)
        return cls(names, frozenset(public), frozen, frozenset(keywords), rules, prose)


@dataclass
class _Comparison:
    """Compares two trees of one module."""

    rules: _Rules
    path: str
    target: str
    line: int = 0
    _scopes: list[str] = field(default_factory=list)
    _renamed: list[dict[str, str]] = field(default_factory=lambda: [{}])

    def modules(self, old: str, new: str) -> None:
        """Compare two sources of the module."""
        old_modules, new_modules = ast.parse(old, self.path), ast.parse(new, self.target)
        self.module = rename_map.module_name(Path(self.path))
        self._compare(old_modules, new_modules)

    def _compare(self, old: object, new: object) -> None:
        if isinstance(old, ast.AST) and isinstance(new, ast.AST):
            self._nodes(old, new)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(old, new)
        elif old != new:
            self._fail(old, new)

    def _nodes(self, old: ast.AST, new: ast.AST) -> None:
        self.line = getattr(old, "lineno", self.line)
        if self._is_text(old) and self._is_text(new):
            self._texts(old, new)
            return
        if type(old) is not type(new):
            self._fail(old, new)
        scope = getattr(old, "name", None) if isinstance(old, _SCOPES) else None
        if isinstance(scope, str):
            self._identifiers(scope, getattr(new, "name", ""), self._inside())
            self._scopes.append(scope)
            self._renamed.append({})
        if isinstance(old, ast.Call) and isinstance(new, ast.Call) and _is_parametrize(old):
            self._parameter_names(old.args[0], new.args[0])
            old, new = _without_first(old), _without_first(new)
        for name, value in ast.iter_fields(old):
            self._field(old, name, value, getattr(new, name, None))
        if isinstance(scope, str):
            self._scopes.pop()
            self._renamed.pop()

    def _parameter_names(self, old: ast.expr, new: ast.expr) -> None:
        """Compare the names of parameters that `pytest.mark.parametrize` takes as strings."""
        old_names, new_names = _NAMES.findall(ast.unparse(old)), _NAMES.findall(ast.unparse(new))
        if _NAMES.sub("", ast.unparse(old)) != _NAMES.sub("", ast.unparse(new)):
            self._fail(old, new)
        for old_name, new_name in zip(old_names, new_names, strict=True):
            self._identifiers(old_name, new_name, self._inside())

    def _field(self, node: ast.AST, name: str, old: object, new: object) -> None:
        if isinstance(node, _SCOPES) and name == "name":
            return
        if isinstance(old, str) and isinstance(new, str) and name in ("id", "arg", "attr", "name"):
            self._identifier(node, old, new)
        elif isinstance(node, ast.MatchClass) and name == "kwd_attrs":
            for old_value, new_value in zip(_names(old), _names(new), strict=True):
                self._identifiers(old_value, new_value, self.rules.public)
        elif isinstance(node, ast.Global | ast.Nonlocal) and name == "names":
            for old_value, new_value in zip(_names(old), _names(new), strict=True):
                self._identifiers(old_value, new_value, self._inside())
        else:
            self._compare(old, new)

    def _identifier(self, node: ast.AST, old: str, new: str) -> None:
        if isinstance(node, ast.keyword):
            self._identifiers(old, new, self.rules.keywords)
        elif isinstance(node, ast.Attribute):
            self._identifiers(old, new, self.rules.public)
        else:
            self._identifiers(old, new, self._inside())
            if self._renamed[-1].setdefault(new, old) != old:
                new_name = self._renamed[-1][new]
                raise Different(f"{self._place()}: {new_name} and {old} have both become {new}")

    def _inside(self) -> frozenset[tuple[str, str]]:
        allowed = self.rules.public
        for depth in range(len(self._scopes)):
            owner = f"{self.module}:{'.'.join(self._scopes[: depth + 1])}"
            allowed |= self.rules.local.get(owner, frozenset())
        return allowed

    def _identifiers(self, old: str, new: str, allowed: frozenset[tuple[str, str]]) -> None:
        if old != new and (old, new) not in allowed:
            raise Different(f"{self._place()}: {old} has become {new}, which the map does not say")

    def _lists(self, old: list[object], new: list[object]) -> None:
        old, new = self._without_prose(old), self._without_prose(new)
        old_items, new_items = (
            [old_item for old_item in nodes if isinstance(old_item, _IMPORTS)]
            for nodes in (old, new)
        )
        if old_items or new_items:
            self._imports(old_items, new_items)
        old, new = (
            [old_item for old_item in nodes if not isinstance(old_item, _IMPORTS)]
            for nodes in (old, new)
        )
        if len(old) != len(new):
            raise Different(f"{self._place()}: {len(old)} parts have become {len(new)}")
        for old_item, new_item in zip(old, new, strict=True):
            self._compare(old_item, new_item)

    def _without_prose(self, nodes: list[object]) -> list[object]:
        """Remove docstrings: strings that are statements."""
        return [node for node in nodes if not (self.rules.prose and _is_docstring(node))]

    def _imports(self, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> None:
        old_imports = {
            self._renamed_import(*old_import) for node in old for old_import in _imported(node)
        }
        new_imports = {old_import for node in new for old_import in _imported(node)}
        missing, added = sorted(old_imports - new_imports), sorted(new_imports - old_imports)
        for dotted, bound in list(missing):
            # A moved module whose new name is taken is bound with its package's name.
            new_import = (dotted, f"{dotted.rpartition('.')[0].rpartition('.')[2]}_{bound}")
            if new_import in added:
                missing.remove((dotted, bound))
                added.remove(new_import)
        if missing or added:
            self.line = getattr(old[0] if old else new[0], "lineno", self.line)
            raise Different(f"{self._place()}: imports: without {missing}, with {added}")

    def _renamed_import(self, dotted: str, bound: str) -> tuple[str, str]:
        """Return what an import of the old tree imports and binds in the new one."""
        new = self._moved(dotted)
        has_own_name = dotted.rpartition(".")[2] == bound
        return new, new.rpartition(".")[2] if has_own_name else bound

    def _moved(self, dotted: str) -> str:
        if dotted in self.rules.map.modules:
            return self.rules.map.modules[dotted]
        module, _, name = dotted.rpartition(".")
        new = self.rules.map.names.get(f"{module}:{name}", self._re_exported(module, name))
        home = self.rules.map.modules.get(module, module)
        return f"{home}.{new}" if home else new

    def _re_exported(self, package: str, name: str) -> str:
        """Return the new name of what a package re-exports from one of its modules."""
        if f"{package}.{name}" in self.rules.modules:
            return name
        for key, new in self.rules.map.names.items():
            if key.startswith(f"{package}.") and key.endswith(f":{name}"):
                return new
        return name

    def _is_text(self, node: ast.AST) -> bool:
        constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return constant or (self.rules.prose and isinstance(node, ast.JoinedStr))

    def _texts(self, old: ast.AST, new: ast.AST) -> None:
        if self.rules.prose:
            if _formatted(old) != _formatted(new):
                raise Different(f"{self._place()}: a text formats other values")
            return
        old_text, new_text = getattr(old, "value", None), getattr(new, "value", None)
        if new_text not in (old_text, self._in_text(str(old_text))):
            self._fail(old_text, new_text)

    def _in_text(self, text: str) -> str:
        """Return a text with the names of moved modules replaced, such as in an entry point."""
        for old, new in sorted(self.rules.map.modules.items(), reverse=True):
            text = text.replace(old, new)
        return text

    def _fail(self, old: object, new: object) -> None:
        old_node, new_node = (
            ast.unparse(node)[:60] if isinstance(node, ast.AST) else repr(node)[:60]
            for node in (old, new)
        )
        raise Different(f"{self._place()}: {old_node} has become {new_node}")

    def _place(self) -> str:
        return f"{self.path}:{self.line}"


def _functions(tree: ast.AST, owner: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        name = owner
        if isinstance(node, _SCOPES):
            name = f"{owner}{node.name}."
            if isinstance(node, _FUNCTIONS):
                yield name[:-1]
        yield from _functions(node, name)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the dotted name of each imported object, and the name that it is bound to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, alias.asname or alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield f"{node.module}.{alias.name}", alias.asname or alias.name


def _is_docstring(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _formatted(node: ast.AST) -> Counter[str]:
    """Count the expressions that an f-string formats."""
    values = node.values if isinstance(node, ast.JoinedStr) else []
    return Counter(ast.dump(value) for value in values if isinstance(value, ast.FormattedValue))


def _is_parametrize(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.func) == rename_map.PARAMETRIZE


def _without_first(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, call.args[1:], call.keywords)


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _leaf_pair(old: str, new: str) -> tuple[str, str]:
    return old.rpartition(".")[2], new.rpartition(".")[2]


def _target(path: str, names: RenameMap) -> str:
    """Return the path of a file after the moves of the map."""
    module = rename_map.module_name(Path(path))
    if module not in names.modules:
        return path
    pure = PurePosixPath(path)
    package = pure.name == "__init__.py"
    depth = len(module.split(".")) + package
    target = PurePosixPath(
        *pure.parts[: len(pure.parts) - depth], *names.modules[module].split(".")
    )
    return str(target / "__init__.py" if package else target.with_suffix(".py"))


def _sources(commit: str, run: Callable[..., bytes] = subprocess.check_output) -> dict[str, str]:
    """Read the Python files of a commit, by path."""
    listing = run(["git", "ls-tree", "-r", "-z", commit], cwd=ROOT).decode()
    blobs = {
        path: header.split()[2]
        for entry in listing.split("\0")
        if entry
        for header, _, path in [entry.partition("\t")]
        if path.endswith(".py")
    }
    output = run(
        ["git", "cat-file", "--batch"],
        cwd=ROOT,
        input="".join(f"{b}\n" for b in blobs.values()).encode(),
    )
    sources, offset = {}, 0
    for path in blobs:
        end = output.index(b"\n", offset)
        size = int(output[offset:end].split()[2])
        sources[path] = output[end + 1 : end + 1 + size].decode()
        offset = end + 1 + size + 1
    return sources


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
