"""Aliases of facts and their sequence numbers, inside a write; and lookups of aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from knowledge_client.models import Alias, AliasIn, Remembered
from knowledge_service.domain import aliases
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base

_FIND = """SELECT f.id FROM alias a JOIN fact f USING(fact_no)
  WHERE a.scope_no = ? AND a.namespace = ? AND a.value = ?"""
_EVERYWHERE = """SELECT s.path, f.review, f.id FROM alias a JOIN scope s USING(scope_no)
  JOIN fact f ON f.fact_no = a.fact_no
  WHERE a.namespace = ? AND a.value = ? AND s.retired_at IS NULL ORDER BY s.path"""
_EVERYWHERE_SEEN = """SELECT s.path, f.review, f.id FROM json_each(?3) n CROSS JOIN alias a
  ON a.scope_no = n.value AND a.namespace = ?1 AND a.value = ?2
  JOIN scope s USING(scope_no) JOIN fact f ON f.fact_no = a.fact_no
  WHERE s.retired_at IS NULL ORDER BY s.path"""
_CROWDED = """SELECT EXISTS(SELECT 1 FROM alias INDEXED BY alias_name
  WHERE namespace = ? AND value = ? LIMIT 1 OFFSET ?)"""
_ALIASES_OF_FACT = """SELECT a.namespace, a.value FROM alias a JOIN fact f USING(fact_no)
  WHERE f.id = ? ORDER BY a.namespace, a.value"""
_HELD = """SELECT a.scope_no, a.namespace, a.value FROM alias a JOIN fact f USING(fact_no)
  WHERE f.id = ? ORDER BY a.namespace, a.value"""
_LAST = "SELECT last FROM sequence WHERE scope_no = ? AND namespace = ? AND prefix = ?"


def name_all(
    tx: Transaction, facts: Sequence[NewFact], stored: Sequence[Remembered], actor: Actor
) -> tuple[Remembered, ...]:
    """Assign their aliases to facts that were just stored or confirmed.

    Raises:
        Conflict: another fact has the alias already.
    """
    if not any(new.aliases for new in facts):
        return tuple(stored)
    return tuple(
        result.model_copy(update={"aliases": _name(tx, new, result.fact_id, actor)})
        if new.aliases
        else result
        for new, result in zip(facts, stored, strict=True)
    )


def hand_over(tx: Transaction, old_id: str, new_id: str, actor: Actor) -> None:
    """Move a fact's aliases to its successor, so that people can go on using them."""
    for scope_no, namespace, value in tx.all(_HELD, (old_id,)):
        part = {"namespace": namespace, "value": value, "fact": new_id}
        tx.record("alias.set", scope_no=scope_no, actor=actor.name, parts=[part])


def of_fact(connection: apsw.Connection, fact_id: str) -> tuple[Alias, ...]:
    """Return a fact's aliases."""
    return tuple(
        Alias(namespace=namespace, value=value)
        for namespace, value in connection.execute(_ALIASES_OF_FACT, (fact_id,))
    )


def find(connection: apsw.Connection, name: Name, view: View) -> tuple[tuple[str, str], ...]:
    """Return (scope, fact id) of every visible fact with an alias."""
    scopes = base.scope_filter(view, base.visible_scopes(connection, view, None))
    key: tuple[Any, ...] = (name.namespace, name.value)
    if scopes.is_named(connection, _CROWDED, key):
        rows = connection.execute(_EVERYWHERE_SEEN, (*key, scopes.scopes))
    else:
        rows = connection.execute(_EVERYWHERE, key)
    return tuple(
        (str(path), str(fact_id))
        for path, review, fact_id in rows
        if view.can_read_fact(path, review)
    )


def _name(tx: Transaction, new: NewFact, fact_id: str, actor: Actor) -> tuple[Alias, ...]:
    scope_no = base.ensure_scope(tx, new.scope, actor.name)
    return tuple(_assign_alias(tx, scope_no, alias, fact_id, actor) for alias in new.aliases)


def _assign_alias(
    tx: Transaction, scope_no: int, alias_in: AliasIn, fact_id: str, actor: Actor
) -> Alias:
    if alias_in.value is None:
        existing = _find_numbered(tx, fact_id, alias_in)
        if existing:
            return existing
    value = _next_value(tx, scope_no, alias_in, actor) if alias_in.value is None else alias_in.value
    alias = Alias(namespace=alias_in.namespace, value=value)
    holder = tx.one(_FIND, (scope_no, alias.namespace, alias.value))
    if holder and holder[0] == fact_id:
        return alias
    if holder:
        raise Conflict(f"{aliases.reference(alias)} is a name of fact {holder[0]}; take another")
    part = {"namespace": alias.namespace, "value": alias.value, "fact": fact_id}
    tx.record("alias.set", scope_no=scope_no, actor=actor.name, parts=[part])
    return alias


def _find_numbered(tx: Transaction, fact_id: str, alias_in: AliasIn) -> Alias | None:
    prefix = alias_in.prefix or ""
    for alias in of_fact(tx.connection, fact_id):
        rest = alias.value.removeprefix(prefix)
        is_number = rest.isascii() and rest.isdecimal()
        if alias.namespace == alias_in.namespace and alias.value.startswith(prefix) and is_number:
            return alias
    return None


def _next_value(tx: Transaction, scope_no: int, alias_in: AliasIn, actor: Actor) -> str:
    """Return the next number, skipping numbers that were assigned by hand."""
    prefix = alias_in.prefix or ""
    key = (scope_no, alias_in.namespace, prefix)
    last = int((tx.one(_LAST, key) or (0,))[0])
    while True:
        last += 1
        value = aliases.numbered(prefix, alias_in.digits, last)
        if not tx.one(_FIND, (scope_no, alias_in.namespace, value)):
            break
    part = {"namespace": alias_in.namespace, "prefix": prefix, "last": last}
    tx.record("sequence.taken", scope_no=scope_no, actor=actor.name, parts=[part])
    return value
