"""Facts that are told: together when they touch nothing, else one by one at the verbs' desk.

A fact that has no key and no equal touches nothing: many of these are one event and a few
statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge_client.models import Remembered
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import part, written
from knowledge_service.store.sqlite.desk import TableDesk
from knowledge_service.store.sqlite.projections import facts as projected
from knowledge_service.store.sqlite.transaction import Transaction
from knowledge_service.store.verbs import storing

_EQUAL = "SELECT 1 FROM fact WHERE scope_no = ? AND content_hash = ? LIMIT 1"
_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"


@dataclass(frozen=True)
class _Waiting:
    """A fact that touches nothing, to be written with others of its scope."""

    new: NewFact
    fact_id: str


def store_all(tx: Transaction, facts: Sequence[NewFact], actor: Actor) -> tuple[Remembered, ...]:
    """Store facts inside a write, or confirm their equals; the answers are in their order.

    Raises:
        RetractedBefore: an equal was retracted in the scope.
    """
    answers: list[Remembered] = []
    waiting: dict[int, list[_Waiting]] = {}
    hashes: set[tuple[int, bytes]] = set()
    for new in facts:
        scope_no = part.ensure_scope(tx, new.scope, actor.name)
        key = (scope_no, new.content_hash)
        if new.key_hash is None and key not in hashes and not tx.one(_EQUAL, key):
            hashes.add(key)
            waiting.setdefault(scope_no, []).append(_Waiting(new, tx.new_id()))
            fact_id = waiting[scope_no][-1].fact_id
            answers.append(Remembered(fact_id=fact_id, status="created"))
        else:
            _write(tx, waiting, actor)
            answers.append(storing.store(TableDesk(tx), new, actor))
    _write(tx, waiting, actor)
    return tuple(answers)


def _write(tx: Transaction, waiting: dict[int, list[_Waiting]], actor: Actor) -> None:
    for scope_no, facts in waiting.items():
        _record(tx, scope_no, facts, actor)
    waiting.clear()


def _record(tx: Transaction, scope_no: int, facts: Sequence[_Waiting], actor: Actor) -> None:
    first = int((tx.one(_NEXT) or (0,))[0]) + 1
    parts = [
        {"no": number, **written.fields(each.new, each.fact_id)}
        for number, each in enumerate(facts, start=first)
    ]
    event = tx.append(projected.RECORDED, scope_no=scope_no, actor=actor.name, parts=parts)
    hashes = [(each.new.content_hash, each.new.key_hash) for each in facts]
    projected.record(tx.connection, event, hashes)
    tx.index(scope_no, projected.texts(event))
