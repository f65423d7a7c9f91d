"""Parse a rename map: the lines `old -> new` of a file or of a commit body.

```
kais_cli.display -> kais_cli.runs.progress_display       a module that moves
kais_cli.output:told -> write_result                     a function, class or constant
kais_cli.output:Pager.told -> lines                      a method or field
kais_cli.output:write_result.words -> message            a parameter or local variable
```

All old names are those of the tree before the map is applied, and lines of any other form are
ignored, so that a commit body may explain itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE_FOLDERS = (
    *(
        "agent_runtime",
        "kais",
        "operator/kais_operator",
        "kais_mcp",
        "kais_rendering",
        "knowledge_service",
        "knowledge_client",
    ),
    *("kais_cli", "kais_cluster", "examples", "bench", "scripts", "e2e", "tests"),
)
PARAMETRIZE = "pytest.mark.parametrize"
"""The decorator that names parameters of a function in strings."""
_LINE = re.compile(
    r"^\s*(?P<module>[A-Za-z_][\w.]*)(?::(?P<name>[\w.]+))?\s+->\s+(?P<new>[A-Za-z_][\w.]*)\s*$"
)


class InvalidMap(ValueError):
    """A map that renames one name twice, or gives a dotted name to something inside a module."""


@dataclass(frozen=True)
class RenameMap:
    """The renames of a map; the keys of `names` are `module:Qualified.name`."""

    modules: Mapping[str, str]
    names: Mapping[str, str]

    @property
    def leaves(self) -> frozenset[str]:
        """Return the last part of each renamed name."""
        return frozenset(key.partition(":")[2].rpartition(".")[2] for key in self.names)


def parse(text: str) -> RenameMap:
    """Parse the lines of a map.

    Raises:
        InvalidMap: One name is renamed twice, or the new name of a function, class, parameter or
            variable has a dot.
    """
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line.partition("#")[0])
        if match is None:
            continue
        module, name, new = match["module"], match["name"], match["new"]
        key, target = (f"{module}:{name}", names) if name else (module, modules)
        if name and "." in new:
            raise InvalidMap(f"{key} -> {new}: the new name is one identifier, without a dot")
        if target.setdefault(key, new) != new:
            raise InvalidMap(f"{key} is renamed twice: to {target[key]} and to {new}")
    return RenameMap(modules, names)


def module_name(path: Path) -> str:
    """Return the dotted name of the module in a path relative to the root."""
    parts = path.with_suffix("").parts
    if parts[0] in ("operator", "examples") and len(parts) > 2:  # noqa: PLR2004 (folder, package, module)
        parts = parts[1 if parts[0] == "operator" else 2 :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_paths(root: Path, folders: Sequence[str] = SOURCE_FOLDERS) -> Iterator[Path]:
    """Yield the path of each Python file below the folders, relative to the root."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path.relative_to(root)
