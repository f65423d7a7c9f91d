"""Authorization: the rights of a principal over scope paths. Pure.

A reader sees its home scope, the ancestors of that, and granted scopes. It writes to its home and
to scopes granted with `write`. In scopes granted with `remember` it adds facts, and changes only
those of which it is the author. Every other scope does not exist for it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from kais import scopes
from knowledge_client.models import Grant, Quota, Verb

PLATFORM = "platform"
UNREVIEWED = ("draft", "rejected")
"""Review states in which agents do not see a fact."""
PrincipalType = Literal["human", "agent", "system"]


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


@dataclass(frozen=True)
class Principal:
    """A caller: its name, its home scope, and its grants besides the rights on its own path.

    `subject` is its identity in the authentication mode, empty where that is the name.
    `memory` is the scope of facts that name none, if that is not home. Without `writes_at_home`,
    the principal needs a grant to write there.
    """

    name: str
    type: PrincipalType
    home: str
    grants: tuple[Grant, ...] = ()
    quota: Quota | None = None
    subject: str = ""
    memory: str | None = None
    writes_at_home: bool = True

    @property
    def default_scope(self) -> str:
        """Return the scope of facts that name none."""
        return self.memory or self.home

    @property
    def author(self) -> str | None:
        """Return what the facts of an agent name as their author; None for others.

        The home of a cell is its own and outlives its account. Several callers can have a wider
        scope as their home, so that the name tells them apart.
        """
        if self.type != "agent":
            return None
        is_cell = self.home.rpartition("/")[2].startswith("cell:")
        return self.home if is_cell else self.name

    @property
    def identity(self) -> str:
        """Return a text that is unique to the principal, even among principals of the same name.

        Type, home and subject have no line breaks, and the name comes last.
        """
        return f"{self.type}\n{self.home}\n{self.subject}\n{self.name}"

    def as_agent(self) -> Principal:
        """Return the principal as an agent that acts on its behalf.

        It reads and writes where the principal does; it sees no drafts, and has no other verb.
        """
        if self.type == "agent":
            return self
        grants = tuple(
            grant.model_copy(update={"verbs": verbs})
            for grant in self.grants
            if (verbs := _verbs_of_agents(grant.verbs))
        )
        return dataclasses.replace(self, type="agent", grants=grants)

    @property
    def view(self) -> View:
        """Return the principal's view; agents do not see facts before their approval."""
        readable = [g for g in self.grants if "read" in g.verbs or "admin" in g.verbs]
        scope_ranges = tuple(ScopeRange(g.scope, g.subtree) for g in readable)
        return View(self.home, scope_ranges, drafts=self.type != "agent")

    def has_verb(self, verb: Verb, path: str) -> bool:
        """Return whether the principal has the verb on the path.

        `admin` includes the others, and `write` includes `remember`. Home is writable, unless a
        grant of `remember` on exactly that scope limits it.
        """
        if (
            path == self.home
            and self.writes_at_home
            and (verb == "remember" or (verb == "write" and not self._only_remembers_at_home))
        ):
            return True
        sufficient = {verb, "admin", *(("write",) if verb == "remember" else ())}
        return any(
            ScopeRange(grant.scope, grant.subtree).covers(path)
            for grant in self.grants
            if sufficient.intersection(grant.verbs)
        )

    @property
    def _only_remembers_at_home(self) -> bool:
        return any(g.scope == self.home and "remember" in g.verbs for g in self.grants)

    def administers_all_below(self, path: str) -> bool:
        """Return whether the principal has every verb at and below the path."""
        return any(
            grant.subtree and "admin" in grant.verbs and contains(grant.scope, path)
            for grant in self.grants
        )


def _verbs_of_agents(verbs: Iterable[Verb]) -> tuple[Verb, ...]:
    granted = frozenset(verbs)
    if "admin" in granted:
        return _AGENT_VERBS
    return tuple(verb for verb in _AGENT_VERBS if verb in granted)


_AGENT_VERBS: tuple[Verb, ...] = ("read", "remember", "write")
ALL_VERBS: tuple[Verb, ...] = get_args(Verb)


def administrator(name: str, kind: PrincipalType) -> Principal:
    """Return a principal with every verb on every scope."""
    grant = Grant(scope=PLATFORM, subtree=True, verbs=ALL_VERBS)
    return Principal(name, kind, PLATFORM, (grant,), subject=name)


def nearest_first(paths: Iterable[str]) -> tuple[str, ...]:
    """Order scopes from the deepest to the widest, equal depths by path."""
    return tuple(sorted(paths, key=lambda path: (path == PLATFORM, -path.count("/"), path)))
