"""Rename modules, functions, classes, parameters and variables by a map, in code and tests.

Usage: python -m scripts.rename MAP [--dry-run]

The scopes of libcst decide about names, parameters, variables and imports, jedi about attributes
whose type has to be inferred. An attribute for which jedi finds no definition keeps its name and
is printed, and the exit status is 1: it may belong to a library's object. Rename those that are
ours by hand. Text in strings, comments and documents is left alone. Run `make format` afterwards:
it sorts and joins the imports.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jedi
import libcst as cst
from libcst import metadata

from scripts import rename_edits, rename_map, rename_syntax
from scripts.rename_map import RenameMap

ROOT = Path(__file__).resolve().parent.parent
_IDENTIFIER = re.compile(rb"\w+")
_KEYWORD = re.compile(rb"(\w+)=")


class RenameFailed(Exception):
    """A map that cannot be applied: a name does not exist, or a new name is already used."""


def main(arguments: Sequence[str]) -> int:
    """Apply a map to the working tree; return 1 if it cannot be applied completely."""
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
    return 1 if renamer.unresolved else 0


@dataclass
class Renamer:
    """Computes the new text of each file that a map changes."""

    root: Path
    map: RenameMap
    folders: Sequence[str] = rename_map.SOURCE_FOLDERS
    unresolved: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """List the modules and configure jedi."""
        paths = rename_map.source_paths(self.root, self.folders)
        self._paths = {rename_map.module_name(path): path for path in paths}
        self._project = jedi.Project(self.root, added_sys_path=[str(self.root / "operator")])
        self._relevant = self.map.leaves | {
            part for key in self.map.names for part in key.partition(":")[2].split(".")
        }
        self._files: dict[Path, rename_syntax.SourceFile] = {}
        self._keys: dict[tuple[str, int, int], str] = {}  # path, line, column -> key of the map
        self._fixtures: dict[str, Path] = {}  # key of a fixture -> the folder or file that sees it
        self.attributes: set[str] = set()  # keys of what the classes of the candidates define

    def changes(self) -> dict[Path, bytes]:
        """Return the new source of each file that changes, by its path relative to the root.

        Raises:
            RenameFailed: The map names what does not exist, or a new name is already taken.
        """
        self._locate()
        problems: list[str] = []
        files = [
            rename_edits.FileEdits(self, self._file(path), {}, problems)
            for path in self._candidates()
        ]
        for file_edits in files:
            file_edits.collect_bound()
        if problems:  # before the type inference, which takes minutes
            raise RenameFailed("\n".join(problems))
        changed = {}
        for file_edits in files:
            file_edits.collect_used()
            if file_edits.edits:
                changed[file_edits.file.path] = _edited(file_edits.file.source, file_edits.edits)
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

    def _file(self, path: Path) -> rename_syntax.SourceFile:
        if path not in self._files:
            source = (self.root / path).read_bytes()
            wrapper = metadata.MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
            self._files[path] = rename_syntax.SourceFile(
                path, rename_map.module_name(path), source, wrapper
            )
        return self._files[path]

    def _candidates(self) -> Iterator[Path]:
        """Yield each file that contains a renamed word and can import a package of the map."""
        modules = [*self.map.modules, *(key.partition(":")[0] for key in self.map.names)]
        packages = {module.partition(".")[0].encode() for module in modules}
        defining = {key.partition(":")[0] for key in self.map.names}
        names = {old.rpartition(".")[2].encode() for old in self.map.modules}
        names |= {leaf.encode() for leaf in self.map.leaves - self._local}
        keywords = {leaf.encode() for leaf in self._local}
        for module, path in self._paths.items():
            source = (self.root / path).read_bytes()
            identifiers = set(_IDENTIFIER.findall(source))
            inside = module.partition(".")[0].encode() in packages
            if module in defining or (
                (inside or packages & identifiers)
                and (names & identifiers or keywords & set(_KEYWORD.findall(source)))
            ):
                yield path

    def _locate(self) -> None:
        """Find the definitions of all names of the map, and other attributes of those names."""
        missing = [old for old in self.map.modules if old not in self._paths]
        defined: set[str] = set()
        functions: set[str] = set()
        for module in dict.fromkeys(key.partition(":")[0] for key in self.map.names):
            if module in self._paths:
                defined |= self._locate_in(self._file(self._paths[module]))
                tree = ast.parse(self._file(self._paths[module]).source)
                functions |= {f"{module}:{name}" for name in rename_syntax.functions(tree)}
        missing += [key for key in self.map.names if key not in defined]
        if missing:
            raise RenameFailed("\n".join(f"there is no {missing_name}" for missing_name in missing))
        inner = {key for key in self.map.names if key.rpartition(".")[0] in functions}
        self._local = {key.rpartition(".")[2] for key in inner}
        self._local -= {
            key.partition(":")[2].rpartition(".")[2] for key in set(self.map.names) - inner
        }
        for path in self._candidates():
            module = rename_map.module_name(path)
            tree = ast.parse((self.root / path).read_bytes())
            self.attributes |= {
                f"{module}:{owner}.{name}" for owner, name in rename_syntax.class_attributes(tree)
            }

    def _locate_in(self, file: rename_syntax.SourceFile) -> set[str]:
        """Record positions of attributes and fixtures; return the keys of all definitions."""
        keys = set()
        positions = file.wrapper.resolve(metadata.PositionProvider)
        for _, assignment in rename_syntax.assignments(file):
            key = rename_syntax.key_of(file.module, assignment)
            keys.add(key)
            node = rename_syntax.name_node(assignment.node)
            if node is not None and key in self.map.names:
                start = positions[node].start
                self._keys[str(self.root / file.path), start.line, start.column] = key
            if rename_syntax.is_fixture(assignment.node) and key in self.map.names:
                is_folder_wide = file.path.name == "conftest.py"
                self._fixtures[key] = file.path.parent if is_folder_wide else file.path
        collector = rename_syntax.Captures()
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
        """Return the key of the definition at a position, or an empty string."""
        return self._keys.get((str(path), line or 0, column or 0), "")

    def is_attribute(self, name: str) -> bool:
        """Return whether the map renames an attribute of that name."""
        renamed = self.attributes & self.map.names.keys()
        return any(key.rpartition(".")[2] == name for key in renamed)

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
    def _imported(file: rename_syntax.SourceFile, name: str) -> str | None:
        for scope, assignment in rename_syntax.assignments(file):
            if isinstance(scope, metadata.GlobalScope) and assignment.name == name:
                if isinstance(assignment, metadata.ImportAssignment):
                    return next(iter(assignment.get_qualified_names_for(name))).name
                return None
        return None

    def definitions(self, path: Path, line: int, column: int) -> Iterator[str]:
        """Yield the keys of the definitions that jedi infers for the name at a position."""
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


def _edited(source: bytes, edits: rename_edits.Edits) -> bytes:
    for (start, length), new in sorted(edits.items(), reverse=True):
        source = source[:start] + new.encode() + source[start + length :]
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
