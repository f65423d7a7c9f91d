"""Scopes as people write them, and what they may have meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from kais import scopes
from kais_cli import errors

_LEVELS = ("realm", "formation", "cell")
_MEANT = {
    "namespace": "realm", "ns": "realm", "team": "formation", "blueprint": "formation",
    "agent": "cell", "pod": "cell",
}  # fmt: skip
"""Words that people use for a level."""


def path(text: str, *, namespace: str) -> str:
    """Write a scope as a path; a bare name is a formation of the namespace.

    Raises:
        UsageError: it is no scope; the message says what may have been meant.
    """
    given = text.strip()
    if not given:
        raise errors.UsageError("--scope is empty; leave it out, or name a scope")
    is_path = ":" in given or given == "platform"
    try:
        found = scopes.Scope.parse(given) if is_path else scopes.Scope(namespace, given)
    except scopes.InvalidScope as exc:
        meant = _meant(given, namespace)
        hint = f"; did you mean {meant}?" if meant else ""
        raise errors.UsageError(f"--scope {exc}{hint}") from exc
    return str(found)


def nearest(path: str, known: Iterable[str]) -> str | None:
    """Give the known scope that a path was most likely to be, None when none is like it.

    Names are compared without the words for levels, which all scopes share.
    """
    by_names = {_names(each): each for each in known}
    near = difflib.get_close_matches(_names(path), list(by_names), n=1, cutoff=0.7)
    return by_names[near[0]] if near else None


def _names(path: str) -> str:
    return "/".join(part.rpartition(":")[2] for part in path.split("/"))


def _meant(given: str, namespace: str) -> str | None:
    """Mend spelling: levels by other words, capitals, a slash for a colon, the realm left out."""
    parts = [part for part in re.split(r"[/\\]+", given.casefold()) if part]
    if parts == ["platform"]:
        return "platform"
    if len(parts) > 1 and parts[0] in _LEVELS:  # realm/demo/formation/x
        parts = [":".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    if any(part in _LEVELS for part in parts):
        return None  # a level without a name
    named: dict[str, str] = {}
    for place, part in enumerate(parts[: len(_LEVELS)]):
        level, colon, value = part.rpartition(":")
        level = _level(level) if colon else (_LEVELS[place] if len(parts) > 1 else "formation")
        named[level] = re.sub(r"[^a-z0-9.]+", "-", value).strip("-.")
    try:
        return str(scopes.Scope(**({"realm": namespace} | named)))
    except (scopes.InvalidScope, TypeError):
        return None


def _level(word: str) -> str:
    level = _MEANT.get(word, word)
    return next(iter(difflib.get_close_matches(level, _LEVELS, n=1)), level)
