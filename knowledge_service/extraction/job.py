"""One extraction, from the episodes of a run to its stored facts.

Rules extract first. If the scope chose a model that the installation allows, the job moves to the
queue of models, and the model gets the facts of the rules as known. If the model does not answer
yet, the facts of the rules are stored, and the job waits. When it cannot be asked, the facts of the
rules are stored alone, and the reason says so.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from knowledge_client.models import Episode, ExtractionConfig, Fact, Ref, Run, Source
from knowledge_service.domain import episode_parsing, episode_text, extraction, repetition
from knowledge_service.domain.access_control import EVERYTHING
from knowledge_service.domain.facts import NewFact, merge_refs
from knowledge_service.errors import NotFound
from knowledge_service.extraction.accounted_calls import (
    CallUsage,
    ModelUnavailable,
    ModelUnusable,
)
from knowledge_service.extraction.model_extractor import Draft, ModelExtractor, Unverified
from knowledge_service.extraction.statement_verification import Cause
from knowledge_service.ports import Actor, ExtractionCall, Listing

if TYPE_CHECKING:
    from knowledge_client.models import Extraction
    from knowledge_service.domain.extraction_answer import DrawnFact
    from knowledge_service.domain.run_reports import RunKey
    from knowledge_service.ports import Store

_log = logging.getLogger(__name__)
ACTOR = Actor("kais-extraction", "system", for_agents=True)

# A run that has just ended has few facts, and they are among the newest.
_MAX_LISTED_FACTS = 500
# A reason becomes part of a condition; words and numbers in it may come from a model.
_MAX_REASON = 1_000

_BUDGET_PERIOD = timedelta(hours=24)
# The delay before a model that does not answer is asked again; it doubles up to an hour.
_FIRST_RETRY = timedelta(seconds=30)
_LONGEST_RETRY = timedelta(hours=1)
_LONGEST_SHIFT = 10  # beyond it every delay is the longest
_MAX_RETRY_TIME = timedelta(hours=24)
_ENOUGH = 3


class Moment(Protocol):
    """A clock."""

    def __call__(self) -> datetime:
        """Return the time."""
        ...


@dataclass(frozen=True)
class Models:
    """The models that may extract facts, and the clock that times their retries.

    `on_unverified` is called when an extraction ends in which facts have no verdict of the model,
    with each cause. `replaying` is a lock: only one replay at a time may ask a model.
    """

    extractor: ModelExtractor
    now: Moment
    on_unverified: Callable[[Cause], object] = lambda _: None
    replaying: threading.Lock = field(default_factory=threading.Lock)


class StoredCalls:
    """The `CallLedger` of one extraction, in the store."""

    def __init__(self, store: Store, key: RunKey, now: Moment) -> None:
        self._store = store
        self._key = key
        self._now = now
        self.input_tokens = self.output_tokens = 0
        self.cost = Decimal(0)

    def reserve(self, cost: Decimal | None, budget: Decimal | None) -> bool:
        """Record that a call begins; False if the budget of the realm does not allow it."""
        reserved = cost or Decimal(0)
        call = ExtractionCall(cost=reserved, budget=budget, since=self._now() - _BUDGET_PERIOD)
        is_allowed = self._store.reserve_extraction_call(self._key, call)
        if is_allowed:
            self.cost += reserved
        return is_allowed

    def settle(self, reserved: Decimal | None, usage: CallUsage) -> None:
        """Record what the call used."""
        estimate, cost = reserved or Decimal(0), usage.cost or Decimal(0)
        tokens = (usage.input_tokens, usage.output_tokens)
        self._store.settle_extraction_call(self._key, reserved=estimate, cost=cost, tokens=tokens)
        self.cost += cost - estimate
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens


def run_extraction(store: Store, key: RunKey, models: Models | None = None) -> Extraction:
    """Read the episodes, extract facts and store them; the outcome of the run stays unchanged.

    An extraction that is still open afterwards waits for its model.

    Raises:
        NotFound: the run no longer exists, for example after its realm was recreated.
    """
    mission_run = store.run(key, EVERYTHING)
    chosen = _model_to_choose(store, key, mission_run, models)
    if chosen:
        return store.choose_extraction_model(key, chosen)
    extraction = store.begin_extraction(key)
    if mission_run is None:
        raise NotFound(f"run {key.run_id} is gone; there is nothing to extract from")
    config = store.scope_configs([mission_run.scope]).get(mission_run.scope)
    settings = config.extraction if config else ExtractionConfig()
    if not settings.enabled or (config and config.read_only):
        disabled_message = (
            "extraction is switched off in {}" if not settings.enabled else "{} is read-only"
        )
        return store.finish_extraction(
            key, (), disabled_message.format(mission_run.scope), actor=ACTOR
        )
    record = read_record(store, key, mission_run, settings)
    if settings.model is not None:
        return _extract_by_model(store, record, models, model=settings.model, extraction=extraction)
    facts = _facts_of_rules(record, extraction)
    return store.finish_extraction(key, facts, record.by_rules.reason, actor=ACTOR)


def _facts_of_rules(record: RunRecord, extraction: Extraction) -> list[NewFact]:
    """Return the facts to store; none if an earlier attempt stored them."""
    if extraction.facts:
        return []
    return [_to_new_fact(record.run, fact) for fact in record.by_rules.facts]


def _extract_by_model(
    store: Store, record: RunRecord, models: Models | None, *, model: str, extraction: Extraction
) -> Extraction:
    """Store the facts of rules and model; only those of the rules if the model fails."""
    key = record.key
    facts = _facts_of_rules(record, extraction)
    try:
        draft = draw(store, record, models, model=model)
    except ModelUnavailable as exc:
        delay = retry_delay(extraction.attempts, exc.retry_after_s)
        if models is not None and delay is not None:
            return store.postpone_extraction(
                key,
                _bounded(f"{exc}; asked again later"),
                retry_at=models.now() + delay,
                facts=facts,
                actor=ACTOR,
            )
        problem = f"{exc}, and did not within {_MAX_RETRY_TIME // timedelta(hours=1)} hours"
    except ModelUnusable as exc:
        problem = str(exc)
    else:
        drawn = [_drawn_to_new_fact(record, fact, model) for fact in draft.facts]
        reason = _reason_of(draft, len(facts) or len(extraction.facts), model)
        result = store.finish_extraction(
            key, facts, reason and _bounded(reason), actor=ACTOR, drawn_facts=drawn
        )
        if draft.unverified and models is not None:
            _report_unverified(key, draft.unverified, models, model=model)
        return result
    fields = {**run_fields(key), "model": model, "why": problem}
    _log.warning("extraction by rules alone", extra={"fields": fields})
    reason = f"by rules alone: {problem}"
    reason += f"; {record.by_rules.reason}" if record.by_rules.reason else ""
    return store.finish_extraction(key, facts, _bounded(reason), actor=ACTOR)


def _report_unverified(key: RunKey, unverified: Unverified, models: Models, *, model: str) -> None:
    for cause in unverified.problems:
        models.on_unverified(cause)
    fields = {**run_fields(key), "model": model, "why": str(unverified)}
    _log.warning("extraction without verification", extra={"fields": fields})


def run_fields(key: RunKey) -> dict[str, str]:
    """Return the fields of a log line that name a run; its id alone may occur in many realms."""
    return {"realm": key.realm, "run": key.run_id}


def _bounded(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"


def _model_to_choose(
    store: Store, key: RunKey, run: Run | None, models: Models | None
) -> str | None:
    """Return the model of the run's scope if the job must still move to the queue of models."""
    if run is None or models is None:
        return None
    config = store.scope_configs([run.scope]).get(run.scope)
    if config is None or not config.extraction.enabled or config.read_only:
        return None
    model, current = config.extraction.model, store.extraction(key)
    is_chosen = current is None or current.model == model
    return model if model in models.extractor.names and not is_chosen else None


