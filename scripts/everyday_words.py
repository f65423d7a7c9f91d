"""Report the share of everyday words among variables and parameters, by package.

Usage: python -m scripts.everyday_words [--list] [FOLDER...]

A name counts if all its parts are everyday words (`told`, `is_known`, `_what_was_said`). Such a
name does not describe its value, so a reader has to read the body. Each name counts once per
function. With --list the names are printed with their file and function.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts import rename_map

ROOT = Path(__file__).resolve().parent.parent
_TEXT = """
    about after again all also and anew any as asked asks away be been before began begun
    behind beside both came come comes did do does done each else ever every few for found
    gave give given gives goes gone got had has have heard hears here him his how instead into
    is it its keep keeping keeps kept knew know known knows later learnt least left less let
    like little look looked looks lot made make makes many me meant more most much my named
    near no nobody none not nothing of off on once one ones only or other others our ours out
    over own past place places put rather said same saw say says seen sees shown so some
    somebody soon stand standing stands still such taken takes tell telling tells than that
    the their them then there these they thing things this those till together told too took
    under until up us used very waits want wanted wants was way we well went were what when
    where whether which while who whole whom whose why will with within without word words
    work worked works written yet you your
"""
EVERYDAY_WORDS = frozenset(_TEXT.split())


def main(arguments: Sequence[str]) -> int:
    """Print the share of everyday words of each package."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=rename_map.SOURCE_FOLDERS)
    parser.add_argument("--list", action="store_true", help="print each such name")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        names = list(bound_names(ROOT, [folder]))
        everyday = [binding for binding in names if is_everyday(binding[2])]
        if options.list:
            for path, function, name in everyday:
                print(f"{path}:{function}.{name}")  # noqa: T201
        share = len(everyday) / len(names) if names else 0.0
        print(f"{folder:<24} {len(everyday):>5} of {len(names):>6}  {share:6.1%}")  # noqa: T201
    return 0


def is_everyday(name: str) -> bool:
    """Return whether all parts of a name are everyday words."""
    parts = [part for part in name.lower().split("_") if part]
    return bool(parts) and all(part in EVERYDAY_WORDS for part in parts)


def bound_names(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield file, function and name of each variable and parameter, once per function."""
    for path in rename_map.source_paths(root, folders):
        yield from (
            (str(path), *binding) for binding in names_of(ast.parse((root / path).read_text()))
        )


def names_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield function and name of each variable and parameter of a module, once per function."""
    yield from dict.fromkeys(_bindings(tree, ""))


def _bindings(node: ast.AST, owner: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        inside = owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{owner}.{child.name}".lstrip(".")
        elif isinstance(child, ast.arg) and child.arg not in ("self", "cls"):
            yield owner, child.arg
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield owner, child.id
        elif isinstance(child, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and child.name:
            yield owner, child.name
        yield from _bindings(child, inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
