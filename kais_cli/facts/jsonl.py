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
from typing import Annotated, Any

import pydantic
import pydantic_core

from kais import scopes
from kais_cli.facts.detail_view import pluralise
from knowledge_client import models
from knowledge_client.base_model import to_snake_case

_ALIAS = "alias:"
# Fields of a fact that are not copied from a line: the importer decides them.
_DECIDED_FIELDS = frozenset(
    {"scope", "about", "position", "source", "review", "force", "run", "attempt"}
)
_STORED_FIELDS = tuple(
    declared.alias or name
    for name, declared in models.FactIn.model_fields.items()
    if name not in _DECIDED_FIELDS
)
_INTERPRETED_FIELDS = (
    "id",
    "about",
    "position",
    "review",
    "flags",
    "lifecycle",
    "scope",
    "recorded_at",
)
_REPLACED_FIELDS = ("source", "version", "closed_at", "closed_reason")
"""Fields that the target store assigns."""
_RECOGNISED_FIELDS = frozenset((*_STORED_FIELDS, *_INTERPRETED_FIELDS, *_REPLACED_FIELDS))
# The service sets these flags again from the text; all other flags depend on the fact, not its
# text.
_CONTENT_FLAGS = frozenset({"instructions"})
_DROPPED_FIELD_REASONS = {
    "about": "about and position, which name no fact of a line before",
    "review": "review, for whom `kais knowledge approve` is asked again",
    "flags": "flags, and stored as drafts for a reviewer to decide",
}


def _require_json(data: Any) -> Any:
    """Return data that can be sent; Python's parser accepts more than JSON has."""
    try:
        pydantic_core.to_json(data)  # refuses lone surrogates and deep nesting
        json.dumps(data, allow_nan=False)
    except ValueError as exc:
        raise pydantic_core.PydanticCustomError(
            "not_json",
            "holds NaN, an infinite number or half a character, or is nested too deeply",
        ) from exc
    return data


class _Line(pydantic.BaseModel):
    """The fields of a line that are read before a fact is made of it, or that a fact may not check.

    An id may be a number: it only connects lines of the file.
    """

    model_config = pydantic.ConfigDict(coerce_numbers_to_str=True)

    id: str | None = None
    about: str | None = None
    flags: list[str] | None = None
    data: Annotated[Any, pydantic.AfterValidator(_require_json)] = None


class Ineligible(Exception):
    """The fact of a line is not imported; the message names such facts in the plural."""


@dataclass(frozen=True, kw_only=True)
class ScopeMapping:
    """Maps the scopes of a file to target scopes.

    `scope` is the target of all facts. Without it, a fact goes to the scope of its line, or with
    `realm` to the same place below that realm. Facts of the platform cannot be copied into a
    realm.
    """

    scope: str | None = None
    realm: str | None = None

    def scope_of(self, tree: dict[str, Any]) -> str | None:
        """Return the target scope of a line; None for the caller's home.

        Raises:
            InvalidScope: The scope of the line is invalid.
            Ineligible: The fact belongs to the platform, which cannot be copied into a realm.
        """
        if self.scope:
            return self.scope
        line_scope = tree.get("scope")
        if line_scope is None:
            return f"realm:{self.realm}" if self.realm else None
        scope = scopes.Scope.parse(str(line_scope))
        if self.realm is None:
            return str(scope)
        if scope == scopes.PLATFORM:
            raise Ineligible("of the platform left out: see --scope")
        return str(scopes.Scope(self.realm, scope.formation, scope.cell))


@dataclass
class Reader:
    """Reads lines in order; `referenced_ids` are the ids that lines refer to, None if unknown."""

    scope_mapping: ScopeMapping
    referenced_ids: frozenset[str] | None = None
    _stored_ids: dict[str, str | None] = field(default_factory=dict)
    _dropped_fields: Counter[str] = field(default_factory=Counter)

    def depends_on_pending(self, tree: dict[str, Any]) -> bool:
        """Return whether a line is about a fact of an earlier line that is not stored yet."""
        reference = tree.get("about")
        if not isinstance(reference, str):
            return False
        return reference.startswith(_ALIAS) or (
            reference in self._stored_ids and self._stored_ids[reference] is None
        )

    def read(self, tree: dict[str, Any]) -> models.FactIn:
        """Convert a line to a fact.

        Raises:
            Ineligible: The fact is not to be stored.
            InvalidScope: The scope of the line is invalid.
            ValidationError: The line is not a fact.
        """
        tree = {to_snake_case(name): value for name, value in tree.items()}
        line = _Line.model_validate(tree)
        scope = self.scope_mapping.scope_of(tree)
        if tree.get("lifecycle", "live") != "live" or tree.get("review") == "rejected":
            raise Ineligible("that are not live left out")
        fields = {name: tree[name] for name in _STORED_FIELDS if name in tree}
        if "subject" in fields and "predicate" in fields and "valid_from" not in fields:
            # The time of recording decides which statement supersedes another, not the order of
            # lines.
            fields["valid_from"] = tree.get("recorded_at")
        refs = () if line.id is None else (models.Ref(type="fact", id=line.id),)
        source = models.Source(type="import", refs=refs)
        fields |= self._resolve_reference(line.about, tree.get("position"))
        fields |= self._review(tree.get("review") or "none", line.flags or ())
        self._dropped_fields.update([name for name in tree if name not in _RECOGNISED_FIELDS])
        fact = models.FactIn(**fields, scope=scope, source=source)
        is_referenced = self.referenced_ids is None or line.id in self.referenced_ids
        if line.id is not None and is_referenced:
            self._stored_ids.setdefault(line.id, None)
        return fact

    def record_stored(self, fact: models.FactIn, stored_id: str) -> None:
        """Record the id under which a fact was stored."""
        for ref in fact.source.refs if fact.source else ():
            if ref.id in self._stored_ids:
                self._stored_ids[ref.id] = stored_id

    def notes(self) -> Iterator[str]:
        """Yield a note for each field that was dropped from imported facts."""
        for name, count in sorted(self._dropped_fields.items()):
            explanation = _DROPPED_FIELD_REASONS.get(
                name, f"{json.dumps(name)}, which an import does not take"
            )
            yield f"left out of {pluralise(count, 'fact')}: {explanation}"

    def _resolve_reference(self, reference: str | None, position: Any) -> dict[str, Any]:
        if reference is None:
            return {"position": position}
        stored_id = reference if reference.startswith(_ALIAS) else self._stored_ids.get(reference)
        if stored_id is None:
            self._dropped_fields["about"] += 1
            return {}
        return {"about": stored_id, "position": position}

    def _review(self, review: Any, flags: Iterable[str]) -> dict[str, Any]:
        if review == "approved":
            self._dropped_fields["review"] += 1
            review = "none"
        if not _CONTENT_FLAGS.issuperset(flags):
            self._dropped_fields["flags"] += 1
            review = "draft"
        return {"review": review}


def referenced_fact_ids(lines: Iterable[bytes]) -> frozenset[str]:
    """Return the ids that lines have in `about`; the importer keeps only these in memory."""
    ids = set()
    for data in lines:
        if b'"about"' in data:
            try:
                tree = json.loads(data)
            except (ValueError, RecursionError):
                continue  # the import names the line
            if isinstance(tree, dict) and isinstance(tree.get("about"), str):
                ids.add(tree["about"])
    return frozenset(ids)
