"""Scopes and registered callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_client.models import ScopeConfig
from knowledge_service.domain.facts import canonical
from knowledge_service.event_log.events import Event

_CREATE = "INSERT INTO scope(scope_no, path, realm_no, created_at) VALUES(?, ?, ?, ?)"
_CONFIGURE = "UPDATE scope SET config = ? WHERE scope_no = ?"
_RETIRE = "UPDATE scope SET retired_at = ?, erased_by = ? WHERE scope_no = ?"
_NAME_REALM = "UPDATE scope SET realm_uid = ? WHERE scope_no = ?"
_REGISTER = """INSERT OR REPLACE INTO principal(username, uid, name, type, home, grants, realm_uid,
  quota, default_scope, address, registered_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_REMOVE = "DELETE FROM principal WHERE username = ?"


def _created(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        row = (event.scope_no, part["path"], part["realm"], event.at)
        connection.execute(_CREATE, row)


def _configured(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        text = ScopeConfig.model_validate(part["config"]).model_dump_json()
        connection.execute(_CONFIGURE, (text, event.scope_no))


def _retired(connection: apsw.Connection, event: Event) -> None:
    erases = any(part.get("erase") for part in event.remaining_parts())
    connection.execute(_RETIRE, (event.at, event.actor if erases else None, event.scope_no))


def _realm_named(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_NAME_REALM, (part["realm_uid"], event.scope_no))


def _registered(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        subject = part["subject"]
        connection.execute(
            _REGISTER,
            (
                subject["username"], subject.get("uid"), part["name"], part["type"], part["home"],
                canonical(part["grants"]), part.get("realm_uid"),
                canonical(part["quota"]) if part.get("quota") else None,
                part.get("default_scope"),
                canonical(part["address"]) if part.get("address") else None, event.at,
            ),
        )  # fmt: skip


def _removed(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_REMOVE, (part["username"],))


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    "scope.created": _created,
    "scope.configured": _configured,
    "scope.retired": _retired,
    "realm.named": _realm_named,
    "principal.registered": _registered,
    "principal.removed": _removed,
}
