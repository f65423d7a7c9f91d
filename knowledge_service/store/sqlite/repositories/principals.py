"""Registered callers, and their realms, which are identified by the UIDs of namespaces."""

from __future__ import annotations

import json
from typing import Any

from knowledge_client.models import PrincipalIn
from knowledge_service.domain.access_control import PLATFORM, realm_of
from knowledge_service.errors import Conflict
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, scopes, stored_text_erasure

_COLUMNS = "username, uid, name, type, home, grants, realm_uid, quota, default_scope, address"
_EVERY_PRINCIPAL = f"SELECT {_COLUMNS} FROM principal ORDER BY username"
_GET = f"SELECT {_COLUMNS} FROM principal WHERE username = ?"
_OF_CELL = f"""SELECT {_COLUMNS} FROM principal WHERE address ->> '$.cell' = :cell
  AND address ->> '$.formation' = :formation
  AND (home = :realm OR substr(home, 1, length(:realm) + 1) = :realm || '/') ORDER BY username"""
_REALM = "SELECT scope_no, realm_uid FROM scope WHERE path = ? AND retired_at IS NULL"
_REALM_IN_USE = "SELECT 1 FROM scope WHERE path = ? AND realm_uid = ? AND retired_at IS NOT NULL"
_IN_REALM = "SELECT scope_no, path FROM scope WHERE realm_no = ? AND retired_at IS NULL"
# Registrations cached in memory, a kilobyte each; an arbitrary number.
_REMEMBERED = 20_000


class Principals(base.SqliteRepository):
    """The `PrincipalStore` port."""

    def put_principal(self, principal: PrincipalIn, *, actor: Actor) -> None:
        """Register a caller; an equal registration writes nothing."""

        def work(tx: Transaction) -> None:
            _settle_realm(tx, principal, actor)
            row = tx.fetch_first(_GET, (principal.subject.username,))
            if row and _principal(row) == principal:
                return
            part = principal.model_dump(mode="json")
            tx.record("principal.registered", scope_no=None, actor=actor.name, parts=[part])

        self._writer.submit(work)

    _registered: tuple[int, dict[str, PrincipalIn]] = (-1, {})

    def principal(self, username: str) -> PrincipalIn | None:
        """Return a registration. Every request needs one, so it is cached until it changes.

        An unknown name is not cached: tokens that nobody issued claim names of any length.
        """
        version, registrations = self._registered
        if version != self._writer.scopes_version or len(registrations) > _REMEMBERED:
            version, registrations = self._registered = (self._writer.scopes_version, {})
        registration = registrations.get(username) or self._read(username)
        if registration is not None:
            # Cached under the version that was read first, so that it cannot outlive a change.
            registrations[username] = registration
        return registration

    def _read(self, username: str) -> PrincipalIn | None:
        with self._readers.snapshot() as connection:
            for row in connection.execute(_GET, (username,)):
                return _principal(row)
        return None

    def principal_of_cell(self, realm: str, formation: str, cell: str) -> PrincipalIn | None:
        """Return the registration of a cell by its address."""
        address = {"realm": realm, "formation": formation, "cell": cell}
        with self._readers.snapshot() as connection:
            for row in connection.execute(_OF_CELL, address):
                return _principal(row)
        return None

    def principals(self) -> tuple[PrincipalIn, ...]:
        """List by username."""
        with self._readers.bulk_connection() as connection:
            return tuple(_principal(row) for row in connection.execute(_EVERY_PRINCIPAL))

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        """Delete a registration."""

        def work(tx: Transaction) -> bool:
            if tx.fetch_first(_GET, (username,)) is None:
                return False
            part = {"username": username}
            tx.record("principal.removed", scope_no=None, actor=actor.name, parts=[part])
            return True

        return self._writer.submit(work)


def _settle_realm(tx: Transaction, principal: PrincipalIn, actor: Actor) -> None:
    """Start a new realm when its namespace was created again under the same name.

    Raises:
        Conflict: the namespace's UID was replaced before.
    """
    path, uid = realm_of(principal.home), principal.realm_uid
    if uid is None or path == PLATFORM:
        return
    number = base.ensure_scope(tx, path, actor.name)
    recorded_uid = (tx.fetch_first(_REALM, (path,)) or (number, None))[1]
    if recorded_uid == uid:
        return
    if recorded_uid is not None:
        if tx.fetch_first(_REALM_IN_USE, (path, uid)):
            raise Conflict(f"{path} belonged to namespace UID {uid} before, now to {recorded_uid}")
        for old, old_path in tx.fetch_all(_IN_REALM, (number,)):
            scopes.retire(tx, old, old_path, actor)
        stored_text_erasure.forget_answers_of_realm(tx, path)
        number = base.ensure_scope(tx, path, actor.name)
    part = {"path": path, "realm_uid": uid}
    tx.record("realm.named", scope_no=number, actor=actor.name, parts=[part])


def _principal(row: tuple[Any, ...]) -> PrincipalIn:
    return PrincipalIn.model_validate(
        {
            "subject": {"username": row[0], "uid": row[1]},
            "name": row[2],
            "type": row[3],
            "home": row[4],
            "grants": json.loads(row[5]),
            "realm_uid": row[6],
            "quota": json.loads(row[7]) if row[7] else None,
            "default_scope": row[8],
            "address": json.loads(row[9]) if row[9] else None,
        }
    )
