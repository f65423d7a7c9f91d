"""Join the clauses of a message, some of which are texts of a reviewer, a task or a user."""

from __future__ import annotations

_ENDS_OF_SENTENCES = (".", "?", "!", "…")


def append(text: str, clause: str) -> str:
    """Return the text followed by a clause: as a sentence of its own if the text ends as one does.

    So "Name the node." continues with ". The next attempt …" and not with ".; the next attempt …".
    """
    text = text.rstrip().rstrip(";:,")
    if not text or not clause:
        return text or clause
    if not text.endswith(_ENDS_OF_SENTENCES):
        return f"{text}; {clause}"
    return f"{text} {_capitalise(clause)}"


def introduce(text: str, output: str) -> str:
    """Return the text followed by the output of a task or an agent, unchanged."""
    text = text.rstrip().rstrip(";:,")
    if not text or not output:
        return text or output
    return f"{text} {output}" if text.endswith(_ENDS_OF_SENTENCES) else f"{text}: {output}"


def _capitalise(clause: str) -> str:
    """Write the first letter as a capital, except in a name such as `kais.io/review`."""
    word = clause.partition(" ")[0]
    is_name = any(mark in word for mark in "./_=")
    return clause if is_name else clause[0].upper() + clause[1:]
