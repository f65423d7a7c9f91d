"""List every module with its length in lines and the first sentence of its docstring.

Usage: scripts/rooms.py [WORD...]

With words, only the modules in whose path or sentence all of them stand.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    *("kais", "operator/kais_operator", "knowledge_service", "knowledge_client", "kais_cli"),
    *("kais_rendering", "kais_cluster", "examples", "bench", "scripts", "e2e", "tests"),
)


def rooms(folders: Sequence[str] = FOLDERS) -> Iterator[tuple[str, str]]:
    """Give path and sentence of each module that says one, folder by folder."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text()))
            if said:
                yield str(path.relative_to(ROOT)), " ".join(said.split("\n\n")[0].split())


def main(words: Sequence[str]) -> int:
    """Print those that have all the words; 1 when there are none."""
    wanted = [word.casefold() for word in words]
    found = [
        (path, said)
        for path, said in rooms()
        if all(word in f"{path} {said}".casefold() for word in wanted)
    ]
    if not found:
        print(f"no module has all of: {' '.join(words)}", file=sys.stderr)  # noqa: T201
    width = max((len(path) for path, _ in found), default=0)
    for path, said in found:
        length = len((ROOT / path).read_text().splitlines())
        print(f"{path:<{width}} {length:>4}  {said}")  # noqa: T201
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
