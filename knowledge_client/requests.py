"""The calls of the service as data, for the sync and the async client. No I/O.

A `Request` has what to send and the model of the response; `responses.parse` is its counterpart.
Writes by POST have an idempotency key. The client creates one for each call and keeps it over
retries; pass your own key to repeat a call later, such as after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from knowledge_client import base_model, models

if TYPE_CHECKING:
    from knowledge_client.base_model import WireModel

Response_co = TypeVar("Response_co", bound="WireModel | None", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Request(Generic[Response_co]):
    """One call. `needs_key` marks a POST that writes; PUT and DELETE are idempotent.

    A probe is not retried, and a 503 is a valid response to it. `level` is the API level that the
    request requires, with the field that requires it.
    """

    method: str
    path: str
    response_type: type[Response_co]
    params: tuple[tuple[str, str], ...] = ()
    json: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    idempotency_key: str | None = None
    needs_key: bool = False
    is_probe: bool = False
    level: tuple[int, str] = (1, "")


def _get(
    path: str, response_type: type[Response_co], **params: str | int | None
) -> Request[Response_co]:
    query = tuple((name, str(value)) for name, value in params.items() if value is not None)
    return Request(method="GET", path=path, response_type=response_type, params=query)


def _put(path: str, body: WireModel, response_type: type[Response_co]) -> Request[Response_co]:
    return Request(
        method="PUT",
        path=path,
        response_type=response_type,
        json=_json(body),
        level=base_model.required_level(body),
    )


def _post(
    path: str, body: WireModel, response_type: type[Response_co], key: str | None
) -> Request[Response_co]:
    return Request(
        method="POST",
        path=path,
        response_type=response_type,
        json=_json(body),
        idempotency_key=key,
        needs_key=True,
        level=base_model.required_level(body),
    )


def _json(body: WireModel) -> Any:
    """Serialize only the fields that are set: an older service rejects unknown ones."""
    return body.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _segment(value: str) -> str:
    """Quote one path segment; aliases such as `alias:file:global:pitfall:001` keep their colons.

    The segments `.` and `..` would be resolved before they are sent.
    """
    return value.replace(".", "%2E") if value in (".", "..") else quote(value, safe=":~")


def remember(
    fact: models.FactIn, key: str | None = None, *, dry_run: bool = False
) -> Request[models.Remembered]:
    """Store one fact."""
    return _with_dry_run(_post("/v1/facts", fact, models.Remembered, key), dry_run=dry_run)


def remember_batch(
    facts: models.FactsIn, key: str | None = None, *, dry_run: bool = False
) -> Request[models.RememberedBatch]:
    """Store facts atomically."""
    request = _post("/v1/facts:batch", facts, models.RememberedBatch, key)
    return _with_dry_run(request, dry_run=dry_run)


def _with_dry_run(request: Request[Response_co], *, dry_run: bool) -> Request[Response_co]:
    return replace(request, params=(("dry_run", "true"),)) if dry_run else request


def read_graph(**filters: str | int | None) -> Request[models.Graph]:
    """Read a page of entities, or those that contain a text, with the relations among them."""
    if filters.get("outgoing") is not None:
        filters["outgoing"] = "true" if filters["outgoing"] else "false"
    return _get("/v1/graph", models.Graph, **filters)


def open_entities(names: models.GraphNamesIn) -> Request[models.Graph]:
    """Read entities by their names."""
    return replace(_post("/v1/graph:open", names, models.Graph, None), needs_key=False)


def create_entities(
    entities: models.GraphEntitiesIn, key: str | None = None
) -> Request[models.Graph]:
    """Create entities that do not exist."""
    return _post("/v1/graph/entities", entities, models.Graph, key)


def delete_entities(
    names: models.GraphNamesIn, key: str | None = None
) -> Request[models.GraphNames]:
    """Retract entities and their observations."""
    return _post("/v1/graph/entities:delete", names, models.GraphNames, key)


def add_observations(
    observations: models.GraphObservationsIn, key: str | None = None
) -> Request[models.GraphObservations]:
    """Add observations to entities."""
    return _post("/v1/graph/observations", observations, models.GraphObservations, key)


def delete_observations(
    observations: models.GraphObservationsIn, key: str | None = None
) -> Request[models.GraphObservations]:
    """Retract observations."""
    return _post("/v1/graph/observations:delete", observations, models.GraphObservations, key)


def create_relations(
    relations: models.GraphRelationsIn, key: str | None = None
) -> Request[models.GraphRelations]:
    """Create relations that do not exist."""
    return _post("/v1/graph/relations", relations, models.GraphRelations, key)


def delete_relations(
    relations: models.GraphRelationsIn, key: str | None = None
) -> Request[models.GraphRelations]:
    """Close relations."""
    return _post("/v1/graph/relations:delete", relations, models.GraphRelations, key)


def create_chart(chart: models.ChartIn, key: str | None = None) -> Request[models.Chart]:
    """Create a chart."""
    return _post("/v1/charts", chart, models.Chart, key)


def list_charts(**filters: str | int | datetime | None) -> Request[models.ChartPage]:
    """Page through charts; a filter that is None is left out."""
    plain = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in filters.items()}
    if plain.get("completed") is not None:
        plain["completed"] = "true" if plain["completed"] else "false"
    return _get("/v1/charts", models.ChartPage, **plain)


def get_chart(chart_id: str) -> Request[models.Chart]:
    """Read a chart."""
    return _get(f"/v1/charts/{_segment(chart_id)}", models.Chart)


def change_chart(
    chart_id: str, changes: models.ChartChanges, key: str | None = None
) -> Request[models.Chart]:
    """Change a chart."""
    return _post(f"/v1/charts/{_segment(chart_id)}:change", changes, models.Chart, key)


def add_step(
    chart_id: str, step: models.ActionStepIn, key: str | None = None
) -> Request[models.Chart]:
    """Add an action step."""
    return _post(f"/v1/charts/{_segment(chart_id)}/steps", step, models.Chart, key)


def remove_step(
    chart_id: str, step: models.StepIn, key: str | None = None
) -> Request[models.Chart]:
    """Remove an action step."""
    return _post(f"/v1/charts/{_segment(chart_id)}/steps:remove", step, models.Chart, key)


def record_progress(
    progress: models.StepProgressIn, key: str | None = None
) -> Request[models.Chart]:
    """Record progress on an action step."""
    return _post("/v1/charts:progress", progress, models.Chart, key)


def complete_step(step: models.StepIn, key: str | None = None) -> Request[models.Chart]:
    """Complete an action step."""
    return _post("/v1/charts:complete", step, models.Chart, key)


def telescope_step(step: models.TelescopeIn, key: str | None = None) -> Request[models.Chart]:
    """Make a chart of an action step."""
    return _post("/v1/charts:telescope", step, models.Chart, key)


def list_facts(
    *, facets: Sequence[str] = (), **filters: str | int | datetime | None
) -> Request[models.FactPage]:
    """Page through facts; a filter that is None is left out."""
    plain = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in filters.items()}
    if plain.get("unlinked") is not None:
        plain["unlinked"] = "true" if plain["unlinked"] else "false"
    request = _get("/v1/facts", models.FactPage, **plain)
    return replace(request, params=request.params + tuple(("facet", facet) for facet in facets))


def get_fact(fact_id: str, known_at: datetime | None = None) -> Request[models.Fact]:
    """Read one fact by id or alias, as it is or as it was known at a moment."""
    timestamp = known_at.isoformat() if known_at else None
    return _get(f"/v1/facts/{_segment(fact_id)}", models.Fact, known_at=timestamp)


def correct(
    fact_id: str, correction: models.CorrectIn, key: str | None = None
) -> Request[models.CorrectionResult]:
    """Close a fact's validity, with a successor or without."""
    return _post(f"/v1/facts/{_segment(fact_id)}:correct", correction, models.CorrectionResult, key)


