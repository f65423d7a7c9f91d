"""The ledger and its jobs in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
from knowledge_service.domain import (
    redaction,
    runs,
    statistics,
)
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.domain.visibility import (
    View,
    realm_of,
)
from knowledge_service.errors import (
    Conflict,
    NotFound,
    QuotaExceeded,
    RetractedBefore,
    RunClosedOtherwise,
)
from knowledge_service.ports import (
    Actor,
    Once,
    RunListing,
)
from knowledge_service.store.verbs import promoting, storing
from tests.fakes.store_desk import MemoryDesk
from tests.fakes.store_facts import Facts

MAX_EPISODES = 5000


class Runs(Facts):
    """The `RunStore` and `ExtractionStore` ports."""

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
            was_open = run_id not in self._credited
            self._scope(merged.scope)
            self._run_realms.setdefault(run_id, self._scope(realm_of(merged.scope)))
            if not (old and old.closed_at):
                self._last_at[run_id] = self._now()
            self._runs[run_id] = merged
            self._credit(merged, actor)
            for fact_id in self._in_front(run_id) if was_open else ():
                promoting.promote_proven(MemoryDesk(self), fact_id)
            return merged

    def _in_front(self, run_id: str) -> list[str]:
        return [fact_id for fact_id, runs_ in self._shown.items() if run_id in runs_]

    def _credit(self, run: Run, actor: Actor) -> None:
        if run.outcome is None or run.run_id in self._credited:
            return
        self._credited.add(run.run_id)
        kind = runs.credit(run, actor.type)
        if kind is None:
            return
        seen: set[tuple[str, str]] = set()
        for new in self._receipts.values():
            if new.receipt.run == run.run_id:
                for fact_id in new.receipt.facts:
                    row = self.row(fact_id)
                    is_other = row and not runs.is_own(run.run_id, row.fact)
                    if row and is_other and (fact_id, new.observer) not in seen:
                        seen.add((fact_id, new.observer))
                        shown = self._shown.setdefault(fact_id, [])
                        shown += [] if run.run_id in shown else [run.run_id]
                        self._usage[(row.fact.scope, new.observer, kind)] += 1
                        self._fact_usage[(fact_id, kind)] += 1
                        self._by_observer[(fact_id, new.observer, kind)] += 1

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

    def parameter_stats(self, name: BlueprintName, view: View) -> tuple[ParameterStats, ...]:
        self._check()
        rows = [
            statistics.LedgerRow(
                run.revision,
                run.outcome,
                self._last_at[run.run_id],
                runs.duration_s(run),
                run.cost,
                run.parameters or {},
            )
            for run in self._current_runs()
            if (run.namespace, run.blueprint) == (name.namespace, name.name)
            and view.sees(run.scope)
        ]
        return statistics.parameter_stats(rows)

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
            row.fact
            for row in self._scope(fact.scope).rows
            if fact.key_hash and row.key_hash == fact.key_hash
        ]
        live = next((each for each in rows if each.lifecycle == "live"), None)
        if live:
            storing.confirm(MemoryDesk(self), live, fact, actor)
            return live.id
        if any(each.lifecycle == "retracted" for each in rows):
            return None
        try:
            return storing.store(MemoryDesk(self), fact, actor).fact_id
        except RetractedBefore:
            return None

    def fail_extraction(self, run_id: str, reason: str, *, retry: bool) -> Extraction:
        with self._lock:
            found = self._known_extraction(run_id)
            update = {"state": "pending" if retry else "failed", "reason": reason}
            self._extractions[run_id] = found.model_copy(update=update)
            return self._extractions[run_id]
