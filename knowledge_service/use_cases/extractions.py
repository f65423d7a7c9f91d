"""Extractions: start one for a closed run, and read its state."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from knowledge_client.models import (
    Extraction,
    ExtractionConfig,
    ExtractionIn,
    ExtractionReplay,
    ReplayedFact,
    ReplayIn,
)
from knowledge_service.domain import repetition
from knowledge_service.domain.extraction_answer import DrawnFact
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.run_reports import key_of
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.extraction import job
from knowledge_service.extraction.accounted_calls import ModelUnavailable, ModelUnusable
from knowledge_service.use_cases import authorization, runs

if TYPE_CHECKING:
    from knowledge_service.extraction.job import Models
    from knowledge_service.ports import Store


def start_extraction(store: Store, principal: Principal, body: ExtractionIn) -> Extraction:
    """Request the extraction of a closed run; a repeat returns the state of the first request.

    Raises:
        Conflict: the run is still open.
    """
    run = runs.get_visible_run(store, principal, body.run_id, body.namespace)
    authorization.require_verb(principal, "extract", run.scope)
    if run.outcome is None:
        raise Conflict(f"run {run.run_id} is still open; close it with its outcome first")
    return store.accept_extraction(
        key_of(run), body.max_facts, actor=authorization.actor_of(principal)
    )


def replay_extraction(
    store: Store, principal: Principal, body: ReplayIn, models: Models | None
) -> ExtractionReplay:
    """Ask a model for the facts of a run and compare them with the stored ones; store nothing.

    The call counts in the extraction of the run and in the budget of its realm.

    Raises:
        NotFound: no extraction of the run was requested, or the run is not accessible.
        Conflict: the model cannot be asked, or does not answer, or another replay asks one.
    """
    run = runs.get_visible_run(store, principal, body.run_id, body.namespace)
    authorization.require_verb(principal, "extract", run.scope)
    key = key_of(run)
    stored = store.extraction(key)
    if stored is None:
        raise NotFound(f"no extraction of run {run.run_id} exists; nothing can be replayed")
    if models is None:
        raise Conflict(
            f"the model {body.model} cannot be asked: this installation allows no models; "
            "set knowledge.extraction.models of the chart"
        )
    config = store.scope_configs([run.scope]).get(run.scope)
    settings = config.extraction if config else ExtractionConfig()
    record = job.read_record(store, key, run, settings)
    # The facts of the first extraction are not in the record, so the model may draw them again.
    # They are compared below.
    calls = job.StoredCalls(store, key, models.now)
    # A call may take minutes and occupies a thread that writes need as well, so only one runs.
    if not models.replaying.acquire(blocking=False):
        raise Conflict("another replay is asking a model; try again when it has ended")
    try:
        draft = job.draw(store, record, models, model=body.model, ledger=calls)
    except ModelUnusable as exc:
        raise Conflict(str(exc)) from exc
    except ModelUnavailable as exc:
        raise Conflict(f"{exc}; try again later") from exc
    finally:
        models.replaying.release()
    contents = [
        fact.content for fact in (store.fact(i, principal.view) for i in stored.facts) if fact
    ]
    facts = [
        *(_replayed(fact, contents) for fact in draft.facts),
        *(
            ReplayedFact(
                content=each.content,
                kind="fact",
                confidence=0,
                comparison="left_out",
                reason=f"{each.reason}: {each.detail}" if each.detail else each.reason,
            )
            for each in draft.rejected
        ),
    ]
    drawn = [*(fact.content for fact in draft.facts), *(f.content for f in record.by_rules.facts)]
    return ExtractionReplay(
        run_id=run.run_id,
        model=body.model,
        facts=tuple(facts),
        missing=tuple(text for text in contents if not _is_among(text, drawn)),
        unverified=str(draft.unverified) if draft.unverified else None,
        input_tokens=calls.input_tokens,
        output_tokens=calls.output_tokens,
        cost=float(calls.cost),
    )


def _replayed(fact: DrawnFact, stored: Sequence[str]) -> ReplayedFact:
    return ReplayedFact(
        content=fact.content,
        kind=fact.known_kind,
        confidence=fact.bounded_confidence,
        tags=tuple(fact.tags),
        episodes=tuple(fact.episodes),
        comparison="stored" if _is_among(fact.content, stored) else "new",
    )


def _is_among(text: str, texts: Sequence[str]) -> bool:
    return any(repetition.is_repetition(text, other) for other in texts)


def get_visible_extraction(
    store: Store, principal: Principal, run_id: str, namespace: str | None = None
) -> Extraction:
    """Return the state of an extraction whose run the caller may read.

    Raises:
        NotFound: no extraction was requested, or the run is not accessible.
        Conflict: several realms have a run of that id.
    """
    candidates = store.runs_named(run_id, principal.view)
    extraction = None
    with suppress(NotFound):
        run = authorization.choose_run(
            run_id, candidates, namespace=namespace, nearby_scope=principal.home
        )
        extraction = store.extraction(key_of(run))
    if extraction is None:
        raise NotFound(f"no extraction of run {run_id} exists or it is not yours")
    return extraction
