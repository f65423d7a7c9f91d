"""Scopes: who sees which facts.

    platform
    realm:demo
    realm:demo/cell:solo                       a Cell outside a Formation
    realm:demo/formation:review-team
    realm:demo/formation:review-team/cell:lead-0

A reader sees its own scope and its ancestors; it writes to its own. The realm is the namespace.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

SEGMENT_LIMIT = 253  # the longest name of a Kubernetes object
_SEGMENT = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_GRAMMAR = "platform, realm:x, realm:x/formation:y, realm:x/formation:y/cell:z or realm:x/cell:z"


class Level(StrEnum):
    """The level of a scope, from the platform down to a cell."""

    PLATFORM = "platform"
    REALM = "realm"
    FORMATION = "formation"
    CELL = "cell"


class InvalidScope(ValueError):
    """A text or wire object is not a valid scope; the message explains the expected form."""


@dataclass(frozen=True, order=True)
class Scope:
    """One scope; without a realm it is the platform.

    Raises:
        InvalidScope: The names do not fit together, or one is not a valid segment.
    """

    realm: str | None = None
    formation: str | None = None
    cell: str | None = None

    def __post_init__(self) -> None:
        if self.realm is None and (self.formation or self.cell):
            raise InvalidScope("a formation or cell needs its realm")
        for segment in (self.realm, self.formation, self.cell):
            if segment is not None:
                _check_segment(segment)

    @property
    def level(self) -> Level:
        """The level of this scope."""
        if self.cell is not None:
            return Level.CELL
        if self.formation is not None:
            return Level.FORMATION
        return Level.PLATFORM if self.realm is None else Level.REALM

    def __str__(self) -> str:
        parts = (("realm", self.realm), ("formation", self.formation), ("cell", self.cell))
        return "/".join(f"{name}:{value}" for name, value in parts if value) or "platform"

    @property
    def parent(self) -> "Scope | None":
        """The next wider scope; None for the platform."""
        if self.realm is None:
            return None
        if self.cell is not None:
            return Scope(self.realm, self.formation)
        return Scope(self.realm) if self.formation is not None else PLATFORM

    def ancestors(self) -> tuple["Scope", ...]:
        """All wider scopes, nearest first; the platform is last."""
        ancestors: list[Scope] = []
        above = self.parent
        while above is not None:
            ancestors.append(above)
            above = above.parent
        return tuple(ancestors)

    def to_wire(self) -> dict[str, str]:
        """Return the object form that older clients use."""
        ids = {"realm_id": self.realm, "formation_id": self.formation, "cell_id": self.cell}
        return {"level": self.level.value, **{key: value for key, value in ids.items() if value}}

    @classmethod
    def parse(cls, path: str) -> Self:
        """Parse a path.

        Raises:
            InvalidScope: The text is not a path; the message contains the grammar.
        """
        if path == "platform":
            return cls()
        names: dict[str, str] = {}
        for part in path.split("/"):
            name, colon, value = part.partition(":")
            if not colon or name in names or name not in ("realm", "formation", "cell"):
                raise InvalidScope(_refusal(path))
            names[name] = value
        if list(names) not in _ORDERS:
            raise InvalidScope(_refusal(path))
        return cls(**names)


PLATFORM = Scope()
_ORDERS = (
    ["realm"],
    ["realm", "formation"],
    ["realm", "formation", "cell"],
    ["realm", "cell"],
)


def _refusal(path: str) -> str:
    return f'"{path[:120]}" is not a scope; write {_GRAMMAR}'


def is_segment(text: str) -> bool:
    """Whether a text is a valid name in a scope."""
    return len(text) <= SEGMENT_LIMIT and _SEGMENT.fullmatch(text) is not None


def _check_segment(segment: str) -> None:
    if not is_segment(segment):
        raise InvalidScope(
            f'"{segment[:120]}" is not a valid name in a scope; use up to {SEGMENT_LIMIT} '
            "lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
        )


def visible_from(reader: Scope) -> tuple[Scope, ...]:
    """Return all scopes whose facts a reader sees: its scope first, the platform last."""
    return (reader, *reader.ancestors())


def is_ancestor(wider: Scope, narrower: Scope) -> bool:
    """Whether `wider` is strictly above `narrower`."""
    return wider in narrower.ancestors()


def is_visible(scope: Scope, *, reader: Scope) -> bool:
    """Whether a reader sees the facts of a scope."""
    return scope in visible_from(reader)


def nearest_common(scopes: Iterable[Scope]) -> Scope:
    """Return the narrowest scope that all given scopes see; the platform for an empty list."""
    remaining = list(scopes)
    if not remaining:
        return PLATFORM
    return next(
        candidate
        for candidate in visible_from(remaining[0])
        if all(is_visible(candidate, reader=scope) for scope in remaining)
    )


def from_wire(data: str | Mapping[str, Any], *, home: Scope = PLATFORM) -> Scope:
    """Parse a scope from a path or `{"level": "formation", "realm_id": …, "formation_id": …}`.

    Both spellings of ids are accepted. An id that the level needs and the object lacks comes from
    `home`, the caller's scope, as long as the given ids are inside it. Ids below the level are
    ignored.

    Raises:
        InvalidScope: The level is unknown, an id is missing in both, or a name is invalid.
    """
    if isinstance(data, str):
        return Scope.parse(data)
    level = _level(data.get("level"))
    if level is Level.PLATFORM:
        return PLATFORM
    realm = _id(data, "realm") or home.realm
    if realm is None:
        raise InvalidScope(f"a scope of level {level} needs realm_id")
    if level is Level.REALM:
        return Scope(realm)
    formation = _id(data, "formation") or (home.formation if realm == home.realm else None)
    if level is Level.FORMATION:
        if formation is None:
            raise InvalidScope("a scope of level formation needs formation_id")
        return Scope(realm, formation)
    is_home_formation = realm == home.realm and formation == home.formation
    cell = _id(data, "cell") or (home.cell if is_home_formation else None)
    if cell is None:
        raise InvalidScope("a scope of level cell needs cell_id")
    return Scope(realm, formation, cell)


def _level(value: Any) -> Level:
    try:
        return Level(value)
    except ValueError:
        levels = ", ".join(Level)
        raise InvalidScope(f'"{value}" is not a scope level; use {levels}') from None


def _id(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(f"{name}_id", data.get(f"{name}Id"))
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidScope(f"{name}_id must be a string, got {value!r}")
    return value
