"""Convert lines of JSON into facts for the service, and count what is not imported.

A line comes from an export or was written by hand. Its id, times of recording and source belong to
the original store; the target store assigns its own. A reference to the fact of an earlier line is
replaced by the id under which that fact was stored. Every dropped field is reported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kais import scopes
from kais_cli.facts.detail_view import counted
from knowledge_client import models

_ALIAS = "alias:"
_TAKEN = (
    "content", "kind", "title", "data", "schema", "subject", "predicate", "tags", "aliases",
    "confidence", "expires_at", "valid_from", "valid_until",
)  # fmt: skip
_LOOKED_AT = ("id", "about", "position", "review", "flags", "lifecycle", "scope", "recorded_at")
_NEW = ("source", "version", "closed_at", "closed_reason")
"""Fields that the target store assigns."""
_KNOWN = frozenset((*_TAKEN, *_LOOKED_AT, *_NEW))
# Who writes such a text again has it flagged again; other flags are about the fact, not its words.
_OF_WORDS = frozenset({"instructions"})
_WHY = {
    "about": "about and position, which name no fact of a line before",
    "review": "review, for whom `kais knowledge approve` is asked again",
    "flags": "flags, and stored as drafts for a reviewer to decide",
}


class NotTaken(Exception):
    """The fact of a line is not imported; the message names such facts in the plural."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Maps the scopes of a file to target scopes.

    `scope` takes them all. Else a fact goes to the scope of its line, or with `realm` to the same
    place below that realm; facts of the platform are nobody's to copy into a realm.
    """

    scope: str | None = None
    realm: str | None = None

    def of(self, tree: dict[str, Any]) -> str | None:
        """Name the scope for a line; None is where the caller is at home.

        Raises:
            InvalidScope: the line names none.
            NotTaken: the platform's facts do not go into a realm.
        """
        if self.scope:
            return self.scope
        named = tree.get("scope")
        if named is None:
            return f"realm:{self.realm}" if self.realm else None
        found = scopes.Scope.parse(str(named))
        if self.realm is None:
            return str(found)
        if found == scopes.PLATFORM:
            raise NotTaken("of the platform left out: see --scope")
        return str(scopes.Scope(self.realm, found.formation, found.cell))


@dataclass
class Reader:
    """Reads lines in their order. `wanted` are the ids that some line is about, None if unknown."""

    place: Place
    wanted: frozenset[str] | None = None
    _became: dict[str, str | None] = field(default_factory=dict)
    _left_out: Counter[str] = field(default_factory=Counter)

    def needs_stored(self, tree: dict[str, Any]) -> bool:
        """Tell whether a line is about a fact of a line before that is not stored yet."""
        about = tree.get("about")
        if not isinstance(about, str):
            return False
        return about.startswith(_ALIAS) or (about in self._became and self._became[about] is None)

    def read(self, tree: dict[str, Any]) -> models.FactIn:
        """Convert a line to a fact.

        Raises:
            NotTaken: it is none to be stored.
            InvalidScope: it names no scope.
            ValidationError: it is no fact.
        """
        scope = self.place.of(tree)
        if tree.get("lifecycle", "live") != "live" or tree.get("review") == "rejected":
            raise NotTaken("that are not live left out")
        kept = {name: tree[name] for name in _TAKEN if name in tree}
        if "subject" in kept and "predicate" in kept and "valid_from" not in kept:
            # What was known later stays what holds, whatever the order of the file.
            kept["valid_from"] = tree.get("recorded_at")
        refs = (models.Ref(type="fact", id=str(tree["id"])),) if "id" in tree else ()
        source = models.Source(type="import", refs=refs)
        kept |= self._about(tree) | self._review(tree)
        self._left_out.update([name for name in tree if name not in _KNOWN])
        fact = models.FactIn(**kept, scope=scope, source=source)
        if "id" in tree and (self.wanted is None or tree["id"] in self.wanted):
            self._became.setdefault(str(tree["id"]), None)
        return fact

    def stored(self, fact: models.FactIn, as_: str) -> None:
        """Record the id under which a fact was stored."""
        for ref in fact.source.refs if fact.source else ():
            if ref.id in self._became:
                self._became[ref.id] = as_

    def notes(self) -> Iterator[str]:
        """Yield a note for each field that was dropped from imported facts."""
        for name, count in sorted(self._left_out.items()):
            said = _WHY.get(name, f"{json.dumps(name)}, which an import does not take")
            yield f"left out of {counted(count, 'fact')}: {said}"

    def _about(self, tree: dict[str, Any]) -> dict[str, Any]:
        about, position = tree.get("about"), tree.get("position")
        if about is None:
            return {"position": position}
        became = about if str(about).startswith(_ALIAS) else self._became.get(str(about))
        if became is None:
            self._left_out["about"] += 1
            return {}
        return {"about": became, "position": position}

    def _review(self, tree: dict[str, Any]) -> dict[str, Any]:
        review = tree.get("review") or "none"
        if review == "approved":
            self._left_out["review"] += 1
            review = "none"
        if not _OF_WORDS.issuperset(tree.get("flags") or ()):
            self._left_out["flags"] += 1
            review = "draft"
        return {"review": review}


def named(lines: Iterable[bytes]) -> frozenset[str]:
    """Collect what facts of some lines are about: what becomes of these alone is kept in mind."""
    found = set()
    for data in lines:
        if b'"about"' in data:
            try:
                tree = json.loads(data)
            except (ValueError, RecursionError):
                continue  # the import names the line
            if isinstance(tree, dict) and isinstance(tree.get("about"), str):
                found.add(tree["about"])
    return frozenset(found)
