"""The ledger and its jobs in memory."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Episode,
    EpisodeIn,
    EpisodesAccepted,
    Extraction,
    ParameterStats,
    Run,
    RunIn,
)
from knowledge_service.domain import extraction, redaction, run_reports, run_statistics
from knowledge_service.domain.access_control import (
    View,
    realm_of,
)
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import (
    Conflict,
    NotFound,
    PreviouslyRetracted,
    QuotaExceeded,
    RunOutcomeConflict,
)
from knowledge_service.fact_transactions import promote, store_fact
from knowledge_service.ports import (
    Actor,
    ExtractionCall,
    ExtractionQueue,
    IdempotencyKey,
    RunListing,
)
from tests.fakes.store_base import Entry, Slot
from tests.fakes.store_facts import Facts
from tests.fakes.store_unit_of_work import MemoryUnitOfWork

MAX_EPISODES = 5000


class Runs(Facts):
    """The `RunStore` and `ExtractionStore` ports."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        with self._lock:
            self._check()
            slot = (self._scope(realm_of(run.scope)).number, run_id)
            entry = self._ledger.get(slot)
            old = entry.run if entry else None
            try:
                merged = run_reports.merge_run(run_id, old, run, self._now())
            except run_reports.RunMismatch as exc:
                if exc.field == "outcome":
                    raise RunOutcomeConflict(
                        f"run {run_id} is closed with outcome {exc.recorded};"
                        " an outcome never changes"
                    ) from exc
                raise Conflict(
                    f"run {run_id} is another one: its {exc.field} is {exc.recorded}"
                ) from exc
            if merged == old:
                return merged
            if entry:
                run_reports.require_changeable(
                    entry.run, by_agent=entry.by_agent, name=actor.name, changed_by=actor.type
                )
            self._scope(merged.scope)
            entry = self._ledger.setdefault(slot, Entry(merged, self._now(), actor.type == "agent"))
            was_open = not entry.is_credited
            if not (old and old.closed_at):
                entry.last_at = self._now()
            entry.run = merged
            self._credit(slot, entry, actor)
            for fact_id in self._in_front(slot) if was_open else ():
                promote.promote_proven(MemoryUnitOfWork(self), fact_id)
            return merged

    def _in_front(self, slot: Slot) -> list[str]:
        return [fact_id for fact_id, slots in self._shown.items() if slot in slots]

    def _credit(self, slot: Slot, entry: Entry, actor: Actor) -> None:
        run = entry.run
        if run.outcome is None or entry.is_credited:
            return
        entry.is_credited = True
        kind = run_reports.usage_kind_of_outcome(run, actor.type)
        if kind is None:
            return
        observed: set[tuple[str, str]] = set()
        for new in self._receipts.values():
            if self._run_of(new) is run:
                for fact_id in new.receipt.facts:
                    row = self.row(fact_id)
                    is_other = row and not run_reports.is_own(run.run_id, row.fact)
                    if row and is_other and (fact_id, new.observer) not in observed:
                        observed.add((fact_id, new.observer))
                        rows = self._shown.setdefault(fact_id, [])
                        rows += [] if slot in rows else [slot]
                        self._usage[(row.fact.scope, new.observer, kind)] += 1
                        self._fact_usage[(fact_id, kind)] += 1
                        self._by_observer[(fact_id, new.observer, kind)] += 1

    def _current(self) -> list[Entry]:
        current = {scope.number for scope in self._scopes.values()}
        return [entry for (number, _), entry in self._ledger.items() if number in current]

    def _counted(self, name: BlueprintName, view: View) -> list[Entry]:
        return [
            entry
            for entry in self._current()
            if (entry.run.namespace, entry.run.blueprint) == (name.namespace, name.name)
            and not entry.by_agent
            and view.can_read(entry.run.scope)
        ]

    def _current_runs(self) -> list[Run]:
        return [entry.run for entry in self._current()]

    def run(self, key: RunKey, view: View) -> Run | None:
        self._check()
        entry = self._entry(key)
        return entry.run if entry and view.can_read(entry.run.scope) else None

    def runs_named(self, run_id: str, view: View) -> tuple[Run, ...]:
        self._check()
        runs = [run for run in self._current_runs() if run.run_id == run_id]
        runs.sort(key=lambda run: run.scope)
        return tuple(run for run in runs if view.can_read(run.scope))

    def withheld_runs(self, realm: str) -> tuple[Run, ...]:
        self._check()
        runs = [
            run
            for run in self._current_runs()
            if run_reports.key_of(run).realm == realm
            and run.kind == "mission"
            and run.outcome is None
            and run.arm != "on"
        ]
        return tuple(sorted(runs, key=lambda run: run.run_id))

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        self._check()
        initial_entry = self._entry(listing.before_run) if listing.before_run else None
        current_runs = [
            run
            for run in self._current_runs()
            if listing.view.can_read(run.scope)
            and listing.namespace in (None, run.namespace)
            and listing.blueprint in (None, run.blueprint)
            and (initial_entry is None or _place(run) < _place(initial_entry.run))
        ]
        current_runs.sort(key=_place, reverse=True)
        return tuple(current_runs[: listing.limit])

    def add_episodes(
        self,
        key: RunKey,
        episodes: Sequence[EpisodeIn],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> EpisodesAccepted:
        run_id = key.run_id

        def work() -> EpisodesAccepted:
            entry = self._entry(key)
            if entry is None:
                raise NotFound(f"run {run_id} does not exist or is not visible to you")
            record = entry.episodes
            new: dict[tuple[int, str], EpisodeIn] = {}
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
                identity = (episode.attempt, canonical(parts))
                if identity not in entry.episode_keys:
                    new.setdefault(identity, masked)
            is_over = len(record) + len(new) > MAX_EPISODES
            if new and is_over and actor.type != "system":
                raise QuotaExceeded(
                    f"run {run_id} may have {MAX_EPISODES} episodes; it has {len(record)}"
                )
            entry.episode_keys |= set(new)
            for episode in new.values():
                record.append(
                    Episode(**dict(episode), seq=len(record) + 1, run_id=run_id, actor=actor.name)
                )
            return EpisodesAccepted(accepted=len(new), duplicates=len(episodes) - len(new))

        return self._once(idempotency_key, work)

    def episodes(
        self, key: RunKey, *, after_sequence: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        self._check()
        entry = self._entry(key)
        return tuple(e for e in (entry.episodes if entry else []) if e.seq > after_sequence)[:limit]

    def run_samples(
        self, name: BlueprintName, view: View, *, since: datetime | None = None
    ) -> tuple[run_statistics.RunSample, ...]:
        self._check()
        runs = [
            entry.run
            for entry in self._counted(name, view)
            if since is None or entry.run.opened_at >= since
        ]
        runs.sort(key=lambda run: (run.opened_at, run.run_id), reverse=True)
        return tuple(
            run_statistics.RunSample(
                run_id=run.run_id,
                revision=run.revision,
                arm=run.arm,
                outcome=run.outcome,
                turns=run.counters.get("turns"),
                tokens=run.tokens,
                cost=run.cost,
                parameters=run.parameters or {},
                canary=run.counters.get("canary") if run.kind == "mission" else None,
            )
            for run in runs
        )

    def parameter_stats(self, name: BlueprintName, view: View) -> tuple[ParameterStats, ...]:
        self._check()
        rows = [
            run_statistics.LedgerRow(
                run.revision,
                run.outcome,
                entry.last_at,
                run_reports.duration_s(run),
                run.cost,
                run.parameters or {},
            )
            for entry in self._counted(name, view)
            for run in (entry.run,)
        ]
        return run_statistics.parameter_stats(rows)

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        self._check()
        return tuple(
            run_statistics.blueprint_stats(
                name,
                [
                    run_statistics.LedgerRow(
                        run.revision,
                        run.outcome,
                        entry.last_at,
                        run_reports.duration_s(run),
                        run.cost,
                    )
                    for entry in self._counted(name, view)
                    for run in (entry.run,)
                ],
            )
            for name in names
        )

    def accept_extraction(self, key: RunKey, max_facts: int, *, actor: Actor) -> Extraction:
        with self._lock:
            self._check()
            entry = self._entry(key)
            if entry is None:
                raise NotFound(f"no extraction was requested for run {key.run_id}")
            if entry.extraction is None:
                entry.limit = max_facts
                entry.extraction = Extraction(run_id=key.run_id, state="pending")
            return entry.extraction

    def extraction(self, key: RunKey) -> Extraction | None:
        self._check()
        entry = self._entry(key)
        return entry.extraction if entry else None

    def extraction_limit(self, key: RunKey) -> int:
        self._check()
        entry = self._entry(key)
        return entry.limit if entry else 0

    def open_extractions(
        self, limit: int, *, queue: ExtractionQueue = "all", due_at: datetime | None = None
    ) -> tuple[tuple[RunKey, Extraction], ...]:
        self._check()
        results = [
            (run_reports.key_of(entry.run), entry.extraction)
            for entry in self._current()
            if entry.extraction
            and entry.extraction.state in ("pending", "running")
            and (queue == "all" or (entry.extraction.model is not None) == (queue == "model"))
            and (due_at is None or entry.retry_at is None or entry.retry_at <= due_at)
        ]
        return tuple(results[:limit])

    def _extracting(self, key: RunKey) -> tuple[Entry, Extraction]:
        self._check()
        entry = self._entry(key)
        if entry is None or entry.extraction is None:
            raise NotFound(f"no extraction was requested for run {key.run_id}")
        return entry, entry.extraction

    def begin_extraction(self, key: RunKey) -> Extraction:
        with self._lock:
            entry, extraction = self._extracting(key)
            if extraction.state in ("pending", "running"):
                update = {"state": "running", "attempts": extraction.attempts + 1}
                entry.extraction = extraction = extraction.model_copy(update=update)
            return extraction

    def choose_extraction_model(self, key: RunKey, model: str) -> Extraction:
        with self._lock:
            entry, extraction = self._extracting(key)
            if extraction.state in ("pending", "running"):
                update = {"state": "pending", "model": model}
                entry.extraction = extraction = extraction.model_copy(update=update)
            return extraction

    def reserve_extraction_call(self, key: RunKey, call: ExtractionCall) -> bool:
        with self._lock:
            entry, extraction = self._extracting(key)
            spent = sum(
                other.cost
                for other in self._current()
                if realm_of(other.run.scope) == realm_of(entry.run.scope)
                and other.called_at is not None
                and other.called_at > call.since
            )
            if call.budget is not None and spent + call.cost > call.budget:
                return False
            entry.cost += call.cost
            entry.called_at = self._now()
            update = {"calls": extraction.calls + 1, "cost": float(entry.cost)}
            entry.extraction = extraction.model_copy(update=update)
            return True

    def settle_extraction_call(
        self, key: RunKey, *, reserved: Decimal, cost: Decimal, tokens: tuple[int, int]
    ) -> None:
        with self._lock:
            entry, extraction = self._extracting(key)
            entry.cost += cost - reserved
            update = {
                "cost": float(entry.cost),
                "input_tokens": extraction.input_tokens + tokens[0],
                "output_tokens": extraction.output_tokens + tokens[1],
            }
            entry.extraction = extraction.model_copy(update=update)

    def earlier_signatures(self, key: RunKey, signatures: Sequence[str]) -> Mapping[str, int]:
        self._check()
        this = self._entry(key)
        assert this is not None
        return Counter(
            episode.error_signature
            for entry in self._current()
            if entry.run.scope == this.run.scope
            and entry is not this
            and entry.run.opened_at <= this.run.opened_at
            for episode in entry.episodes
            if episode.error_signature in signatures and episode.error_signature
        )

    def finish_extraction(
        self,
        key: RunKey,
        facts: Sequence[NewFact],
        reason: str | None,
        *,
        actor: Actor,
        drawn_facts: Sequence[NewFact] = (),
    ) -> Extraction:
        with self._lock:
            entry, matching_extraction = self._extracting(key)
            if matching_extraction.state == "done":
                return matching_extraction
            stored = [fact_id for fact_id in matching_extraction.facts if self.row(fact_id)]
            counts: Counter[str] = Counter()
            stores = [
                *((fact, self._extracted) for fact in facts),
                *((fact, self._drawn) for fact in drawn_facts),
            ]
            for fact, store in stores:
                try:
                    fact_id = store(fact, actor)
                except PreviouslyRetracted:
                    counts["retracted in this scope before"] += 1
                except QuotaExceeded as exc:
                    counts[exc.detail] += 1
                else:
                    stored += [fact_id] if fact_id not in stored else []
            notes = [f"{count} left out: {why}" for why, count in counts.items()]
            reason = "; ".join([*([reason] if reason else []), *notes]) or None
            update = {"state": "done", "facts": tuple(stored), "reason": reason}
            entry.extraction = matching_extraction = matching_extraction.model_copy(update=update)
            return matching_extraction

    def _extracted(self, fact: NewFact, actor: Actor) -> str:
        rows = [
            row.fact
            for row in self._scope(fact.scope).rows
            if fact.key_hash and row.key_hash == fact.key_hash
            if extraction.is_confirmed(row.fact.content, fact)
        ]
        live = next((item for item in rows if item.lifecycle == "live"), None)
        if live:
            store_fact.confirm_equal(MemoryUnitOfWork(self), live, fact, actor)
            return live.id
        if any(item.lifecycle == "retracted" for item in rows):
            raise PreviouslyRetracted(f"what {fact.scope} knew of this key was retracted")
        return store_fact.store_or_confirm_fact(MemoryUnitOfWork(self), fact, actor).fact_id

    def _drawn(self, fact: NewFact, actor: Actor) -> str:
        agent = dataclasses.replace(actor, type="agent")
        return store_fact.store_or_confirm_fact(MemoryUnitOfWork(self), fact, agent).fact_id

    def fail_extraction(self, key: RunKey, reason: str, *, retry: bool) -> Extraction:
        with self._lock:
            entry, result = self._extracting(key)
            entry.retry_at = None
            update = {"state": "pending" if retry else "failed", "reason": reason}
            entry.extraction = result = result.model_copy(update=update)
            return result

    def postpone_extraction(
        self,
        key: RunKey,
        reason: str,
        *,
        retry_at: datetime,
        facts: Sequence[NewFact],
        actor: Actor,
    ) -> Extraction:
        with self._lock:
            fact_ids: list[str] = []
            for fact in facts:
                with suppress(PreviouslyRetracted, QuotaExceeded):
                    fact_ids.append(self._extracted(fact, actor))
            result = self.fail_extraction(key, reason, retry=True)
            if fact_ids:
                result = result.model_copy(update={"facts": tuple(dict.fromkeys(fact_ids))})
            entry = self._extracting(key)[0]
            entry.extraction, entry.retry_at = result, retry_at
            return result


def _place(run: Run) -> tuple[datetime, str, str]:
    """Return what a list of runs is ordered by."""
    return (run.opened_at, run.run_id, run.scope)
