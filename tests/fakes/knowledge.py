"""A knowledge store in memory: the store port with a switch `away`.

A run id is unique in its realm. Runs merge as the ledger's do, closing one with another outcome is
a Conflict, episodes are keyed by run, attempt, type and content, extraction happens once per run.
`calls` lists each call by name.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kais import outcomes
from knowledge_client import errors, models
from tests.fakes.clock import FakeClock


@dataclass
class Realm:
    """What the ledger has of the runs of one namespace, each by its run id."""

    runs: dict[str, models.Run] = field(default_factory=dict)
    episodes: dict[str, list[models.EpisodeIn]] = field(default_factory=dict)
    extractions: dict[str, models.Extraction] = field(default_factory=dict)


class FakeKnowledge:
    """The Knowledge port; `runs`, `episodes` and `extractions` are those of namespace `demo`.

    The caller reaches every realm, as the operator does. Put `models.RecalledFact`s into `facts` to
    have them recalled.
    """

    def __init__(self, *, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.away = False
        self.refusals: dict[str, errors.KnowledgeError] = {}
        self.calls: list[str] = []
        self.store = models.StoreIdentity(id="store-1", epoch=1)
        self.principals: dict[str, models.PrincipalIn] = {}
        self.scopes: dict[str, models.ScopeConfig] = {}
        self.deleted_scopes: list[str] = []
        self.erased_scopes: list[str] = []
        self.realms: defaultdict[str, Realm] = defaultdict(Realm)
        self.extraction_state = "done"
        self.remembered: dict[str, tuple[str, ...]] = {}
        self.facts: list[models.RecalledFact] = []
        self.recalls: list[models.RecallIn] = []
        self.scope_stats: dict[str, models.ScopeStats] = {}
        self._receipts: dict[str, tuple[models.RecallIn, models.Recalled]] = {}

    @property
    def runs(self) -> dict[str, models.Run]:
        return self.realms["demo"].runs

    @property
    def episodes(self) -> dict[str, list[models.EpisodeIn]]:
        return self.realms["demo"].episodes

    @property
    def extractions(self) -> dict[str, models.Extraction]:
        return self.realms["demo"].extractions

    def _realm_of(self, run_id: str, namespace: str | None) -> Realm:
        """Choose the realm whose run an id means, as the service does for a platform caller."""
        realms = [self.realms[namespace]] if namespace is not None else self.realms.values()
        matches = [realm for realm in realms if run_id in realm.runs]
        missions = [realm for realm in matches if realm.runs[run_id].kind == "mission"]
        matches = missions or matches
        if not matches:
            raise errors.NotFound(f"run {run_id} not found")
        if len(matches) > 1:
            raise errors.Conflict(f"run {run_id} exists in several realms; name its namespace")
        return matches[0]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.away:
            raise errors.KnowledgeUnavailable(f"{name}: the knowledge service does not answer")
        if name in self.refusals:
            raise self.refusals[name]

    async def whoami(self) -> models.WhoAmI:
        self._called("whoami")
        return models.WhoAmI(
            name="operator",
            type="system",
            home="platform",
            grants=(),
            mode="none",
            store=self.store,
        )

    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn:
        self._called("put_principal")
        self.principals[principal.subject.username] = principal
        return principal

    async def put_scope(self, path: str, config: models.ScopeConfig) -> models.ScopeOut:
        self._called("put_scope")
        self.scopes[path] = config
        return models.ScopeOut(
            path=path, declared=True, config=config, stats=models.ScopeStats(path=path)
        )

    async def list_scopes(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ScopePage:
        del cursor, limit
        self._called("list_scopes")
        return models.ScopePage(
            scopes=tuple(
                models.ScopeOut(
                    path=path, declared=True, config=config, stats=models.ScopeStats(path=path)
                )
                for path, config in sorted(self.scopes.items())
            )
        )

    async def delete_scope(self, path: str, *, erase: bool = False) -> None:
        self._called("delete_scope")
        self.scopes.pop(path, None)
        self.deleted_scopes.append(path)
        self.erased_scopes += [path] if erase else []

    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run:
        self._called("put_run")
        runs = self.realms[run.namespace].runs
        initial_run = runs.get(run_id)
        if initial_run and initial_run.outcome and run.outcome not in (None, initial_run.outcome):
            raise errors.Conflict(f"run {run_id} was closed as {initial_run.outcome}")
        if initial_run and initial_run.scope != run.scope:
            message = f"run {run_id} is another one: its scope is {initial_run.scope}"
            problem = models.Problem(title="conflict", status=409, detail=message, code="conflict")
            raise errors.Conflict(message, problem=problem)
        fields = run.model_dump(exclude_unset=True, exclude_none=True)
        merged = {**(initial_run.model_dump() if initial_run else {}), **fields}
        merged |= {"run_id": run_id, "opened_at": merged.get("opened_at") or self.clock.now()}
        if merged.get("outcome") and not merged.get("closed_at"):
            merged["closed_at"] = self.clock.now()
        runs[run_id] = models.Run.model_validate(merged)
        return runs[run_id]

    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail:
        self._called("get_run")
        run = self._realm_of(run_id, namespace).runs[run_id]
        return models.RunDetail(**dict(run), remembered=self.remembered.get(run_id, ()))

    async def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted:
        self._called("add_episodes")
        realm = self._realm_of(episodes.run_id, episodes.namespace)
        known_episodes = realm.episodes.setdefault(episodes.run_id, [])
        keys = {(e.attempt, e.type, e.content) for e in known_episodes}
        new = [e for e in episodes.episodes if (e.attempt, e.type, e.content) not in keys]
        known_episodes.extend(new)
        return models.EpisodesAccepted(
            accepted=len(new), duplicates=len(episodes.episodes) - len(new)
        )

    async def recall(
        self, query: models.RecallIn, *, idempotency_key: str | None = None
    ) -> models.Recalled:
        self._called("recall")
        if idempotency_key in self._receipts:
            first, answer = self._receipts[idempotency_key]
            if first != query:
                raise errors.Conflict(f"key {idempotency_key} was used for another request")
            return answer
        self.recalls.append(query)
        recalled = models.Recalled(
            receipt=f"receipt-{len(self.recalls)}",
            facts=tuple(self.facts[: query.limit]),
            scopes=("realm:demo",),
            known_at=self.clock.now(),
            ranker="fake",
        )
        if idempotency_key:
            self._receipts[idempotency_key] = query, recalled
        return recalled

    async def start_extraction(self, request: models.ExtractionIn) -> models.Extraction:
        self._called("start_extraction")
        extractions = self._realm_of(request.run_id, request.namespace).extractions
        if request.run_id not in extractions:
            extractions[request.run_id] = models.Extraction.model_validate(
                {"run_id": request.run_id, "state": self.extraction_state, "facts": ("fact-1",)}
            )
        return extractions[request.run_id]

    async def get_extraction(
        self, run_id: str, *, namespace: str | None = None
    ) -> models.Extraction:
        self._called("get_extraction")
        extractions = self._realm_of(run_id, namespace).extractions
        if run_id not in extractions:
            raise errors.NotFound(f"extraction of run {run_id} not found")
        return extractions[run_id]

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        self._called("issue_ticket")
        return models.Ticket(
            ticket=f"for {call.to}", expires_at=self.clock.now() + timedelta(seconds=60)
        )

    async def stats_batch(self, request: models.StatsIn) -> models.Stats:
        self._called("stats_batch")
        return models.Stats(
            blueprints=tuple(
                self._blueprint(blueprint_name) for blueprint_name in request.blueprints
            ),
            scopes=tuple(
                self.scope_stats.get(path, models.ScopeStats(path=path)) for path in request.scopes
            ),
        )

    async def blueprint_stats(
        self, namespace: str, name: str, *, canary: int | None = None, since: datetime | None = None
    ) -> models.BlueprintStats:
        self._called("blueprint_stats")
        stats = self._blueprint(models.BlueprintName(namespace=namespace, name=name))
        runs = [
            run
            for run in self.realms[namespace].runs.values()
            if run.blueprint == name
            and run.counters.get("canary") == canary
            and (since is None or run.opened_at >= since)
        ]
        numbers = sorted({run.revision for run in runs if run.revision is not None})
        drawn = [
            models.CanaryCounts(
                revision=number, **_counts([run for run in runs if run.revision == number])
            )
            for number in numbers
        ]
        return stats.model_copy(update={"canary": tuple(drawn) if canary is not None else ()})

    def _blueprint(self, asked: models.BlueprintName) -> models.BlueprintStats:
        runs = [
            run for run in self.realms[asked.namespace].runs.values() if run.blueprint == asked.name
        ]
        revisions = sorted({run.revision for run in runs if run.revision is not None})
        return models.BlueprintStats(
            namespace=asked.namespace,
            name=asked.name,
            last_used=max((run.opened_at for run in runs), default=None),
            last_revision=max(revisions, default=None),
            revisions=tuple(
                models.RevisionStats(
                    revision=number, **_counts([run for run in runs if run.revision == number])
                )
                for number in revisions
            ),
            **_counts(runs),
        )


def _counts(runs: list[models.Run]) -> dict[str, Any]:
    ended = [outcomes.Outcome(run.outcome) for run in runs if run.outcome]
    counts = outcomes.Counts(
        running=len(runs) - len(ended),
        succeeded=sum(outcomes.is_success(outcome) for outcome in ended),
        failed=sum(outcomes.is_failure(outcome) for outcome in ended),
        excluded=sum(outcomes.is_excluded(outcome) for outcome in ended),
    )
    low_high = counts.interval
    return {
        **dataclasses.asdict(counts),
        "uses": counts.uses,
        "success_rate": counts.success_rate,
        "interval": models.Interval(low=low_high[0], high=low_high[1]) if low_high else None,
    }


def recalled_fact(fact_id: str, content: str, *, at: datetime) -> models.RecalledFact:
    """Build a fact as a recall returns it."""
    return models.RecalledFact.model_validate(
        {
            "id": fact_id,
            "scope": "realm:demo",
            "kind": "fact",
            "content": content,
            "confidence": 0.7,
            "source": {"type": "explicit_remember"},
            "lifecycle": "live",
            "recorded_at": at,
            "rank": 1,
            "score": 1.0,
        }
    )
