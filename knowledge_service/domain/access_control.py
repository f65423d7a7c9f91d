"""Who sees and does what where: the rights of a principal over scope paths. Pure.

A reader sees its home, the ancestors of that, and what it was granted; it writes to its home and
where it was granted `write`. Everything else does not exist for it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kais import scopes
from knowledge_client.models import Grant, Quota, Verb

PLATFORM = "platform"
UNREVIEWED = ("draft", "rejected")
"""States of a review in which agents do not see a fact."""
PrincipalType = Literal["human", "agent", "system"]


def contains(outer: str, inner: str) -> bool:
    """Tell whether `inner` is `outer` or lies below it."""
    return outer in (PLATFORM, inner) or inner.startswith(outer + "/")


# Few paths are named again and again; 4,096 of them is an arbitrary number.
@functools.lru_cache(maxsize=4096)
def lineage(path: str) -> tuple[str, ...]:
    """Return the path and its ancestors, nearest first; the last is always `platform`."""
    return tuple(str(scope) for scope in scopes.visible_from(scopes.Scope.parse(path)))


def realm_of(path: str) -> str:
    """Return the realm that a path lies in, or `platform`."""
    return path.split("/", 1)[0]


@dataclass(frozen=True)
class ScopeRange:
    """One scope, or it and everything below."""

    scope: str
    subtree: bool

    def covers(self, path: str) -> bool:
        """Tell whether the path is in reach."""
        return path == self.scope or (self.subtree and contains(self.scope, path))


@dataclass(frozen=True)
class View:
    """What one reader may see. Stores take it with every read, so that no read is without one.

    `drafts` tells whether facts that wait for their review, or failed it, are seen as well.
    """

    home: str
    scope_ranges: tuple[ScopeRange, ...] = ()
    drafts: bool = True

    def can_read_fact(self, path: str, review: str) -> bool:
        """Tell whether a fact of a scope with that state of its review is seen."""
        return self.can_read(path) and (self.drafts or review not in UNREVIEWED)

    def can_read(self, path: str) -> bool:
        """Tell whether the path is home, an ancestor of it, or granted."""
        return contains(path, self.home) or any(reach.covers(path) for reach in self.scope_ranges)

    def can_read_subtree(self, path: str) -> bool:
        """Tell whether everything at and below the path is seen."""
        return any(reach.subtree and contains(reach.scope, path) for reach in self.scope_ranges)


EVERYTHING = View(PLATFORM, (ScopeRange(PLATFORM, subtree=True),))


@dataclass(frozen=True)
class Principal:
    """A caller: who it is, where its home is, which verbs it has beside reading its own path.

    `subject` is what the mode of authentication knows it by, empty where that is the name.
    """

    name: str
    type: PrincipalType
    home: str
    grants: tuple[Grant, ...] = ()
    quota: Quota | None = None
    subject: str = ""

    @property
    def identity(self) -> str:
        """Return what tells the principal from all others, those of the same name too.

        Type, home and subject have no line breaks, and the name comes last.
        """
        return f"{self.type}\n{self.home}\n{self.subject}\n{self.name}"

    @property
    def view(self) -> View:
        """Return what the principal may read; an agent sees no fact before it is approved."""
        readable = [g for g in self.grants if "read" in g.verbs or "admin" in g.verbs]
        scope_ranges = tuple(ScopeRange(g.scope, g.subtree) for g in readable)
        return View(self.home, scope_ranges, drafts=self.type != "agent")

    def has_verb(self, verb: Verb, path: str) -> bool:
        """Tell whether the principal has the verb on the path; `admin` includes the others."""
        if verb == "write" and path == self.home:
            return True
        return any(
            ScopeRange(grant.scope, grant.subtree).covers(path)
            for grant in self.grants
            if verb in grant.verbs or "admin" in grant.verbs
        )

    def administers_all_below(self, path: str) -> bool:
        """Tell whether the principal has every verb at and below the path."""
        return any(
            grant.subtree and "admin" in grant.verbs and contains(grant.scope, path)
            for grant in self.grants
        )


ALL_VERBS: tuple[Verb, ...] = ("read", "write", "review", "promote", "extract", "admin")


def administrator(name: str, kind: PrincipalType) -> Principal:
    """Return a principal that may do everything everywhere."""
    grant = Grant(scope=PLATFORM, subtree=True, verbs=ALL_VERBS)
    return Principal(name, kind, PLATFORM, (grant,), subject=name)


def nearest_first(paths: Iterable[str]) -> tuple[str, ...]:
    """Order scopes from the deepest to the widest, equal depths by name."""
    return tuple(sorted(paths, key=lambda path: (path == PLATFORM, -path.count("/"), path)))
