"""Performs the acts of an operation: all of them or none, with one undo."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from knowledge_client.models import ActResult
from knowledge_service.errors import Forbidden
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import corrections, names, revise, store_fact
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext
from knowledge_service.ports.operations import (
    LinkFacts,
    RemoveAlias,
    RetractFact,
    ReviseFact,
    SetAlias,
    StoreAct,
    StoreFact,
    UnlinkFacts,
    act_number,
)


def perform_acts(
    uow: FactUnitOfWork, acts: Sequence[StoreAct], context: ActionContext
) -> tuple[ActResult, ...]:
    """Perform acts in order, as one operation.

    Raises:
        NotFound: a fact does not exist.
        Conflict: the state of a fact does not permit its act.
        Forbidden: an act is about a fact that the actor only confirmed.
        PreviouslyRetracted: an equal fact was retracted, rejected or replaced in review.
    """
    uow.begin(acts=len(acts))
    performer = _Performer(uow, context)
    for act in acts:
        performer.results.append(performer.perform(act))
    return tuple(performer.results)


class _Performer:
    """Performs one act after the other; later acts refer to the facts of earlier ones."""

    def __init__(self, uow: FactUnitOfWork, context: ActionContext) -> None:
        self._uow = uow
        self._context = context
        self.results: list[ActResult] = []

    def perform(self, act: StoreAct) -> ActResult:
        """Perform an act."""
        match act:
            case StoreFact():
                return self._store(act)
            case ReviseFact():
                return self._revise(act)
            case RetractFact():
                return self._retract(act)
            case LinkFacts():
                return self._link(act)
            case UnlinkFacts():
                return self._unlink(act)
            case SetAlias() | RemoveAlias():
                return self._change_alias(act)

    def _store(self, act: StoreFact) -> ActResult:
        new = act.new
        if act_number(new.about) is not None:
            new = dataclasses.replace(new, about=self._id(new.about))
        stored = store_fact.store_within_transaction(self._uow, new, self._context.actor)
        aliases = names.assign_aliases(self._uow, new, stored.fact_id, self._context.actor)
        return ActResult(
            act="remember",
            status=stored.status,
            fact_id=stored.fact_id,
            aliases=aliases,
            superseded=stored.superseded,
            contradicts=stored.contradicts,
        )

    def _revise(self, act: ReviseFact) -> ActResult:
        fact_id = self._changeable(act.fact_id)
        revised = revise.revise_within_operation(self._uow, fact_id, act.changes, self._context)
        return ActResult(act="revise", status="revised", fact_id=revised.successor_id)

    def _retract(self, act: RetractFact) -> ActResult:
        fact_id = self._changeable(act.fact_id)
        corrections.retract_within_operation(self._uow, fact_id, self._context)
        return ActResult(act="retract", status="retracted", fact_id=fact_id)

    def _link(self, act: LinkFacts) -> ActResult:
        start_id = self._changeable(act.new.from_id)
        end_id = self._id(act.new.to_id)
        start = require_fact(self._uow, start_id)
        require_fact(self._uow, end_id)
        new = act.new
        live = self._uow.live_link(start_id, end_id, new.type)
        if live or start_id == end_id:
            return ActResult(
                act="link", status="unchanged", fact_id=start_id, link_id=live.id if live else None
            )
        part = {
            "id": self._uow.new_id(), "from": start_id, "to": end_id, "type": new.type,
            "of": start_id, "weight": new.weight, "data": new.data,
            "valid_from": times.to_us(new.valid_from), "valid_until": times.to_us(new.valid_until),
        }  # fmt: skip
        parts = [{name: value for name, value in part.items() if value is not None}]
        self._uow.record("link.made", scope=start.scope, actor=self._context.actor, parts=parts)
        return ActResult(act="link", status="linked", fact_id=start_id, link_id=str(part["id"]))

    def _unlink(self, act: UnlinkFacts) -> ActResult:
        start_id = self._changeable(act.from_id)
        end_id = self._id(act.to_id)
        start = require_fact(self._uow, start_id)
        live = self._uow.live_link(start_id, end_id, act.type)
        if live is None:
            return ActResult(act="unlink", status="unchanged", fact_id=start_id)
        part = {"id": live.id, "from": start_id, "to": end_id, "of": start_id}
        self._uow.record("link.closed", scope=start.scope, actor=self._context.actor, parts=[part])
        return ActResult(act="unlink", status="unlinked", fact_id=start_id, link_id=live.id)

    def _change_alias(self, act: SetAlias | RemoveAlias) -> ActResult:
        fact_id = self._changeable(act.fact_id)
        if isinstance(act, RemoveAlias):
            return self._remove_alias(act, fact_id)
        alias, is_new = names.set_alias(self._uow, fact_id, act.alias, self._context, move=act.move)
        status: Literal["alias_set", "unchanged"] = "alias_set" if is_new else "unchanged"
        return ActResult(act="set_alias", status=status, fact_id=fact_id, aliases=(alias,))

    def _remove_alias(self, act: RemoveAlias, fact_id: str) -> ActResult:
        if not names.remove_alias(self._uow, fact_id, act.alias, self._context):
            return ActResult(act="remove_alias", status="unchanged", fact_id=fact_id)
        return ActResult(
            act="remove_alias", status="alias_removed", fact_id=fact_id, aliases=(act.alias,)
        )

    def _id(self, reference: str | None) -> str:
        """Return the id of a reference."""
        number = act_number(reference)
        return str(reference) if number is None else self.results[number].fact_id

    def _changeable(self, reference: str) -> str:
        """Return the id of a fact to change.

        The rights to a fact with an id were checked before. The fact of an earlier act may be the
        equal fact of another author.

        Raises:
            Forbidden: the actor may confirm the fact, but not change it.
        """
        number = act_number(reference)
        if number is None:
            return reference
        fact = require_fact(self._uow, self.results[number].fact_id)
        may_change = self._context.may_change
        if may_change is not None and not may_change(fact):
            raise Forbidden(
                f"{self._context.actor.name} may not change fact {fact.id}, which is equal to the"
                f" fact of act {number} and which another wrote"
            )
        return fact.id