def revise(
    fact_id: str, revision: models.ReviseIn, key: str | None = None
) -> Request[models.Revised]:
    """Replace a fact by a successor with some other values."""
    request = _post(f"/v1/facts/{_segment(fact_id)}:revise", revision, models.Revised, key)
    return replace(request, json=_set_fields(revision))


def set_alias(
    fact_id: str, alias: models.AliasSetIn, key: str | None = None
) -> Request[models.NamedFact]:
    """Assign an alias to a fact."""
    return _post(f"/v1/facts/{_segment(fact_id)}/aliases", alias, models.NamedFact, key)


def remove_alias(
    fact_id: str, alias: models.AliasRemovalIn, key: str | None = None
) -> Request[models.NamedFact]:
    """Free an alias of a fact."""
    return _post(f"/v1/facts/{_segment(fact_id)}/aliases:remove", alias, models.NamedFact, key)


def perform(
    operation: models.OperationIn, key: str | None = None
) -> Request[models.OperationResult]:
    """Perform several acts atomically."""
    request = _post("/v1/operations", operation, models.OperationResult, key)
    for act, sent in zip(operation.acts, request.json["acts"], strict=True):
        sent["act"] = act.act
        if isinstance(act, models.ReviseAct):
            sent["changes"] = _set_fields(act.changes)
    return request


