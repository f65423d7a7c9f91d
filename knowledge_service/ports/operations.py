"""Port for operations of several acts, which the caller has authorized and validated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowledge_client.models import ActResult, Alias, AliasIn, Revised
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports.links import NewLink
from knowledge_service.ports.queries import ActionContext, IdempotencyKey

_FACT_OF_ACT = re.compile(r"act:([0-9]{1,4})")


def act_number(reference: str | None) -> int | None:
    """Return N if a reference is `act:N`, the fact of an earlier act of the same operation."""
    match = _FACT_OF_ACT.fullmatch(reference or "")
    return int(match[1]) if match else None


@dataclass(frozen=True)
class StoreFact:
    """Remember a fact; its `about` may be `act:N`."""

    new: NewFact


@dataclass(frozen=True)
class ReviseFact:
    """Revise a fact; `changes` maps the stored names of fields to new values."""

    fact_id: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class RetractFact:
    """Retract a fact."""

    fact_id: str


@dataclass(frozen=True)
class LinkFacts:
    """Make a link."""

    new: NewLink


@dataclass(frozen=True)
class UnlinkFacts:
    """Remove a link, if it exists."""

    from_id: str
    to_id: str
    type: str


@dataclass(frozen=True)
class SetAlias:
    """Assign an alias to a fact; with `move`, a fact that has it loses it."""

    fact_id: str
    alias: AliasIn
    move: bool = False


@dataclass(frozen=True)
class RemoveAlias:
    """Free an alias of a fact, if the fact has it."""

    fact_id: str
    alias: Alias


StoreAct = StoreFact | ReviseFact | RetractFact | LinkFacts | UnlinkFacts | SetAlias | RemoveAlias


class OperationStore(Protocol):
    """Operations of one or several acts, each in one write."""

    def perform(self, acts: Sequence[StoreAct], context: ActionContext) -> tuple[ActResult, ...]:
        """Perform all acts in order, or none; undo reverts all of them.

        Raises:
            NotFound: a fact does not exist.
            Conflict: the state of a fact does not permit its act.
            Forbidden: an act is about a fact that the actor may only confirm.
            PreviouslyRetracted: an equal fact was retracted.
        """
        ...

    def revise(self, fact_id: str, changes: Mapping[str, Any], context: ActionContext) -> Revised:
        """Replace a live fact by a successor with other values, which keeps its names and links.

        Raises:
            NotFound: no such fact.
            Conflict: the fact is closed, nothing would change, or another live fact is equal.
            PreviouslyRetracted: a fact equal to the successor was retracted in the scope.
        """
        ...

    def performed(self, idempotency_key: IdempotencyKey) -> tuple[ActResult, ...] | None:
        """Return the stored results of an operation with this key, or None.

        Raises:
            IdempotencyConflict: the key was used with another body.
        """
        ...
