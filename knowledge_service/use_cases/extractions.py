"""Extractions: start one for a closed run, and read its state."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from knowledge_client.models import Extraction, ExtractionIn
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.run_reports import key_of
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.use_cases import authorization, runs

if TYPE_CHECKING:
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