def _set_fields(changes: models.FactChanges) -> Any:
    # A null removes a value, so it must be sent.
    return changes.model_dump(mode="json", by_alias=True, exclude_unset=True)


def confirm(fact_id: str, body: models.ConfirmIn, key: str | None = None) -> Request[models.Fact]:
    """Confirm a fact."""
    return _post(f"/v1/facts/{_segment(fact_id)}:confirm", body, models.Fact, key)


def retract(fact_id: str, body: models.ReasonIn, key: str | None = None) -> Request[models.Fact]:
    """Close a fact as wrong."""
    return _post(f"/v1/facts/{_segment(fact_id)}:retract", body, models.Fact, key)


def restore(fact_id: str, body: models.ReasonIn, key: str | None = None) -> Request[models.Fact]:
    """Make a closed fact live again."""
    return _post(f"/v1/facts/{_segment(fact_id)}:restore", body, models.Fact, key)


def promote(
    fact_id: str, body: models.ReasonIn, key: str | None = None
) -> Request[models.PromotionResult]:
    """Copy a fact one level up."""
    return _post(f"/v1/facts/{_segment(fact_id)}:promote", body, models.PromotionResult, key)


def approve(
    fact_id: str, body: models.ApproveIn, key: str | None = None
) -> Request[models.ApprovalResult]:
    """Approve a fact, or a successor with an edited text."""
    return _post(f"/v1/facts/{_segment(fact_id)}:approve", body, models.ApprovalResult, key)


def reject(fact_id: str, body: models.ReasonIn, key: str | None = None) -> Request[models.Fact]:
    """Reject a fact."""
    return _post(f"/v1/facts/{_segment(fact_id)}:reject", body, models.Fact, key)


def undo(fact_id: str, body: models.ReasonIn, key: str | None = None) -> Request[models.UndoResult]:
    """Undo the last operation on a fact."""
    return _post(f"/v1/facts/{_segment(fact_id)}:undo", body, models.UndoResult, key)


def erase(
    fact_id: str, body: models.ReasonIn, key: str | None = None
) -> Request[models.ErasureResult]:
    """Delete a fact's text permanently."""
    return _post(f"/v1/facts/{_segment(fact_id)}:erase", body, models.ErasureResult, key)


def history(fact_id: str) -> Request[models.History]:
    """Return the versions and events of a fact."""
    return _get(f"/v1/facts/{_segment(fact_id)}/history", models.History)


def list_reviews(**page: str | int | None) -> Request[models.ReviewPage]:
    """List the facts that wait for a review."""
    return _get("/v1/reviews", models.ReviewPage, **page)


def recall(query: models.RecallIn, key: str | None = None) -> Request[models.Recalled]:
    """Recall facts. Repeats with one key get the same receipt; the client creates no key itself."""
    return Request(
        method="POST",
        path="/v1/recall",
        response_type=models.Recalled,
        json=_json(query),
        idempotency_key=key,
    )


def get_receipt(receipt_id: str) -> Request[models.Receipt]:
    """Read the receipt of a recall."""
    return _get(f"/v1/receipts/{_segment(receipt_id)}", models.Receipt)


def replay(receipt_id: str) -> Request[models.ReplayResult]:
    """Repeat the query of a receipt with the knowledge of its time."""
    return _get(f"/v1/receipts/{_segment(receipt_id)}:replay", models.ReplayResult)


def diff(receipt_id: str) -> Request[models.ReplayResult]:
    """Repeat the query of a receipt with the knowledge of now."""
    return _get(f"/v1/receipts/{_segment(receipt_id)}:diff", models.ReplayResult)


