"""The service's `Store` port in memory, for tests: the same answers as SQLite, nothing on disk."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from kais import facts as kais_facts
from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Corrected,
    Episode,
    EpisodeIn,
    EpisodesAccepted,
    Extraction,
    Fact,
    PrincipalIn,
    Recalled,
    Receipt,
    Remembered,
    Run,
    RunIn,
    ScopeConfig,
    ScopeStats,
    StoreId,
)
from knowledge_service import clock as clocks
from knowledge_service import ids
from knowledge_service.domain import (
    facts as domain_facts,
)
from knowledge_service.domain import (
    filtering,
    redaction,
    runs,
    statistics,
    supersession,
)
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.domain.visibility import (
    PLATFORM,
    View,
    lineage,
    nearest_first,
    realm_of,
)
from knowledge_service.errors import (
    Conflict,
    IdempotencyConflict,
    NotFound,
    QuotaExceeded,
    RetractedBefore,
    RunClosedOtherwise,
    StoreUnavailable,
)
from knowledge_service.index import analyser, postings, scorer
from knowledge_service.ports import (
    Actor,
    Hit,
    Listing,
    NewReceipt,
    Once,
    RunListing,
    Search,
)

T = TypeVar("T")
MAX_EPISODES = 5000


@dataclass
class _Row:
    """A fact with what the port does not show."""

    number: int
    fact: Fact
    content_hash: bytes
    key_hash: bytes | None
    terms: Counter[str]
    closed_reason: str | None = None


@dataclass
class _Scope:
    path: str
    realm_uid: str | None = None
    config: ScopeConfig | None = None
    last_write_at: datetime | None = None
    rows: list[_Row] = field(default_factory=list)


class MemoryStore:
    """Everything in dictionaries under one lock. Set `problem` to make every call fail."""

    def __init__(self, clock: clocks.Clock = clocks.now) -> None:
        self.problem: str | None = None
        self.links: set[tuple[str, str, str]] = set()
        self._clock = clock
        self._lock = threading.RLock()
        self._ids = ids.IdMaker()
        self._last: datetime | None = None
        self._numbers = 0
        self._scopes: dict[str, _Scope] = {}
        self._retired_uids: set[tuple[str, str]] = set()
        self._principals: dict[str, PrincipalIn] = {}
        self._receipts: dict[str, NewReceipt] = {}
        self._usage: Counter[tuple[str, str, str]] = Counter()
        self._runs: dict[str, Run] = {}
        self._run_realms: dict[str, _Scope] = {}
        self._last_at: dict[str, datetime] = {}
        self._credited: set[str] = set()
        self._episodes: dict[str, list[Episode]] = {}
        self._episode_keys: set[tuple[str, int, str]] = set()
        self._extractions: dict[str, Extraction] = {}
        self._limits: dict[str, int] = {}
        self._answers: dict[tuple[str, str], tuple[str, Any]] = {}

    def _now(self) -> datetime:
        now = self._clock()
        self._last = now if self._last is None else max(self._last, now)
        return self._last

    def _check(self) -> None:
        if self.problem:
            raise StoreUnavailable(self.problem)

    def _once(self, once: Once | None, work: Callable[[], T]) -> T:
        with self._lock:
            self._check()
            if once is None:
                return work()
            key = (once.principal, once.key)
            if key in self._answers:
                body_hash, answer = self._answers[key]
                if body_hash != once.body_hash:
                    raise IdempotencyConflict(
                        f"Idempotency-Key {once.key!r} was used with another body within 24 h;"
                        " send a new key"
                    )
                return answer
            answer = work()
            self._answers[key] = (once.body_hash, answer)
            return answer

    def _scope(self, path: str) -> _Scope:
        for each in lineage(path):
            self._scopes.setdefault(each, _Scope(each))
        return self._scopes[path]

    def _seen(self, view: View, named: tuple[str, ...] | None) -> list[_Scope]:
        return [
            scope
            for path, scope in self._scopes.items()
            if view.sees(path) and (named is None or path in named)
        ]

    def _paths(self, view: View, named: tuple[str, ...] | None) -> set[str]:
        found = {scope.path for scope in self._seen(view, named)}
        return found | {path for path in lineage(view.home) if named is None or path in named}

    # facts

    def remember(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        def work() -> tuple[Remembered, ...]:
            for fact in facts:  # all or none: nothing is stored before every refusal is known
                self._refuse_retracted(fact)
            return tuple(self._store(fact, actor) for fact in facts)

        return self._once(once, work)

    def _equal(self, fact: NewFact) -> _Row | None:
        order = {"live": 0, "retracted": 1}
        rows = [r for r in self._scope(fact.scope).rows if r.content_hash == fact.content_hash]
        rows.sort(key=lambda row: row.fact.id, reverse=True)
        return min(rows, key=lambda row: order.get(row.fact.lifecycle, 2), default=None)

    def _refuse_retracted(self, fact: NewFact) -> None:
        equal = self._equal(fact)
        if equal and equal.fact.lifecycle == "retracted":
            raise RetractedBefore(
                f"an equal fact was retracted in {fact.scope}: {equal.closed_reason};"
                " say what is different"
            )

    def _store(self, new: NewFact, actor: Actor) -> Remembered:
        self._refuse_retracted(new)
        equal = self._equal(new)
        if equal and equal.fact.lifecycle == "live":
            return self._confirm(equal, new)
        scope, now = self._scope(new.scope), self._now()
        since = new.valid_from or now
        holders = {
            row.fact.id: row
            for row in scope.rows
            if new.key_hash and row.key_hash == new.key_hash and row.fact.lifecycle == "live"
        }
        verdict = supersession.decide(
            [
                supersession.Holder(
                    row.fact.id,
                    row.fact.valid_from or row.fact.recorded_at,
                    row.fact.review == "approved",
                )
                for row in holders.values()
            ],
            since,
            actor.type,
        )
        fact_id = self._ids.make(now)
        closed = verdict.superseded_by is not None
        self._numbers += 1
        row = _Row(
            self._numbers,
            Fact(
                id=fact_id,
                scope=new.scope,
                kind=new.kind,
                title=new.title,
                content=new.content,
                data=new.data,
                schema_=new.schema,
                about=new.about,
                position=new.position,
                subject=new.subject,
                predicate=new.predicate,
                tags=new.tags,
                confidence=new.confidence,
                source=new.source,
                lifecycle="superseded" if closed else "live",
                expires_at=new.expires_at,
                valid_from=new.valid_from,
                valid_until=verdict.until or new.valid_until,
                recorded_at=now,
                closed_at=now if closed else None,
            ),
            new.content_hash,
            new.key_hash,
            analyser.terms(new.rendering),
        )
        scope.rows.append(row)
        scope.last_write_at = now
        if equal:
            self.links.add((fact_id, equal.fact.id, "derived_from"))
        for older in verdict.closes:
            self._close(holders[older], "superseded", f"superseded by {fact_id}", until=since)
            self.links.add((fact_id, older, "supersedes"))
        self.links |= {(fact_id, other, "contradicts") for other in verdict.contradicts}
        if verdict.superseded_by:
            self.links.add((verdict.superseded_by, fact_id, "supersedes"))
        return Remembered(
            fact_id=fact_id,
            status="created",
            superseded=verdict.closes,
            contradicts=verdict.contradicts,
        )

    def _confirm(self, row: _Row, new: NewFact) -> Remembered:
        tags = tuple(kais_facts.merged_tags(row.fact.tags, new.tags))
        confidence = max(row.fact.confidence, new.confidence)
        row.fact = row.fact.model_copy(update={"tags": tags, "confidence": confidence})
        self._scope(row.fact.scope).last_write_at = self._now()
        return Remembered(fact_id=row.fact.id, status="confirmed")

    def _close(self, row: _Row, lifecycle: str, reason: str, *, until: datetime) -> None:
        now = self._now()
        update = {"lifecycle": lifecycle, "closed_at": now, "valid_until": until}
        row.fact, row.closed_reason = row.fact.model_copy(update=update), reason
        self._scope(row.fact.scope).last_write_at = now

    def _row(self, fact_id: str) -> _Row | None:
        rows = (row for scope in self._scopes.values() for row in scope.rows)
        return next((row for row in rows if row.fact.id == fact_id), None)

    def fact(self, fact_id: str, view: View) -> Fact | None:
        self._check()
        row = self._row(fact_id)
        return row.fact if row and view.sees(row.fact.scope) else None

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        self._check()
        tag = kais_facts.normal_tag(listing.tag) if listing.tag else None
        found = [
            row.fact
            for scope in self._seen(listing.view, listing.scopes)
            for row in scope.rows
            if listing.kind in (None, row.fact.kind)
            and listing.lifecycle in (None, row.fact.lifecycle)
            and listing.source in (None, row.fact.source.type)
            and (listing.before is None or row.fact.id < listing.before)
            and (tag is None or tag in {kais_facts.normal_tag(t) for t in row.fact.tags})
        ]
        found.sort(key=lambda fact: fact.id, reverse=True)
        return tuple(found[: listing.limit])

    def correct(
        self,
        fact_id: str,
        reason: str,
        replacement: str | None,
        *,
        actor: Actor,
        once: Once | None = None,
    ) -> Corrected:
        def work() -> Corrected:
            row = self._row(fact_id)
            if row is None:
                raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
            if row.fact.lifecycle != "live":
                raise Conflict(
                    f"fact {fact_id} is {row.fact.lifecycle} already: {row.closed_reason}"
                )
            if replacement is None:
                self._close(row, "retracted", reason, until=self._now())
                return Corrected(fact_id=fact_id)
            new = domain_facts.replacement(row.fact, replacement, actor.name)
            if new.content_hash == row.content_hash:
                raise Conflict(f"the replacement of fact {fact_id} says the same; give other words")
            self._refuse_retracted(new)
            self._close(row, "superseded", reason, until=self._now())
            stored = self._store(new, actor)
            self.links.add((stored.fact_id, fact_id, "supersedes"))
            return Corrected(fact_id=fact_id, replacement_id=stored.fact_id)

        return self._once(once, work)

    # recall

    def search(self, search: Search) -> tuple[Hit, ...]:
        self._check()
        rows = [r for s in self._seen(search.view, search.scopes) for r in s.rows]
        rows.sort(key=lambda row: row.number)
        by_number = {row.number: row.fact for row in rows}
        query = {}
        for term in analyser.terms(search.query):
            found = [
                (row.number, row.terms[term], row.terms.total()) for row in rows if row.terms[term]
            ]
            query[term] = postings.join([postings.from_rows(found)])
        total = sum(row.terms.total() for row in rows)
        scores = scorer.score(query, scorer.Statistics(len(rows), total))
        assert isinstance(scores.values, np.ndarray)
        ranked = scores.best_first(4 * search.limit)
        hits = [Hit(by_number[number], score, {"bm25": score}) for number, score in ranked]
        served = [hit for hit in hits if filtering.passes(hit.fact, search.filters)]
        return tuple(served[: search.limit])

    def recent(self, search: Search) -> tuple[Fact, ...]:
        self._check()
        found: list[Fact] = []
        scopes = {scope.path: scope for scope in self._seen(search.view, search.scopes)}
        for path in nearest_first(scopes):
            live = [row.fact for row in scopes[path].rows if row.fact.lifecycle == "live"]
            live.sort(key=lambda fact: (fact.confidence, fact.id), reverse=True)
            found += [fact for fact in live if filtering.passes(fact, search.filters)]
        return tuple(found[: search.limit])

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        self._check()
        return nearest_first(self._paths(view, scopes))

    def record_recall(self, new: NewReceipt, answer: Recalled, once: Once | None) -> Recalled:
        def work() -> Recalled:
            self._record(new)
            return answer

        return self._once(once, work)

    def record_recall_later(self, new: NewReceipt) -> None:
        self._check()
        self._record(new)

    def _record(self, new: NewReceipt) -> None:
        self._scope(new.observer)
        self._receipts[new.receipt.id] = new
        kind = "injected" if new.receipt.run else "recalled"
        for path in self._count(new.receipt, new.observer, kind):
            self._usage[(path, new.observer, "recall")] += 1

    def _count(self, receipt: Receipt, observer: str, kind: str) -> set[str]:
        paths = set()
        for fact_id in receipt.facts:
            row = self._row(fact_id)
            if row:
                self._usage[(row.fact.scope, observer, kind)] += 1
                paths.add(row.fact.scope)
        return paths

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        self._check()
        return self._receipts.get(receipt_id)

    # runs

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        with self._lock:
            self._check()
            old = self._runs.get(run_id)
            try:
                merged = runs.merge(run_id, old, run, self._now())
            except runs.Differs as exc:
                if exc.field == "outcome":
                    raise RunClosedOtherwise(
                        f"run {run_id} is closed with outcome {exc.recorded};"
                        " an outcome never changes"
                    ) from exc
                raise Conflict(
                    f"run {run_id} is another one: its {exc.field} is {exc.recorded}"
                ) from exc
            if merged == old:
                return merged
            self._scope(merged.scope)
            self._run_realms.setdefault(run_id, self._scope(realm_of(merged.scope)))
            if not (old and old.closed_at):
                self._last_at[run_id] = self._now()
            self._runs[run_id] = merged
            self._credit(merged)
            return merged

    def _credit(self, run: Run) -> None:
        if run.outcome is None or run.run_id in self._credited:
            return
        self._credited.add(run.run_id)
        kind = runs.credit(run)
        if kind is None:
            return
        seen = set()
        for new in self._receipts.values():
            if new.receipt.run == run.run_id:
                for fact_id in new.receipt.facts:
                    row = self._row(fact_id)
                    if row and (fact_id, new.observer) not in seen:
                        seen.add((fact_id, new.observer))
                        self._usage[(row.fact.scope, new.observer, kind)] += 1

    def _current_runs(self) -> list[Run]:
        return [
            run
            for run_id, run in self._runs.items()
            if self._scopes.get(realm_of(run.scope)) is self._run_realms[run_id]
        ]

    def run(self, run_id: str, view: View) -> Run | None:
        self._check()
        found = next((run for run in self._current_runs() if run.run_id == run_id), None)
        return found if found and view.sees(found.scope) else None

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        self._check()
        before = self._runs.get(listing.before or "")
        found = [
            run
            for run in self._current_runs()
            if listing.view.sees(run.scope)
            and listing.namespace in (None, run.namespace)
            and listing.blueprint in (None, run.blueprint)
            and (before is None or (run.opened_at, run.run_id) < (before.opened_at, before.run_id))
        ]
        found.sort(key=lambda run: (run.opened_at, run.run_id), reverse=True)
        return tuple(found[: listing.limit])

    def add_episodes(
        self, run_id: str, episodes: Sequence[EpisodeIn], *, actor: Actor, once: Once | None = None
    ) -> EpisodesAccepted:
        def work() -> EpisodesAccepted:
            if not any(run.run_id == run_id for run in self._current_runs()):
                raise NotFound(f"run {run_id} does not exist or is not visible to you")
            record = self._episodes.setdefault(run_id, [])
            new: dict[tuple[str, int, str], EpisodeIn] = {}
            for episode in episodes:
                signature = episode.error_signature
                masked = episode.model_copy(
                    update={
                        "content": redaction.mask(episode.content),
                        "error_signature": redaction.mask(signature) if signature else None,
                    }
                )
                refs = [ref.model_dump() for ref in episode.refs]
                parts = [masked.type, masked.content, masked.error_signature, refs]
                key = (run_id, episode.attempt, canonical(parts))
                if key not in self._episode_keys:
                    new.setdefault(key, masked)
            if len(record) + len(new) > MAX_EPISODES:
                raise QuotaExceeded(
                    f"run {run_id} may have {MAX_EPISODES} episodes; it has {len(record)}"
                )
            self._episode_keys |= set(new)
            for episode in new.values():
                record.append(
                    Episode(**dict(episode), seq=len(record) + 1, run_id=run_id, actor=actor.name)
                )
            return EpisodesAccepted(accepted=len(new), duplicates=len(episodes) - len(new))

        return self._once(once, work)

    def episodes(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        self._check()
        return tuple(e for e in self._episodes.get(run_id, []) if e.seq > after)[:limit]

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        self._check()
        return tuple(
            statistics.blueprint_stats(
                name,
                [
                    statistics.LedgerRow(
                        run.revision,
                        run.outcome,
                        self._last_at[run.run_id],
                        runs.duration_s(run),
                        run.cost,
                    )
                    for run in self._current_runs()
                    if (run.namespace, run.blueprint) == (name.namespace, name.name)
                    and view.sees(run.scope)
                ],
            )
            for name in names
        )

    # extractions

    def accept_extraction(self, run_id: str, max_facts: int, *, actor: Actor) -> Extraction:
        with self._lock:
            self._check()
            self._limits.setdefault(run_id, max_facts)
            return self._extractions.setdefault(run_id, Extraction(run_id=run_id, state="pending"))

    def extraction(self, run_id: str) -> Extraction | None:
        self._check()
        return self._extractions.get(run_id)

    def extraction_limit(self, run_id: str) -> int:
        self._check()
        return self._limits.get(run_id, 0)

    def open_extractions(self, limit: int) -> tuple[Extraction, ...]:
        self._check()
        found = [e for e in self._extractions.values() if e.state in ("pending", "running")]
        return tuple(found[:limit])

    def _known_extraction(self, run_id: str) -> Extraction:
        self._check()
        if run_id not in self._extractions:
            raise NotFound(f"no extraction was asked for run {run_id}")
        return self._extractions[run_id]

    def begin_extraction(self, run_id: str) -> Extraction:
        with self._lock:
            found = self._known_extraction(run_id)
            if found.state in ("pending", "running"):
                update = {"state": "running", "attempts": found.attempts + 1}
                self._extractions[run_id] = found.model_copy(update=update)
            return self._extractions[run_id]

    def earlier_signatures(self, run_id: str, signatures: Sequence[str]) -> Mapping[str, int]:
        self._check()
        this = self._runs[run_id]
        return Counter(
            episode.error_signature
            for run in self._current_runs()
            if run.scope == this.scope and run.run_id != run_id and run.opened_at <= this.opened_at
            for episode in self._episodes.get(run.run_id, [])
            if episode.error_signature in signatures and episode.error_signature
        )

    def finish_extraction(
        self, run_id: str, facts: Sequence[NewFact], reason: str | None, *, actor: Actor
    ) -> Extraction:
        with self._lock:
            found = self._known_extraction(run_id)
            if found.state == "done":
                return found
            stored: list[str] = []
            left_out = 0
            for fact in facts:
                fact_id = self._extracted(fact, actor)
                if fact_id is None:
                    left_out += 1
                elif fact_id not in stored:
                    stored.append(fact_id)
            if left_out:
                note = f"{left_out} left out: retracted in this scope before"
                reason = f"{reason}; {note}" if reason else note
            update = {"state": "done", "facts": tuple(stored), "reason": reason}
            self._extractions[run_id] = found.model_copy(update=update)
            return self._extractions[run_id]

    def _extracted(self, fact: NewFact, actor: Actor) -> str | None:
        rows = [
            row
            for row in self._scope(fact.scope).rows
            if fact.key_hash and row.key_hash == fact.key_hash
        ]
        live = next((row for row in rows if row.fact.lifecycle == "live"), None)
        if live:
            return self._confirm(live, fact).fact_id
        if any(row.fact.lifecycle == "retracted" for row in rows):
            return None
        try:
            return self._store(fact, actor).fact_id
        except RetractedBefore:
            return None

    def fail_extraction(self, run_id: str, reason: str, *, retry: bool) -> Extraction:
        with self._lock:
            found = self._known_extraction(run_id)
            update = {"state": "pending" if retry else "failed", "reason": reason}
            self._extractions[run_id] = found.model_copy(update=update)
            return self._extractions[run_id]

    # scopes and principals

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        with self._lock:
            self._check()
            self._scope(path).config = config

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        self._check()
        found = {path: self._scopes[path].config for path in paths if path in self._scopes}
        return {path: config for path, config in found.items() if config}

    def list_scopes(self, view: View) -> tuple[str, ...]:
        self._check()
        return tuple(sorted(self._paths(view, None)))

    def delete_scope(self, path: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            return self._retire(path)

    def _retire(self, path: str) -> bool:
        for key in [key for key in self._usage if key[0] == path]:
            del self._usage[key]
        return self._scopes.pop(path, None) is not None

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        self._check()
        return tuple(self._stats(path, view) for path in paths)

    def _stats(self, path: str, view: View) -> ScopeStats:
        scope = self._scopes.get(path)
        if scope is None:
            return ScopeStats(path=path)
        used: Counter[str] = Counter()
        for (of, observer, kind), count in self._usage.items():
            if of == path and view.sees(observer):
                used[kind] += count
        return ScopeStats(
            path=path,
            facts=sum(row.fact.lifecycle == "live" for row in scope.rows),
            recalls=used["recall"],
            usefulness=statistics.usefulness(used["succeeded"], used["failed"]),
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
        known = self._scope(path).realm_uid
        if known is not None and known != uid:
            if (path, uid) in self._retired_uids:
                raise Conflict(f"{path} belonged to namespace UID {uid} before, now to {known}")
            self._retired_uids.add((path, known))
            gone = [each for each in self._scopes if realm_of(each) == path]
            for each in gone:
                self._retire(each)
        self._scope(path).realm_uid = uid

    def principal(self, username: str) -> PrincipalIn | None:
        self._check()
        return self._principals.get(username)

    def principals(self) -> tuple[PrincipalIn, ...]:
        self._check()
        return tuple(self._principals[name] for name in sorted(self._principals))

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            return self._principals.pop(username, None) is not None

    def identity(self) -> StoreId:
        return StoreId(id="memory", epoch=1)

    def check(self) -> None:
        self._check()

    def close(self) -> None:
        """Keep everything: there is nothing to let go of."""
