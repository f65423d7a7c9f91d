"""Runs with their episodes, and the statistics of runs and scopes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    EpisodePage,
    EpisodesAccepted,
    EpisodesIn,
    ProblemViolation,
    Run,
    RunDetail,
    RunIn,
    RunPage,
    Stats,
    StatsIn,
)
from knowledge_service.domain import facts, redaction, run_statistics
from knowledge_service.domain.access_control import (
    EVERYTHING,
    PLATFORM,
    ScopeRange,
    View,
    realm_of,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.run_reports import MAX_COUNTER_NAME, RunKey, key_of
from knowledge_service.errors import Forbidden, InvalidBody, TooLarge
from knowledge_service.ports import Listing, RunListing
from knowledge_service.use_cases import authorization, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import IdempotencyKey, Store

# The operator sends values of annotations, which have at most this many bytes.
_MAX_PARAMETERS_BYTES = 256 * 1024
# A run that has just ended has few facts, and they are among the newest of its team.
_MAX_LISTED_FACTS = 500


def put_run(store: Store, principal: Principal, run_id: str, body: RunIn) -> Run:
    """Open, merge or close a run in a scope that the caller may write to.

    Raises:
        Forbidden: an agent tries to open or close a mission, or to change a run of others.
        NotFound: the realm has an inaccessible run with this id.
        InvalidBody: the scope is not in the realm of the namespace, or there are too many counters
            or one with too long a name.
        RunOutcomeConflict: the run already has another outcome.
    """
    path = authorization.canonical_path(body.scope, principal)
    if not (principal.writes_at_home and path == principal.home):
        authorization.require_verb(principal, "write", path)
    if body.kind == "mission" and principal.type == "agent":
        raise Forbidden(
            f"{principal.name} is an agent; missions are opened and closed by the operator,"
            " agents report events as episodes"
        )
    existing = store.run(RunKey(realm_of(path), run_id), EVERYTHING)
    if (
        existing
        and not (principal.writes_at_home and existing.scope == principal.home)
        and not principal.has_verb("write", existing.scope)
    ):
        raise authorization.run_not_found(run_id)
    if realm_of(path) not in (PLATFORM, f"realm:{body.namespace}"):
        message = f"must lie in realm:{body.namespace}, the run's namespace"
        violation = ProblemViolation(path="scope", message=message)
        raise InvalidBody(f"run {run_id} has a scope of another realm", (violation,))
    longest = max(map(len, body.counters), default=0)
    if longest > MAX_COUNTER_NAME:
        raise InvalidBody(
            f"the name of a counter has {longest} characters, at most {MAX_COUNTER_NAME}"
        )
    updates: dict[str, object] = {"scope": path}
    if body.objective:
        updates["objective"] = redaction.mask(body.objective)
    if body.parameters:
        _check_parameters_size(body.parameters)
        updates["parameters"] = redaction.mask_tree(body.parameters)
    return store.put_run(
        run_id, body.model_copy(update=updates), actor=authorization.actor_of(principal)
    )


def _check_parameters_size(parameters: Mapping[str, Any]) -> None:
    size = len(json.dumps(parameters, ensure_ascii=False).encode())
    if size > _MAX_PARAMETERS_BYTES:
        raise TooLarge(
            f"parameters have {size} bytes, the maximum is {_MAX_PARAMETERS_BYTES}; omit values"
            " that you do not compare"
        )


def get_visible_run(
    store: Store, principal: Principal, run_id: str, namespace: str | None = None
) -> Run:
    """Return a run that the caller may read, in its own realm unless `namespace` names another.

    Raises:
        NotFound: the run does not exist or is not accessible.
        Conflict: several realms have a run with this id; pass the namespace.
    """
    runs = store.runs_named(run_id, principal.view)
    return authorization.choose_run(run_id, runs, namespace=namespace, nearby_scope=principal.home)


def get_run(
    store: Store, principal: Principal, run_id: str, namespace: str | None = None
) -> RunDetail:
    """Return a run that the caller may read, with the facts that its agents stored.

    Raises:
        NotFound, Conflict: as `get_visible_run`.
    """
    run = get_visible_run(store, principal, run_id, namespace)
    remembered = () if run.outcome is None else _remembered_facts(store, principal, run)
    return RunDetail(**dict(run), remembered=remembered)


def _remembered_facts(store: Store, principal: Principal, run: Run) -> tuple[str, ...]:
    """Return the ids of the live facts that agents stored in a run, newest first."""
    scope_view = View(run.scope, (ScopeRange(run.scope, subtree=True),))
    newest = store.list_facts(
        Listing(scope_view, _MAX_LISTED_FACTS, lifecycle="live", source="explicit_remember")
    )
    return tuple(
        fact.id
        for fact in newest
        if principal.view.can_read_fact(fact.scope, fact.review)
        and any(ref.type == "run" and ref.id == run.run_id for ref in fact.source.refs)
    )


def add_episodes(
    store: Store, principal: Principal, body: EpisodesIn, idempotency_key: IdempotencyKey | None
) -> EpisodesAccepted:
    """Append episodes to a run that the caller may write about."""
    run = authorization.authorized_run(store, body.run_id, principal, namespace=body.namespace)
    episodes = [
        episode.model_copy(update={"refs": facts.masked_refs(episode.refs)})
        if episode.refs
        else episode
        for episode in body.episodes
    ]
    return store.add_episodes(
        key_of(run),
        episodes,
        actor=authorization.actor_of(principal),
        idempotency_key=idempotency_key,
    )


def list_episodes(
    store: Store,
    principal: Principal,
    run_id: str,
    *,
    namespace: str | None,
    cursor: str | None,
    limit: int,
) -> EpisodePage:
    """Return a page of the episodes of a run, by `seq`.

    Raises:
        NotFound, Conflict: as `get_visible_run`.
        InvalidBody: the cursor is malformed.
    """
    run = get_visible_run(store, principal, run_id, namespace)
    last_seq = pagination.decode_number(cursor)
    episodes = store.episodes(key_of(run), after_sequence=last_seq, limit=limit + 1)
    page, next_cursor = pagination.split_page(episodes, limit, lambda episode: str(episode.seq))
    return EpisodePage(episodes=page, cursor=next_cursor)


def list_runs(
    store: Store,
    principal: Principal,
    *,
    namespace: str | None,
    blueprint: str | None,
    cursor: str | None,
    limit: int,
) -> RunPage:
    """Return a page of visible runs, the most recently opened first.

    Raises:
        InvalidBody: the cursor is malformed, or names an invisible run.
    """
    position = pagination.decode(cursor)
    last_run = RunKey(*position.partition(" ")[::2]) if position else None
    if last_run and store.run(last_run, principal.view) is None:
        raise pagination.invalid_cursor()  # reveals nothing of another's run
    listing = RunListing(principal.view, limit + 1, namespace, blueprint, before_run=last_run)
    runs, next_cursor = pagination.split_page(
        store.list_runs(listing), limit, lambda run: " ".join(key_of(run))
    )
    return RunPage(runs=runs, cursor=next_cursor)


def blueprint_stats(  # noqa: PLR0913 (one argument per filter)
    store: Store,
    principal: Principal,
    blueprint: BlueprintName,
    *,
    compare: bool = False,
    by_parameter: str | None = None,
    canary: int | None = None,
    since: datetime | None = None,
) -> BlueprintStats:
    """Count the visible runs of one Blueprint, in total and by parameter value.

    With `compare`, also with and without knowledge, and with `by_parameter` for each value of it.
    With `canary`, also those that opened at or after `since` and drew their revision for it.
    """
    stats = store.blueprint_stats([blueprint], principal.view)[0]
    updates: dict[str, object] = {"parameters": store.parameter_stats(blueprint, principal.view)}
    if compare or by_parameter:
        samples = store.run_samples(blueprint, principal.view)
        updates["comparisons"] = run_statistics.compare_arms(samples, parameter=by_parameter)
    if canary is not None:
        samples = store.run_samples(blueprint, principal.view, since=since)
        updates["canary"] = run_statistics.canary_counts(samples, canary=canary)
    return stats.model_copy(update=updates)


def batch_stats(store: Store, principal: Principal, body: StatsIn) -> Stats:
    """Count the visible runs of Blueprints and the facts of scopes, in the order of the body.

    Raises:
        ScopeForbidden: a scope is out of reach.
    """
    paths = tuple(authorization.canonical_path(path, principal, "scopes") for path in body.scopes)
    authorization.authorize_read(paths, principal)
    return Stats(
        blueprints=store.blueprint_stats(body.blueprints, principal.view),
        scopes=store.scope_stats(paths, principal.view),
    )
