"""Callers: their home, their grants, what they may do where, and the author of their facts. Pure.

A principal writes to its home and to scopes granted with `write`. In scopes granted with `remember`
it adds facts, and changes only those of which it is the author.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from knowledge_client.models import Grant, Quota, Verb
from knowledge_service.domain.access_control import PLATFORM, ScopeRange, View, contains

PrincipalType = Literal["human", "agent", "system"]


@dataclass(frozen=True)
class Principal:
    """A caller: its name, its home scope, and its grants besides the rights on its own path.

    `subject` is its identity in the authentication mode, empty if that is the name. `memory` is the
    scope of facts without a scope, if it is not `home`. Without `writes_at_home`, the principal
    needs a grant to write there.
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
        """Return the scope of facts without a scope."""
        return self.memory or self.home

    @property
    def author(self) -> str | None:
        """Return the author of an agent's facts; None for other principals.

        For a cell it is the home scope, which outlives the account. Other agents may share a home,
        so it is their name.
        """
        if self.type != "agent":
            return None
        is_cell = self.home.rpartition("/")[2].startswith("cell:")
        return self.home if is_cell else self.name

    @functools.cached_property
    def identity(self) -> str:
        """Return a text that is unique to the principal, even among principals of the same name.

        Type, home and subject have no line breaks, and the name comes last.
        """
        return f"{self.type}\n{self.home}\n{self.subject}\n{self.name}"

    def as_agent(self) -> Principal:
        """Return the principal as an agent that acts on its behalf.

        The agent reads and writes where the principal does. It sees no drafts, and has no other
        verbs.
        """
        if self.type == "agent":
            return self
        grants = tuple(
            grant.model_copy(update={"verbs": verbs})
            for grant in self.grants
            if (verbs := _verbs_of_agents(grant.verbs))
        )
        return dataclasses.replace(self, type="agent", grants=grants)

    @functools.cached_property
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
