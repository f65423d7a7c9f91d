"""The service's `Store` port in memory, for tests: the same answers as SQLite, nothing on disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from knowledge_client.models import (
    AdoptionResult,
    PrincipalIn,
    ScopeConfig,
    ScopeStats,
    StoreIdentity,
)
from knowledge_service.domain import run_statistics
from knowledge_service.domain.access_control import PLATFORM, View, realm_of
from knowledge_service.errors import Conflict
from knowledge_service.ports import Actor
from tests.fakes.store_base import StoredScope
from tests.fakes.store_changes import Watched
from tests.fakes.store_lives import Lives
from tests.fakes.store_provenance import Provenance
from tests.fakes.store_runs import Runs


class MemoryStore(Provenance, Watched, Runs, Lives):
    """Everything in dictionaries under one lock. Set `problem` to make every call fail."""

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        with self._lock:
            self._check()
            self._scope(path).config = config

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        self._check()
        result = {path: self._scopes[path].config for path in paths if path in self._scopes}
        return {path: config for path, config in result.items() if config}

    def list_scopes(self, view: View) -> tuple[str, ...]:
        self._check()
        return tuple(sorted(self._paths(view, None)))

    def delete_scope(self, path: str, *, actor: Actor, erase: bool = False) -> bool:
        with self._lock:
            self._check()
            retire = self._retire(path)
            if retire and erase:
                _, scope = self._graves.pop()
                self._to_erase += [(row.fact.id, path, actor) for row in scope.rows]
                self.erased_at_s = time.monotonic()
            return retire

    def _retire(self, path: str) -> bool:
        for key in [key for key in self._usage if key[0] == path]:
            del self._usage[key]
        deleted_stored_scope = self._scopes.pop(path, None)
        if deleted_stored_scope:
            self._graves.append((self._last, deleted_stored_scope))
            for row in deleted_stored_scope.rows:
                self.drop_answers(row.fact.id)
        return deleted_stored_scope is not None

    def reset_scope(self, path: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            scope = self._scopes.get(path)
            if scope is None or scope.config is None:
                return False
            scope.config = None
            return True

    def adopt_scope(self, path: str, *, actor: Actor) -> AdoptionResult | None:
        with self._lock:
            self._check()
            dead = [(at, scope) for at, scope in self._graves if scope.path == path]
            if not dead:
                return None
            closed_at, last = dead[-1]
            combined_stored_scopes = [last]
            if path == realm_of(path):
                combined_stored_scopes = [
                    s for at, s in self._graves if at == closed_at and realm_of(s.path) == path
                ]
            for stored_scope in combined_stored_scopes:
                self._refuse_equal_runs(stored_scope, self._scopes.get(stored_scope.path))
            facts = sum(
                row.fact.lifecycle == "live" for s in combined_stored_scopes for row in s.rows
            )
            for old in combined_stored_scopes:
                now = self._scope(old.path)
                now.rows = [*old.rows, *now.rows]
                now.config = now.config or old.config
                self._move_runs(old, now)
            self._graves = [
                grave for grave in self._graves if grave[1] not in combined_stored_scopes
            ]
            paths = tuple(sorted(scope.path for scope in combined_stored_scopes))
            return AdoptionResult(path=path, scopes=paths, facts=facts)

    def _move_runs(self, old: StoredScope, now: StoredScope) -> None:
        moved = {slot: (now.number, slot[1]) for slot in self._ledger if slot[0] == old.number}
        self._ledger = {moved.get(slot, slot): entry for slot, entry in self._ledger.items()}
        for fact_id, slots in self._shown.items():
            self._shown[fact_id] = [moved.get(slot, slot) for slot in slots]

    def _refuse_equal_runs(self, old: StoredScope, now: StoredScope | None) -> None:
        ids = {number: set[str]() for number in (old.number, now.number if now else 0)}
        for number, run_id in self._ledger:
            if number in ids:
                ids[number].add(run_id)
        if now and (equal := sorted(ids[old.number] & ids[now.number])[:3]):
            raise Conflict(
                f"{old.path} has runs of its own with ids that the old one has"
                f" ({', '.join(equal)}): export it, delete it, adopt the old one,"
                " then import the export"
            )

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        self._check()
        return tuple(self._stats(path, view) for path in paths)

    def _stats(self, path: str, view: View) -> ScopeStats:
        scope = self._scopes.get(path)
        if scope is None:
            return ScopeStats(path=path)
        used_counts: Counter[str] = Counter()
        for (subject, observer, kind), count in self._usage.items():
            if subject == path and view.can_read(observer):
                used_counts[kind] += count
        return ScopeStats(
            path=path,
            facts=sum(row.fact.lifecycle == "live" for row in scope.rows),
            recalls=used_counts["recall"],
            usefulness=run_statistics.usefulness(used_counts["succeeded"], used_counts["failed"]),
            last_write_at=scope.last_write_at,
        )

    def put_principal(self, principal: PrincipalIn, *, actor: Actor) -> None:
        with self._lock:
            self._check()
            self._settle_realm(realm_of(principal.home), principal.realm_uid)
            self._principals[principal.subject.username] = principal

    def _settle_realm(self, path: str, uid: str | None) -> None:
        if uid is None or path == PLATFORM:
            return
        known_realm_uid = self._scope(path).realm_uid
        if known_realm_uid is not None and known_realm_uid != uid:
            if (path, uid) in self._retired_uids:
                raise Conflict(
                    f"{path} belonged to namespace UID {uid} before, now to {known_realm_uid}"
                )
            self._retired_uids.add((path, known_realm_uid))
            self._now()
            deleted_scopes = [scope for scope in self._scopes if realm_of(scope) == path]
            for scope in deleted_scopes:
                self._retire(scope)
        self._scope(path).realm_uid = uid

    def principal(self, username: str) -> PrincipalIn | None:
        self._check()
        return self._principals.get(username)

    def principal_of_cell(self, realm: str, formation: str, cell: str) -> PrincipalIn | None:
        return next(
            (
                principal
                for principal in self.principals()
                if realm_of(principal.home) == realm
                and principal.address is not None
                and (principal.address.formation, principal.address.cell) == (formation, cell)
            ),
            None,
        )

    def principals(self) -> tuple[PrincipalIn, ...]:
        self._check()
        return tuple(self._principals[name] for name in sorted(self._principals))

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            return self._principals.pop(username, None) is not None

    def identity(self) -> StoreIdentity:
        return StoreIdentity(id="memory", epoch=1)

    def check(self) -> None:
        self._check()

    def check_alive(self) -> None:
        """Live for ever."""

    def close(self) -> None:
        """Keep everything: there is nothing to let go of."""