def link(link: models.LinkIn, key: str | None = None) -> Request[models.Linked]:
    """Link two facts."""
    return _post("/v1/links", link, models.Linked, key)


def unlink(from_: str, to: str, type_: str) -> Request[None]:
    """Remove a link."""
    return Request(
        method="DELETE",
        path="/v1/links",
        response_type=type(None),
        params=(("from", from_), ("to", to), ("type", type_)),
    )


def list_aliases(namespace: str, **page: str | int | None) -> Request[models.AliasPage]:
    """Page through the aliases of a namespace."""
    return _get("/v1/aliases", models.AliasPage, namespace=namespace, **page)


def list_links(
    fact_id: str, *, types: Sequence[str] = (), **page: str | int | None
) -> Request[models.LinkPage]:
    """Page through a fact's links."""
    return _with_type_filter(
        _get(f"/v1/facts/{_segment(fact_id)}/links", models.LinkPage, **page), types
    )


def neighbors(
    fact_id: str, *, types: Sequence[str] = (), **bounds: int | None
) -> Request[models.Neighborhood]:
    """Read the neighbours of a fact."""
    path = f"/v1/facts/{_segment(fact_id)}/neighbors"
    return _with_type_filter(_get(path, models.Neighborhood, **bounds), types)


def _with_type_filter(request: Request[Response_co], types: Sequence[str]) -> Request[Response_co]:
    query = tuple(("type", event_type) for event_type in types)
    return replace(request, params=request.params + query)


def why(fact_id: str) -> Request[models.FactProvenance]:
    """Read the provenance of a fact."""
    return _get(f"/v1/facts/{_segment(fact_id)}/why", models.FactProvenance)


def impact(fact_id: str, *, limit: int | None = None) -> Request[models.Impact]:
    """Read the impact of a fact."""
    return _get(f"/v1/facts/{_segment(fact_id)}/impact", models.Impact, limit=limit)


def count_usage(uses: models.UsageIn, key: str | None = None) -> Request[models.UsageCounted]:
    """Count uses of facts."""
    return _post("/v1/usage", uses, models.UsageCounted, key)


def audit(**filters: str | int | None) -> Request[models.AuditPage]:
    """List the audit log, newest first."""
    return _get("/v1/audit", models.AuditPage, **filters)


def events(
    last_event_id: str | None = None, *, topics: Sequence[str] = ()
) -> Request[models.Event]:
    """Stream the changes after an event; `topics` restricts them to some topics and those below.

    Without `last_event_id` the stream starts now; the value `start` stands for the oldest event.
    """
    return replace(
        _get("/v1/events", models.Event),
        params=tuple(("topic", topic) for topic in topics),
        headers=(("Last-Event-ID", last_event_id),) if last_event_id else (),
    )


def add_episodes(
    episodes: models.EpisodesIn, key: str | None = None
) -> Request[models.EpisodesAccepted]:
    """Append to a run's record."""
    return _post("/v1/episodes", episodes, models.EpisodesAccepted, key)


def list_episodes(run_id: str, **page: str | int | None) -> Request[models.EpisodePage]:
    """Read a run's record."""
    return _get(f"/v1/runs/{_segment(run_id)}/episodes", models.EpisodePage, **page)


def put_run(run_id: str, run: models.RunIn) -> Request[models.Run]:
    """Open a run, add to it, or close it with its outcome."""
    return _put(f"/v1/runs/{_segment(run_id)}", run, models.Run)


def get_run(run_id: str, namespace: str | None = None) -> Request[models.RunDetail]:
    """Read one run; `namespace` says whose, by default the caller's own."""
    return _get(f"/v1/runs/{_segment(run_id)}", models.RunDetail, namespace=namespace)


def list_runs(**filters: str | int | None) -> Request[models.RunPage]:
    """Page through runs; a filter that is None is left out."""
    return _get("/v1/runs", models.RunPage, **filters)


def blueprint_stats(
    namespace: str,
    name: str,
    *,
    compare: bool = False,
    by_parameter: str | None = None,
    canary: int | None = None,
    since: datetime | None = None,
) -> Request[models.BlueprintStats]:
    """Read the statistics of one Blueprint."""
    path = f"/v1/stats/blueprints/{_segment(namespace)}/{_segment(name)}"
    return _get(
        path,
        models.BlueprintStats,
        compare="true" if compare else None,
        by_parameter=by_parameter,
        canary=canary,
        since=since.isoformat() if since is not None else None,
    )


