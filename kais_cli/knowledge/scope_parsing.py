"""Parse scopes as people write them, and suggest corrections. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from kais import scopes
from kais_cli import errors

_LEVELS = ("realm", "formation", "cell")
_LEVEL_SYNONYMS = {
    "namespace": "realm", "ns": "realm", "team": "formation", "blueprint": "formation",
    "agent": "cell", "pod": "cell",
}  # fmt: skip
"""Words that people use for a level."""


def parse_scope(text: str, *, namespace: str) -> str:
    """Convert a scope to a path; a bare name is a formation of the namespace.

    Raises:
        UsageError: The text is not a scope; the message suggests a correction.
    """
    scope_text = text.strip()
    if not scope_text:
        raise errors.UsageError("--scope is empty; leave it out, or name a scope")
    is_path = ":" in scope_text or scope_text == "platform"
    try:
        scope = scopes.Scope.parse(scope_text) if is_path else scopes.Scope(namespace, scope_text)
    except scopes.InvalidScope as exc:
        correction = _corrected_path(scope_text, namespace)
        hint = f"; did you mean {correction}?" if correction else ""
        raise errors.UsageError(f"--scope {exc}{hint}") from exc
    return str(scope)


def closest_path(path: str, paths: Iterable[str]) -> str | None:
    """Return the known scope that is most similar to a path; None if none is similar.

    Names are compared without the level prefixes, which all scopes share.
    """
    by_names = {_level_names(candidate): candidate for candidate in paths}
    matches = difflib.get_close_matches(_level_names(path), list(by_names), n=1, cutoff=0.7)
    return by_names[matches[0]] if matches else None


def _level_names(path: str) -> str:
    return "/".join(part.rpartition(":")[2] for part in path.split("/"))


def _corrected_path(scope_text: str, namespace: str) -> str | None:
    """Correct the spelling: other names of levels, capitals, `/` for `:`, a missing realm."""
    parts = [part for part in re.split(r"[/\\]+", scope_text.casefold()) if part]
    if parts == ["platform"]:
        return "platform"
    if len(parts) > 1 and parts[0] in _LEVELS:  # realm/demo/formation/x
        parts = [":".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    if any(part in _LEVELS for part in parts):
        return None  # a level without a name
    names_by_level: dict[str, str] = {}
    for depth, part in enumerate(parts[: len(_LEVELS)]):
        level, colon, value = part.rpartition(":")
        level = _level(level) if colon else (_LEVELS[depth] if len(parts) > 1 else "formation")
        names_by_level[level] = re.sub(r"[^a-z0-9.]+", "-", value).strip("-.")
    try:
        return str(scopes.Scope(**({"realm": namespace} | names_by_level)))
    except (scopes.InvalidScope, TypeError):
        return None


def _level(text: str) -> str:
    level = _LEVEL_SYNONYMS.get(text, text)
    return next(iter(difflib.get_close_matches(level, _LEVELS, n=1)), level)
