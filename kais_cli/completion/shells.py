"""The scripts that shells load, and the form in which each of them takes candidates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kais_cli.completion.candidates import Candidate

SCRIPTS = {
    "bash": """\
_kais_completion() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    COMPREPLY+=("$candidate")
  done < <(kais __complete bash "${COMP_LINE:0:$COMP_POINT}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o nosort -F _kais_completion kais 2>/dev/null || complete -F _kais_completion kais
""",
    "zsh": """\
#compdef kais
_kais_completion() {
  local -a candidates
  candidates=("${(@f)$(kais __complete zsh "${(j: :)words[1,$CURRENT]}" 2>/dev/null)}")
  [[ -n $candidates ]] && _describe kais candidates
}
compdef _kais_completion kais
""",
    "fish": """\
function __kais_completion
  kais __complete fish (commandline --current-process --cut-at-cursor | string collect) 2>/dev/null
end
complete --command kais --no-files --arguments '(__kais_completion)'
""",
}
"""Each calls `kais __complete SHELL LINE` with the line up to the cursor."""


@dataclass(frozen=True)
class Line:
    """A line up to the cursor.

    Attributes:
        words: those before the cursor, without the program.
        incomplete: the one at the cursor, without its quotes.
        kept: the part of `incomplete` that bash keeps; it replaces what follows.
    """

    words: list[str]
    incomplete: str
    kept: str


def split(line: str) -> Line | None:
    """Split a line; return None inside quotes, except for a single quote that opens a value."""
    try:
        words = shlex.split(line)
    except ValueError:
        return _split_open_value(line)
    if not words or _ends_between_words(line):
        return Line(words[1:], "", "")
    # bash replaces only what stands after the last = or :
    kept = words[-1][: len(words[-1]) - len(re.split("[=:]", words[-1])[-1])]
    return Line(words[1:-1], words[-1], kept)


def _split_open_value(line: str) -> Line | None:
    try:
        words = shlex.split(f"{line}'")
    except ValueError:
        return None
    before, _, value = line.rpartition("'")
    if not before.endswith("=") or not words[-1].endswith(f"={value}"):
        return None
    return Line(words[1:-1], words[-1], words[-1].removesuffix(value))


def _ends_between_words(line: str) -> bool:
    """Return whether a character typed next begins a word: the last space is not escaped."""
    return len(shlex.split(f"{line}x")) > len(shlex.split(line))


def format_candidates(shell: str, candidates: Sequence[Candidate], *, kept: str = "") -> str:
    """Format candidates, one per line, so that no shell interprets a value.

    zsh and fish quote by themselves; bash replaces what follows `kept`, and quotes nothing.
    """
    if shell == "bash":
        rest = [candidate.value.removeprefix(kept) for candidate in candidates]
        return "".join(f"{shlex.quote(value)}\n" for value in rest if value)
    if shell == "zsh":
        return "".join(f"{_escape_for_zsh(c.value)}:{_one_line(c.help)}\n" for c in candidates)
    return "".join(f"{c.value}\t{_one_line(c.help)}\n" for c in candidates)


def plain_words(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that need no quotes; kubectl serves all shells, and quotes nothing."""
    return [
        candidate for candidate in candidates if shlex.quote(candidate.value) == candidate.value
    ]


def _escape_for_zsh(value: str) -> str:
    return value.replace("\\", r"\\").replace(":", r"\:")


def _one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())
