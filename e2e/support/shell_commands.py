"""The commands of a shell text, as lists of arguments, without running them."""

import re
import shlex
from collections.abc import Iterator

PROMPT = "$ "

_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_HERE_DOCUMENT = re.compile(r"<<-?\s*'?(\w+)'?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WORDS_BEFORE = frozenset({"!", "if", "while", "until", "then", "do", "else", "time", "env"})
_SUBSTITUTED = "VALUE"
"""What an argument from a substitution becomes."""


def commands(text: str) -> list[list[str]]:
    """Return each simple command with its arguments, those in substitutions included.

    Redirections, assignments and the bodies of here-documents are left out.
    """
    return [command for line in _lines(text) for command in _of_line(line)]


def transcript(text: str) -> list[list[str]]:
    """Return the commands that a transcript shows after its prompts."""
    typed = [line.removeprefix(PROMPT) for line in text.splitlines() if line.startswith(PROMPT)]
    return commands("\n".join(typed))


def _lines(text: str) -> Iterator[str]:
    end, pending = "", ""
    for line in text.splitlines():
        if end:
            end = "" if line.strip() == end else end
            continue
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        if not _is_open(pending):
            here = _HERE_DOCUMENT.search(pending)
            end = here[1] if here else ""
            yield pending
            pending = ""
        else:
            pending += "\n"
    if pending:
        yield pending


def _is_open(text: str) -> bool:
    """Whether a quotation is not closed, so that the next line belongs to it."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _of_line(line: str) -> Iterator[list[str]]:
    while (match := _SUBSTITUTION.search(line)) is not None:
        yield from _of_line(match[1])
        line = line[: match.start()] + _SUBSTITUTED + line[match.end() :]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    is_file = False
    for token in lexer:
        if set(token) <= set("<>&") and set(token) & set("<>"):
            is_file = True
            if command and command[-1].isdigit():
                command.pop()
        elif set(token) <= set("();<>|&"):
            yield from _without_prefix(command)
            command, is_file = [], False
        elif is_file:
            is_file = False
        else:
            command.append(token)
    yield from _without_prefix(command)


def _without_prefix(command: list[str]) -> Iterator[list[str]]:
    first = next(
        (
            at
            for at, token in enumerate(command)
            if token not in _WORDS_BEFORE and not _ASSIGNMENT.match(token)
        ),
        None,
    )
    if first is not None:
        yield command[first:]
