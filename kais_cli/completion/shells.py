"""The scripts that shells load, and the form in which each of them takes candidates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from kais_cli.completion.candidates import Candidate

SCRIPTS = {
    "bash": """\
_kais_completion() {
  local IFS=$'\\n'
  COMPREPLY=($(kais __complete bash "${COMP_LINE:0:$COMP_POINT}" 2>/dev/null))
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o nosort -F _kais_completion kais
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


def split(line: str) -> tuple[list[str], str]:
    """Return the words before the cursor, without the program, and the one at the cursor."""
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    if not line or line[-1].isspace():
        return words[1:], ""
    return words[1:-1], words[-1]


def format_candidates(shell: str, candidates: Sequence[Candidate], incomplete: str) -> str:
    """Format candidates, one per line."""
    if shell == "bash":  # bash replaces only what stands after the last = or :
        kept_length = len(incomplete) - len(re.split("[=:]", incomplete)[-1])
        return "".join(f"{candidate.value[kept_length:]}\n" for candidate in candidates)
    if shell == "zsh":
        return "".join(
            f"{c.value.replace(':', chr(92) + ':')}:{_one_line(c.help)}\n" for c in candidates
        )
    return "".join(f"{c.value}\t{_one_line(c.help)}\n" for c in candidates)


def _one_line(text: str) -> str:
    return " ".join(text.split())
