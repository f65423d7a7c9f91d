"""The `FactStore` port over tables."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import apsw
from pydantic import TypeAdapter

from kais import facts as kais_facts
from knowledge_client.models import CorrectionResult, Fact, Remembered
from knowledge_service.domain import facts as domain
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import corrections, dry_run, names
from knowledge_service.ports import ActionContext, Actor, IdempotencyKey, Listing
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, fact_batch_writes, fact_rows
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_REMEMBERED: TypeAdapter[tuple[Remembered, ...]] = TypeAdapter(tuple[Remembered, ...])
_CORRECTED: TypeAdapter[CorrectionResult] = TypeAdapter(CorrectionResult)
# After every position (`SafeInt`).
_NO_POSITION = 1 << 60
_BY_ID = f"{fact_rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
# A reader without drafts does not see facts that were rejected since, either.
_BY_ID_THEN = f"""{fact_rows.select_as_of("?2")} WHERE f.id = ?1 AND s.retired_at IS NULL
  AND f.recorded_at <= ?2 AND (?3 OR f.review NOT IN {fact_rows.UNREVIEWED})"""
_LIST_FILTER = f"""f.scope_no IN (SELECT value FROM json_each(:scopes))
  AND (:kind IS NULL OR f.kind = :kind) AND (:source IS NULL OR f.source_type = :source)
  AND (:before_id IS NULL OR f.id < :before_id)
  AND (:drafts OR f.review NOT IN {fact_rows.UNREVIEWED})"""
_LIST = f"""{fact_rows.SELECT} WHERE {_LIST_FILTER}
  AND (:lifecycle IS NULL OR f.lifecycle = :lifecycle) AND (:review IS NULL OR f.review = :review)
  AND (:valid_at IS NULL OR coalesce(f.valid_from, f.recorded_at) <= :valid_at)
  AND (:valid_at IS NULL OR f.valid_until IS NULL OR :valid_at < f.valid_until)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM fact_tag t
    WHERE t.scope_no = f.scope_no AND t.tag = :tag AND t.fact_no = f.fact_no))"""
_LIST_THEN = f"""{fact_rows.select_as_of(":known_at")} WHERE {_LIST_FILTER}
  AND f.recorded_at <= :known_at"""
_HELD_THEN = f"""(:drafts OR review NOT IN {fact_rows.UNREVIEWED})
  AND (:lifecycle IS NULL OR lifecycle = :lifecycle) AND (:review IS NULL OR review = :review)
  AND (:valid_at IS NULL OR coalesce(valid_from, recorded_at) <= :valid_at)
  AND (:valid_at IS NULL OR valid_until IS NULL OR :valid_at < valid_until)"""
# Each condition is added only if a listing has it, so that SQLite can choose its index.
_BY_COLUMN = {
    "schema": " AND f.schema = :schema",
    "subject": " AND f.subject = :subject",
    "about": " AND f.about IN (SELECT value FROM json_each(:about))",
    "alias_namespace": """ AND EXISTS (SELECT 1 FROM alias a
      WHERE a.fact_no = f.fact_no AND a.namespace = :alias_namespace)""",
}
_VERSIONS = """WITH r(root) AS (SELECT coalesce(root, id) FROM fact WHERE id = ?)
  SELECT root FROM r UNION SELECT f.id FROM r JOIN fact f USING(root)"""
_CURRENT = f"""{fact_rows.SELECT} WHERE f.lifecycle = 'live' AND s.retired_at IS NULL
  AND f.id IN ({_VERSIONS})"""
# LIKE ignores the case of ASCII letters alone, so other texts are compared in Python.
# LIKE ends at a NUL, so the longer way follows for texts that may have one.
_CONTAINS = " AND ({})".format(
    " OR ".join(
        f"""{column} LIKE :pattern ESCAPE '\\'
  OR (length({column}) <> length(CAST({column} AS BLOB)) AND instr(lower({column}), :folded))"""
        for column in ("f.content", "f.title", "f.subject")
    )
)
# A link to a fact that the reader may not see must not show.
_UNLINKED = f""" AND NOT EXISTS (SELECT 1 FROM link l JOIN fact o
    ON o.fact_no = CASE l.from_no WHEN f.fact_no THEN l.to_no ELSE l.from_no END
    WHERE l.closed_at IS NULL AND f.fact_no IN (l.from_no, l.to_no)
    AND l.id IN (SELECT x.id FROM link x WHERE x.from_no = f.fact_no
      UNION ALL SELECT x.id FROM link x WHERE x.to_no = f.fact_no)
    AND o.scope_no IN (SELECT value FROM json_each(:visible))
    AND (:drafts OR o.review NOT IN {fact_rows.UNREVIEWED}))"""
_AFTER_POSITION = f" AND (coalesce(f.position, {_NO_POSITION}), f.id) > (:position, :id)"
_BY_POSITION = f" ORDER BY coalesce(position, {_NO_POSITION}), id"
_NEWEST_FIRST = " ORDER BY id DESC"


class Facts(base.SqliteRepository):
    """The `FactStore` port."""

    def remember(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        """Store all facts or none."""
        return self._writer.submit(_remember_job(facts, actor, idempotency_key))

    def rehearse(self, facts: Sequence[NewFact], *, actor: Actor) -> tuple[Remembered, ...]:
        """Store all facts or none, and roll back."""
        try:
            return self._writer.submit(dry_run.roll_back_after(_remember_job(facts, actor, None)))
        except dry_run.DryRunRollback as rollback:
            results: tuple[Remembered, ...] = rollback.answer
            return results

    def remembered(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[tuple[Remembered, ...]]:
        """Prepare the facts now; return an awaitable that stores all or none."""
        return self._writer.submit_async(_remember_job(facts, actor, idempotency_key))

    def fact(self, fact_id: str, view: View, known_at: datetime | None = None) -> Fact | None:
        """Return one visible fact."""
        query: tuple[str, tuple[Any, ...]] = (_BY_ID, (fact_id,))
        if known_at is not None:
            query = (_BY_ID_THEN, (fact_id, times.to_us(known_at), view.drafts))
        with self._readers.snapshot() as connection:
            for fact in fact_rows.facts(connection, *query):
                return fact if view.can_read_fact(fact.scope, fact.review) else None
        return None

    def current_version(self, fact_id: str, view: View) -> Fact | None:
        """Return the live version of a fact."""
        with self._readers.snapshot() as connection:
            for fact in fact_rows.facts(connection, _CURRENT, (fact_id,)):
                if view.can_read_fact(fact.scope, fact.review):
                    return fact
        return None

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page of facts."""
        with self._readers.bulk_connection() as connection:
            bindings = _bindings(connection, listing)
            found = fact_rows.facts(connection, _statement(listing), bindings)
            matching = (fact for fact in found if _matches(fact, listing))
            return tuple(islice(matching, listing.limit))

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:  # fmt: skip
        """Close a fact and link its successor."""
        order = ActionContext(actor, reason, idempotency_key)
        return self._idempotent(
            idempotency_key,
            _CORRECTED,
            lambda tx: corrections.correct_fact(SqliteUnitOfWork(tx), fact_id, replacement, order),
        )