@dataclass(frozen=True)
class RunRecord:
    """The input of an extraction: a run with its episodes, and the facts of the rules.

    `known` are the texts that a model should not repeat.
    """

    key: RunKey
    run: Run
    episodes: Sequence[Episode]
    by_rules: extraction.Outcome
    existing_facts: tuple[str, ...]
    limit: int


def read_record(store: Store, key: RunKey, run: Run, settings: ExtractionConfig) -> RunRecord:
    """Read the episodes of a run and what it remembered, and extract by rules."""
    episodes = store.episodes(key)
    earlier = store.earlier_signatures(key, episode_parsing.error_signatures(episodes))
    limit = min(store.extraction_limit(key), settings.max_facts)
    remembered = _facts_of_run(store, run)
    outcome = extraction.extract(run, episodes, earlier, remembered=remembered, limit=limit)
    existing_facts = (
        *(fact.content for fact in outcome.facts),
        *(repetition.text_of(fact) for fact in remembered),
    )
    return RunRecord(key, run, episodes, outcome, existing_facts, limit)


def draw(
    store: Store, record: RunRecord, models: Models | None, *, model: str,
    ledger: StoredCalls | None = None,
) -> Draft:  # fmt: skip
    """Ask the model for facts beside those of the rules.

    Raises:
        ModelUnusable: it cannot be asked.
        ModelUnavailable: it may be asked later.
    """
    if models is None:
        raise ModelUnusable(
            f"the model {model} is not one that this installation allows (none); "
            "add it to knowledge.extraction.models of the chart"
        )
    remaining = record.limit - len(record.by_rules.facts)
    if not record.episodes or remaining <= 0:
        return Draft((), ())
    calls = ledger or StoredCalls(store, record.key, models.now)
    return models.extractor.extract(
        model, record.run, record.episodes, record.existing_facts, limit=remaining, ledger=calls
    )


