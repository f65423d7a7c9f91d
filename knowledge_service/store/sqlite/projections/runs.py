"""Runs, their episodes and their extractions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apsw

from knowledge_client.models import Run
from knowledge_service.domain import run_reports
from knowledge_service.domain.episodes import identity_hash
from knowledge_service.domain.facts import canonical
from knowledge_service.event_log import times
from knowledge_service.event_log.events import Event

_RUN = """INSERT OR REPLACE INTO run(run_id, scope, realm_no, namespace, blueprint, revision,
  outcome, cost, duration_us, opened_at, closed_at, last_at, credited, body, by_agent)
  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_EPISODE = """INSERT INTO episode(realm_no, run_id, seq, attempt, type, content, error_signature,
  refs, at, recorded_at, actor, content_hash) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_ACCEPT = """INSERT INTO extraction(realm_no, run_id, state, max_facts, actor, accepted_at,
  updated_at) VALUES(?, ?, 'pending', ?, ?, ?, ?)"""
_BEGIN = """UPDATE extraction SET state = 'running', attempts = attempts + 1, updated_at = ?
  WHERE realm_no = ? AND run_id = ?"""
_FINISH = """UPDATE extraction SET state = ?, facts = coalesce(?, facts), reason = ?,
  updated_at = ?, retry_at = ? WHERE realm_no = ? AND run_id = ?"""
_CHOOSE = """UPDATE extraction SET model = ?, state = 'pending', updated_at = ?
  WHERE realm_no = ? AND run_id = ?"""
_CALL = """UPDATE extraction SET calls = calls + 1, cost_nano = cost_nano + ?, called_at = ?
  WHERE realm_no = ? AND run_id = ?"""
_SETTLE = """UPDATE extraction SET cost_nano = cost_nano + ?, input_tokens = input_tokens + ?,
  output_tokens = output_tokens + ? WHERE realm_no = ? AND run_id = ?"""
_REALM = "SELECT realm_no FROM run WHERE run_id = ?"


def _recorded(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        run = Run.model_validate(part["run"])
        duration_s = run_reports.duration_s(run)
        connection.execute(
            _RUN,
            (
                run.run_id, run.scope, part["realm"], run.namespace, run.blueprint, run.revision,
                run.outcome, run.cost, None if duration_s is None else round(duration_s * 1e6),
                times.to_us(run.opened_at), times.to_us(run.closed_at), part["last_at"],
                int(part["credited"]), run.model_dump_json(), part.get("by_agent"),
            ),
        )  # fmt: skip


def _appended(connection: apsw.Connection, event: Event) -> None:
    realms = {part["run"]: _key(connection, part)[0] for part in event.remaining_parts()}
    connection.executemany(
        _EPISODE,
        [
            (
                realms[part["run"]], part["run"], part["seq"], part["attempt"],
                part["type"], part["content"], part.get("error_signature"), canonical(part["refs"]),
                part.get("at"), event.at, event.actor, identity_hash(part),
            )
            for part in event.remaining_parts()
        ],
    )  # fmt: skip


def _accepted(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        row = (*_key(connection, part), part["max_facts"], event.actor, event.at, event.at)
        connection.execute(_ACCEPT, row)


def _begun(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_BEGIN, (event.at, *_key(connection, part)))


def _done(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        facts = canonical(part["facts"])
        columns = ("done", facts, part.get("reason"), event.at, None)
        connection.execute(_FINISH, (*columns, *_key(connection, part)))


def _failed(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        state = "pending" if part["retry"] else "failed"
        facts = canonical(part["facts"]) if "facts" in part else None
        columns = (state, facts, part["reason"], event.at, part.get("retry_at"))
        connection.execute(_FINISH, (*columns, *_key(connection, part)))


def _model_chosen(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_CHOOSE, (part["model"], event.at, *_key(connection, part)))


def _called(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_CALL, (part["cost_nano"], event.at, *_key(connection, part)))


def _settled(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        added = (part["cost_nano"] - part["reserved_nano"], *part["tokens"])
        connection.execute(_SETTLE, (*added, *_key(connection, part)))


def _key(connection: apsw.Connection, part: Mapping[str, Any]) -> tuple[int, str]:
    """Return the realm and id of an event's run.

    Events from before schema 9 name no realm; until then an id was unique in the whole file.
    """
    realm = part.get("realm")
    if realm is None:
        realm = next(iter(connection.execute(_REALM, (part["run"],))))[0]
    return realm, part["run"]


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    "run.recorded": _recorded,
    "run.closed": _recorded,
    "episodes.appended": _appended,
    "extraction.accepted": _accepted,
    "extraction.begun": _begun,
    "extraction.model_chosen": _model_chosen,
    "extraction.called": _called,
    "extraction.settled": _settled,
    "extraction.done": _done,
    "extraction.failed": _failed,
}