def _remember_job(
    facts: Sequence[NewFact], actor: Actor, idempotency_key: IdempotencyKey | None
) -> Callable[[Transaction], tuple[Remembered, ...]]:
    prepared = fact_batch_writes.prepare_facts(facts)
    if idempotency_key is None and facts and all(map(fact_batch_writes.can_bulk_insert, facts)):
        return fact_batch_writes.BulkRemember(facts, actor, prepared)

    def work(tx: Transaction) -> tuple[Remembered, ...]:
        stored = fact_batch_writes.remember_all(tx, facts, actor, prepared)
        return names.assign_aliases_separately(SqliteUnitOfWork(tx), facts, stored, actor)

    return base.make_idempotent(idempotency_key, _REMEMBERED, work)


def _statement(listing: Listing) -> str:
    filters = "".join(sql for name, sql in _BY_COLUMN.items() if getattr(listing, name) is not None)
    if listing.contains is not None and not _is_compared_here(listing.contains):
        filters += _CONTAINS
    if listing.is_unlinked:
        filters += _UNLINKED
    if listing.after_position is not None:
        filters += _AFTER_POSITION
    order = _NEWEST_FIRST if listing.about is None else _BY_POSITION
    limit = "" if _is_filtered_here(listing) else " LIMIT :limit"
    if listing.known_at is None:
        return f"{_LIST}{filters}{order}{limit}"
    return f"SELECT * FROM ({_LIST_THEN}{filters}) WHERE {_HELD_THEN}{order}{limit}"


def _bindings(connection: apsw.Connection, listing: Listing) -> dict[str, Any]:
    scopes = base.visible_scopes(connection, listing.view, listing.scopes)
    visible = base.visible_scopes(connection, listing.view, None) if listing.is_unlinked else {}
    position, fact_id = listing.after_position or (None, None)
    return {
        "scopes": json.dumps(sorted(scopes)),
        "kind": listing.kind,
        "source": listing.source,
        "before_id": listing.before_id,
        "lifecycle": listing.lifecycle,
        "review": listing.review,
        "valid_at": times.to_us(listing.valid_at),
        "known_at": times.to_us(listing.known_at),
        "drafts": listing.view.drafts,
        "tag": kais_facts.normalize_tag(listing.tag) if listing.tag else None,
        "schema": listing.schema,
        "subject": listing.subject,
        "about": json.dumps(_versions(connection, listing.about) if listing.about else []),
        "alias_namespace": listing.alias_namespace,
        "pattern": f"%{_LIKE_SIGNS.sub(_ESCAPED, listing.contains or '')}%",
        "visible": json.dumps(sorted(visible)),
        "folded": (listing.contains or "").lower(),
        "position": _NO_POSITION if position is None else position,
        "id": fact_id,
        "limit": listing.limit,
    }


def _versions(connection: apsw.Connection, fact_id: str) -> list[str]:
    """Return the ids of all versions of a fact; of an unknown one, its own."""
    ids = {str(version) for (version,) in connection.execute(_VERSIONS, (fact_id,))}
    return sorted(ids | {fact_id})


_LIKE_SIGNS, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"


def _is_filtered_here(listing: Listing) -> bool:
    """Return whether the statement lacks a filter: former tags, or a text that SQLite mistakes."""
    has_former_tag = listing.known_at is not None and listing.tag is not None
    return has_former_tag or _is_compared_here(listing.contains or "")


def _is_compared_here(text: str) -> bool:
    return not text.isascii() or "\0" in text


def _matches(fact: Fact, listing: Listing) -> bool:
    """Apply the filters that the statement lacks."""
    if not _is_filtered_here(listing):
        return True
    tags = {kais_facts.normalize_tag(tag) for tag in fact.tags}
    if listing.tag is not None and kais_facts.normalize_tag(listing.tag) not in tags:
        return False
    return listing.contains is None or domain.contains_text(fact, listing.contains)
