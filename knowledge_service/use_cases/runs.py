"""Runs, their episodes and their extraction: who may say what about which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from knowledge_client.models import (
    EpisodesAccepted,
    EpisodesIn,
    Extraction,
    ExtractionIn,
    ProblemViolation,
    Run,
    RunIn,
)
from knowledge_service.domain import facts, redaction
from knowledge_service.domain.access_control import EVERYTHING, PLATFORM, Principal, realm_of
from knowledge_service.domain.run_merge import MAX_COUNTER_NAME, RunKey, key_of
from knowledge_service.errors import Conflict, Forbidden, InvalidBody, NotFound, TooLarge
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Once, Store

# What the operator sends comes from annotations, which have this many bytes at most.
_PARAMETERS_BYTES = 256 * 1024


def put_run(store: Store, principal: Principal, run_id: str, body: RunIn) -> Run:
    """Open, merge or close a run in a scope that the caller may write to.

    Raises:
        Forbidden: an agent would decide what becomes of a mission.
        NotFound: the realm has a run of that id that is another's, of which nothing is told.
        InvalidBody: the scope lies in another realm than the namespace, or there are too many
            counters, or one with too long a name.
        RunClosedOtherwise: it has another outcome already.
    """
    path = authorization.path_of(body.scope, principal)
    authorization.require(principal, "write", path)
    if body.kind == "mission" and principal.type == "agent":
        raise Forbidden(
            f"{principal.name} is an agent; missions are opened and closed by the operator,"
            " an agent tells what happens by episodes"
        )
    known = store.run(RunKey(realm_of(path), run_id), EVERYTHING)
    if known and not principal.may("write", known.scope):
        raise authorization.no_run(run_id)
    if realm_of(path) not in (PLATFORM, f"realm:{body.namespace}"):
        message = f"must lie in realm:{body.namespace}, the run's namespace"
        violation = ProblemViolation(path="scope", message=message)
        raise InvalidBody(f"run {run_id} has a scope of another realm", (violation,))
    longest = max(map(len, body.counters), default=0)
    if longest > MAX_COUNTER_NAME:
        raise InvalidBody(
            f"the name of a counter has {longest} characters, at most {MAX_COUNTER_NAME}"
        )
    kept: dict[str, object] = {"scope": path}
    if body.objective:
        kept["objective"] = redaction.mask(body.objective)
    if body.parameters:
        _refuse_large(body.parameters)
        kept["parameters"] = redaction.mask_tree(body.parameters)
    return store.put_run(run_id, body.model_copy(update=kept), actor=authorization.actor(principal))


def _refuse_large(parameters: Mapping[str, Any]) -> None:
    size = len(json.dumps(parameters, ensure_ascii=False).encode())
    if size > _PARAMETERS_BYTES:
        raise TooLarge(
            f"parameters have {size} bytes, the maximum is {_PARAMETERS_BYTES}; omit values"
            " that you do not compare"
        )


def visible_run(
    store: Store, principal: Principal, run_id: str, namespace: str | None = None
) -> Run:
    """Return a run whose scope the caller may read, in its own realm unless it names another's.

    Raises:
        NotFound: there is none, or it is another's.
        Conflict: several realms have one; the namespace says which is meant.
    """
    runs = store.runs_named(run_id, principal.view)
    return authorization.one_run(run_id, runs, namespace=namespace, near=principal.home)


def add_episodes(
    store: Store, principal: Principal, body: EpisodesIn, once: Once | None
) -> EpisodesAccepted:
    """Append to the record of a run that the caller works in."""
    run = authorization.run_of(store, body.run_id, principal, namespace=body.namespace)
    episodes = [
        each.model_copy(update={"refs": facts.masked_refs(each.refs)}) if each.refs else each
        for each in body.episodes
    ]
    return store.add_episodes(
        key_of(run), episodes, actor=authorization.actor(principal), once=once
    )


def start_extraction(store: Store, principal: Principal, body: ExtractionIn) -> Extraction:
    """Accept the extraction of a closed run; a repeat returns the state of the first.

    Raises:
        Conflict: the run is still open.
    """
    run = visible_run(store, principal, body.run_id, body.namespace)
    authorization.require(principal, "extract", run.scope)
    if run.outcome is None:
        raise Conflict(f"run {run.run_id} is still open; close it with its outcome first")
    return store.accept_extraction(
        key_of(run), body.max_facts, actor=authorization.actor(principal)
    )


def visible_extraction(
    store: Store, principal: Principal, run_id: str, namespace: str | None = None
) -> Extraction:
    """Return the state of an extraction whose run the caller may read.

    Raises:
        NotFound: nobody asked for one, or the run is another's.
        Conflict: several realms have a run of that id.
    """
    runs = store.runs_named(run_id, principal.view)
    found = None
    with suppress(NotFound):
        run = authorization.one_run(run_id, runs, namespace=namespace, near=principal.home)
        found = store.extraction(key_of(run))
    if found is None:
        raise NotFound(f"no extraction of run {run_id} exists or it is not yours")
    return found