def stats_batch(subjects: models.StatsIn) -> Request[models.Stats]:
    """Read many statistics in one call; changes nothing, so it needs no key."""
    return Request(
        method="POST", path="/v1/stats:batch", response_type=models.Stats, json=_json(subjects)
    )


def start_extraction(
    extraction: models.ExtractionIn, key: str | None = None
) -> Request[models.Extraction]:
    """Ask for the extraction of a closed run; unique per run whatever the key."""
    return _post("/v1/extractions", extraction, models.Extraction, key)


def replay_extraction(
    replay: models.ReplayIn, key: str | None = None
) -> Request[models.ExtractionReplay]:
    """Ask a model for the facts of a run, without storing any."""
    return _post("/v1/extractions:replay", replay, models.ExtractionReplay, key)


def get_extraction(run_id: str, namespace: str | None = None) -> Request[models.Extraction]:
    """Read the state of a run's extraction; `namespace` says whose, by default the caller's own."""
    return _get(f"/v1/extractions/{_segment(run_id)}", models.Extraction, namespace=namespace)


def _scope_path(path: str) -> str:
    return f"/v1/scopes/{quote(path, safe=':/')}"


def put_scope(path: str, config: models.ScopeConfig) -> Request[models.ScopeOut]:
    """Declare the configuration of one scope."""
    return _put(_scope_path(path), config, models.ScopeOut)


def get_scope(path: str) -> Request[models.ScopeOut]:
    """Read one scope's configuration and statistics."""
    return _get(_scope_path(path), models.ScopeOut)


def delete_scope(path: str, *, erase: bool = False) -> Request[None]:
    """Retire exactly this scope with its facts; with `erase`, delete their text permanently."""
    params = (("erase", "true"),) if erase else ()
    return Request(method="DELETE", path=_scope_path(path), response_type=type(None), params=params)


def list_scopes(**page: str | int | None) -> Request[models.ScopePage]:
    """Page through the scopes that exist."""
    return _get("/v1/scopes", models.ScopePage, **page)


def reset_scope(path: str) -> Request[models.ScopeOut]:
    """Reset the configuration of a scope to the defaults; its facts stay."""
    return Request(
        method="POST",
        path=f"{_scope_path(path)}:reset",
        response_type=models.ScopeOut,
        needs_key=True,
    )


def adopt_scope(path: str, key: str | None = None) -> Request[models.AdoptionResult]:
    """Merge the retired scope of the same path into a scope."""
    return Request(
        method="POST",
        path=f"{_scope_path(path)}:adopt",
        response_type=models.AdoptionResult,
        idempotency_key=key,
        needs_key=True,
    )


def put_principal(principal: models.PrincipalIn) -> Request[models.PrincipalIn]:
    """Register a principal."""
    return _put("/v1/principals", principal, models.PrincipalIn)


def list_principals() -> Request[models.PrincipalPage]:
    """List the registered principals."""
    return _get("/v1/principals", models.PrincipalPage)


def delete_principal(username: str) -> Request[None]:
    """Delete the registration of a principal."""
    return Request(
        method="DELETE",
        path="/v1/principals",
        response_type=type(None),
        params=(("username", username),),
    )


def whoami() -> Request[models.WhoAmI]:
    """Return the principal that the service takes the caller for."""
    return _get("/v1/whoami", models.WhoAmI)


def issue_ticket(call: models.TicketIn) -> Request[models.Ticket]:
    """Ask for a ticket for a call to a cell; nothing is stored, so it has no key."""
    return Request(
        method="POST",
        path="/v1/peers:ticket",
        response_type=models.Ticket,
        json=_json(call),
    )


def verify_ticket(ticket: models.VerifyTicketIn) -> Request[models.VerifiedTicket]:
    """Verify a ticket; returns its caller."""
    return Request(
        method="POST",
        path="/v1/peers:verify",
        response_type=models.VerifiedTicket,
        json=_json(ticket),
    )


def ready() -> Request[models.Health]:
    """Check once whether the store answers; never retried."""
    return Request(method="GET", path="/readyz", response_type=models.Health, is_probe=True)