def retry_delay(attempts: int, retry_after_s: float | None = None) -> timedelta | None:
    """Return how long to wait after this many attempts; None when it is time to give up."""
    delays: list[timedelta] = [
        min(_FIRST_RETRY * (1 << min(n, 20)), _LONGEST_RETRY) for n in range(attempts)
    ]
    if sum(delays[:-1], timedelta()) >= _MAX_RETRY_TIME:
        return None
    requested = timedelta(seconds=min(retry_after_s or 0, _LONGEST_RETRY.total_seconds()))
    return max(delays[-1], requested)


def _reason_of(draft: Draft, by_rules: int, model: str) -> str | None:
    """Explain why facts are few, left out or not verified; None if nothing is the case."""
    total = by_rules + len(draft.facts)
    # A detail is in the words of the model, which those of a record may control.
    causes = [each.reason for each in draft.rejected]
    if total >= _ENOUGH and not causes and not draft.unverified:
        return None
    text = f"{len(draft.facts)} by the model {model}, {by_rules} by rules"
    if draft.unverified:
        text += f"; not verified by the model: {draft.unverified}"
    return f"{text}; {len(causes)} left out: {', '.join(dict.fromkeys(causes))}" if causes else text


def _facts_of_run(store: Store, run: Run) -> list[Fact]:
    """Return the facts that the run itself remembered in its scope."""
    newest = store.list_facts(
        Listing(EVERYTHING, _MAX_LISTED_FACTS, scopes=(run.scope,), lifecycle="live")
    )
    return [
        fact
        for fact in newest
        if fact.source.type != "mission_extraction"
        and any(ref.type == "run" and ref.id == run.run_id for ref in fact.source.refs)
    ]


def _to_new_fact(run: Run, fact: extraction.ExtractedFact) -> NewFact:
    run_refs = _run_refs(run)
    episodes = tuple(Ref(type="episode", id=f"{run.run_id}/{seq}") for seq in fact.episodes)
    return NewFact(
        scope=run.scope,
        kind=fact.kind,
        content=fact.content,
        title=fact.title,
        subject=fact.subject,
        predicate=fact.predicate,
        tags=fact.tags,
        confidence=fact.confidence,
        source=Source(
            type="mission_extraction", refs=merge_refs(run_refs, episodes), actor=ACTOR.name
        ),
        session=run.run_id,
        quoted=fact.quoted,
    )


def _run_refs(run: Run) -> tuple[Ref, ...]:
    refs = (Ref(type="run", id=run.run_id),)
    if run.mission:
        return (Ref(type="mission", id=f"{run.namespace}/{run.mission}"), *refs)
    return refs


def _drawn_to_new_fact(record: RunRecord, fact: DrawnFact, model: str) -> NewFact:
    run = record.run
    texts = {episode.seq: episode_text.text_of(episode) for episode in record.episodes}
    episodes = tuple(Ref(type="episode", id=f"{run.run_id}/{seq}") for seq in fact.episodes)
    refs = merge_refs((*_run_refs(run), Ref(type="model", id=model)), episodes)
    new = NewFact(
        scope=run.scope,
        kind=fact.known_kind,
        content=fact.content,
        subject=fact.subject or None,
        predicate=fact.predicate or None,
        tags=tuple(fact.tags),
        confidence=fact.bounded_confidence,
        source=Source(type="mission_extraction", refs=refs, actor=ACTOR.name),
        session=run.run_id,
        # If the quoted episodes contain instructions, the fact is flagged even if the model
        # reworded them.
        quoted=tuple(texts[seq] for seq in fact.episodes),
    )
    # A flagged fact must not supersede others.
    return dataclasses.replace(new, subject=None, predicate=None) if new.flags else new
