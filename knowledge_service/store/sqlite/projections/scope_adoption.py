"""`scope.adopted`: a retired scope returns and takes over the content of its successor.

`scope.reset`: a scope has the default settings again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_service.event_log.events import Event
from knowledge_service.event_log.index_documents import SCOPE_ADOPTED
from knowledge_service.store.sqlite.projections import facet_index

_RETIRE = "UPDATE scope SET retired_at = ?, realm_uid = NULL, live_facts = 0 WHERE scope_no = ?"
_BACK = "UPDATE scope SET retired_at = NULL, realm_no = ? WHERE scope_no = ?"
_TAKE_OVER = """UPDATE scope SET config = coalesce(c.config, scope.config),
  realm_uid = coalesce(c.realm_uid, scope.realm_uid), live_facts = scope.live_facts + c.live_facts,
  last_write_at = max(coalesce(c.last_write_at, 0), coalesce(scope.last_write_at, 0))
  FROM (SELECT config, realm_uid, live_facts, last_write_at FROM scope WHERE scope_no = ?2) c
  WHERE scope.scope_no = ?1"""
_MOVE = (
    """UPDATE fact_event SET other_scope = ?1 WHERE other_scope = ?2 AND fact_no IN (
    SELECT l.to_no FROM fact f JOIN link l ON l.from_no = f.fact_no WHERE f.scope_no = ?2
    UNION SELECT l.from_no FROM fact f JOIN link l ON l.to_no = f.fact_no WHERE f.scope_no = ?2
    UNION SELECT p.copy_no FROM fact f JOIN promotion p ON p.origin_no = f.fact_no
      WHERE f.scope_no = ?2
    UNION SELECT p.origin_no FROM fact f JOIN promotion p ON p.copy_no = f.fact_no
      WHERE f.scope_no = ?2)""",
    """UPDATE link SET from_scope = ?1 WHERE from_scope = ?2
  AND from_no IN (SELECT fact_no FROM fact WHERE scope_no = ?2)""",
    """UPDATE link SET to_scope = ?1 WHERE to_scope = ?2
  AND to_no IN (SELECT fact_no FROM fact WHERE scope_no = ?2)""",
    """UPDATE promotion SET origin_scope = ?1 WHERE origin_scope = ?2
  AND origin_no IN (SELECT fact_no FROM fact WHERE scope_no = ?2)""",
    "UPDATE fact SET scope_no = ?1 WHERE scope_no = ?2",
    "UPDATE fact_tag SET scope_no = ?1 WHERE scope_no = ?2",
    """INSERT OR REPLACE INTO alias(scope_no, namespace, value, fact_no)
  SELECT ?1, namespace, value, fact_no FROM alias WHERE scope_no = ?2""",
    "DELETE FROM alias WHERE scope_no = ?2",
    """INSERT INTO sequence(scope_no, namespace, prefix, last)
  SELECT ?1, namespace, prefix, last FROM sequence WHERE scope_no = ?2
  ON CONFLICT DO UPDATE SET last = max(last, excluded.last)""",
    "DELETE FROM sequence WHERE scope_no = ?2",
    "UPDATE scope SET realm_no = ?1 WHERE realm_no = ?2 AND retired_at IS NULL",
    "UPDATE run SET realm_no = ?1 WHERE realm_no = ?2",
    "UPDATE episode SET realm_no = ?1 WHERE realm_no = ?2",
    "UPDATE extraction SET realm_no = ?1 WHERE realm_no = ?2",
)
_RESET = "UPDATE scope SET config = NULL WHERE scope_no = ?"


def _adopted(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        now, number = part["from"], event.scope_no
        if now is not None:
            connection.execute(_TAKE_OVER, (number, now))
            for statement in _MOVE:
                connection.execute(statement, (number, now))
            facet_index.move(connection, now, number)
            connection.execute(_RETIRE, (event.at, now))
        connection.execute(_BACK, (part["realm"], number))


def _reset(connection: apsw.Connection, event: Event) -> None:
    connection.execute(_RESET, (event.scope_no,))


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    SCOPE_ADOPTED: _adopted,
    "scope.reset": _reset,
}
