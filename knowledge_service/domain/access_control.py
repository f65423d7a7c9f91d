"""Access control by scope: which scopes and facts a reader sees. Pure.

A reader sees its home scope, the ancestors of that, and granted scopes. All other scopes are
invisible to it. `principals` decides what a caller may write.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from kais import scopes

PLATFORM = "platform"
UNREVIEWED = ("draft", "rejected")
"""Review states in which agents do not see a fact."""


def contains(outer: str, inner: str) -> bool:
    """Return whether `inner` is `outer` or below it."""
    return outer in (PLATFORM, inner) or inner.startswith(outer + "/")


# A few paths are looked up often; 4,096 is an arbitrary bound.
@functools.lru_cache(maxsize=4096)
def lineage(path: str) -> tuple[str, ...]:
    """Return the path and its ancestors, nearest first; the last is always `platform`."""
    return tuple(str(scope) for scope in scopes.visible_from(scopes.Scope.parse(path)))


def realm_of(path: str) -> str:
    """Return the realm of a path, or `platform`."""
    return path.split("/", 1)[0]


@dataclass(frozen=True)
class ScopeRange:
    """One scope, or with `subtree` the scope and everything below it."""

    scope: str
    subtree: bool

    def covers(self, path: str) -> bool:
        """Return whether the range includes the path."""
        return path == self.scope or (self.subtree and contains(self.scope, path))


@dataclass(frozen=True)
class View:
    """The scopes that one reader may see. Every read of a store takes a view, so none can omit it.

    `drafts` includes facts that wait for a review or were rejected.
    """

    home: str
    scope_ranges: tuple[ScopeRange, ...] = ()
    drafts: bool = True

    def can_read_fact(self, path: str, review: str) -> bool:
        """Return whether a fact of the scope with this review state is visible."""
        return self.can_read(path) and (self.drafts or review not in UNREVIEWED)

    def can_read(self, path: str) -> bool:
        """Return whether the path is home, an ancestor of it, or granted."""
        return contains(path, self.home) or any(reach.covers(path) for reach in self.scope_ranges)

    def can_read_subtree(self, path: str) -> bool:
        """Return whether everything at and below the path is visible."""
        return any(reach.subtree and contains(reach.scope, path) for reach in self.scope_ranges)


EVERYTHING = View(PLATFORM, (ScopeRange(PLATFORM, subtree=True),))


def nearest_first(paths: Iterable[str]) -> tuple[str, ...]:
    """Order scopes from the deepest to the widest, equal depths by path."""
    return tuple(sorted(paths, key=lambda path: (path == PLATFORM, -path.count("/"), path)))
