"""The async client, the source of the sync one: `make client` generates `sync_client.py`."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

import httpx

from knowledge_client import connection, errors, httpx_errors, models, requests, responses, sse
from knowledge_client.retries import DEFAULT_POLICY, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime
    from types import TracebackType

    from knowledge_client.requests import Request, Response_co


class AsyncKnowledgeClient:
    """The knowledge service for an event loop.

    Without `url` the address is KNOWLEDGE_SERVICE_URL; without `token` and `token_file` the token
    is read from KNOWLEDGE_TOKEN_FILE, again for each attempt. `timeout_s` bounds one attempt,
    `retries` the call with all attempts. Every POST that writes has an idempotency key: yours, or
    one for each call. With `as_agent` the calls have no more rights than an agent's: no drafts, and
    no reviews. All methods raise `knowledge_client.errors.KnowledgeError`.
    """

    def __init__(  # noqa: PLR0913 (one argument per option)
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | None = None,
        timeout_s: float = 10.0,
        retries: RetryPolicy = DEFAULT_POLICY,
        transport: httpx.AsyncBaseTransport | None = None,
        as_agent: bool = False,
    ) -> None:
        self._connection = connection.connect(
            url,
            token=token,
            token_file=token_file,
            timeout_s=timeout_s,
            retries=retries,
            as_agent=as_agent,
        )
        self._http = httpx.AsyncClient(transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, request: Request[Response_co]) -> Response_co:
        call = connection.CallRetries(self._connection, request)
        failure: errors.KnowledgeError
        while True:
            try:
                if call.must_probe_level():
                    call.record_response(
                        (await self._http.request(**call.level_probe_arguments())).headers
                    )
                call.check_level()
                response = await self._http.request(**call.request_arguments())
                call.record_response(response.headers)
                return responses.parse(
                    request, response.status_code, response.headers, response.content
                )
            except httpx_errors.HTTPX_ERRORS as exc:
                failure = httpx_errors.translate(
                    exc, call=call.description, url=self._connection.url
                )
            except errors.KnowledgeError as exc:
                failure = exc
            await asyncio.sleep(call.pause_s(failure))

    async def remember(
        self, fact: models.FactIn, *, idempotency_key: str | None = None, dry_run: bool = False
    ) -> models.Remembered:
        """Store one fact, or confirm the live fact that equals it.

        With `dry_run` nothing is stored, and the response for a new fact has no id.
        """
        return await self._send(requests.remember(fact, idempotency_key, dry_run=dry_run))

    async def remember_batch(
        self, facts: models.FactsIn, *, idempotency_key: str | None = None, dry_run: bool = False
    ) -> models.RememberedBatch:
        """Store several facts atomically; with `dry_run` nothing is stored."""
        return await self._send(requests.remember_batch(facts, idempotency_key, dry_run=dry_run))

    async def list_facts(  # noqa: PLR0913 (one name per filter of the interface)
        self,
        *,
        scope: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        lifecycle: str | None = None,
        source: str | None = None,
        review: str | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        about: str | None = None,
        schema: str | None = None,
        facets: Sequence[str] = (),
        subject: str | None = None,
        contains: str | None = None,
        alias_namespace: str | None = None,
        unlinked: bool | None = None,
        id_prefix: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.FactPage:
        """List the facts that match all filters, newest first.

        Facts `about` another one are listed in the order of their positions. `facets` are texts
        such as `applicability.projects=shop`, values in the data of the `schema`.
        """
        return await self._send(
            requests.list_facts(
                scope=scope,
                kind=kind,
                tag=tag,
                lifecycle=lifecycle,
                source=source,
                review=review,
                valid_at=valid_at,
                known_at=known_at,
                about=about,
                schema=schema,
                facets=facets,
                subject=subject,
                contains=contains,
                alias_namespace=alias_namespace,
                unlinked=unlinked,
                id_prefix=id_prefix,
                cursor=cursor,
                limit=limit,
            )
        )

    async def read_graph(
        self,
        *,
        scope: str | None = None,
        contains: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        outgoing: bool | None = None,
    ) -> models.Graph:
        """Return a page of entities, newest first, and the relations among them.

        With `outgoing`, also the relations that lead from them to other entities, so that all pages
        together have every relation once. With `contains`, only entities whose name, type or
        observations contain that text.
        """
        return await self._send(
            requests.read_graph(
                scope=scope, contains=contains, cursor=cursor, limit=limit, outgoing=outgoing
            )
        )

    async def open_entities(self, names: models.GraphNamesIn) -> models.Graph:
        """Return entities by their names, and the relations among them."""
        return await self._send(requests.open_entities(names))

    async def create_entities(
        self, entities: models.GraphEntitiesIn, *, idempotency_key: str | None = None
    ) -> models.Graph:
        """Create the entities that do not exist, and return them."""
        return await self._send(requests.create_entities(entities, idempotency_key))

    async def delete_entities(
        self, names: models.GraphNamesIn, *, idempotency_key: str | None = None
    ) -> models.GraphNames:
        """Retract entities and their observations; missing ones are ignored."""
        return await self._send(requests.delete_entities(names, idempotency_key))

    async def add_observations(
        self, observations: models.GraphObservationsIn, *, idempotency_key: str | None = None
    ) -> models.GraphObservations:
        """Add observations to entities, and return those that are new."""
        return await self._send(requests.add_observations(observations, idempotency_key))

    async def delete_observations(
        self, observations: models.GraphObservationsIn, *, idempotency_key: str | None = None
    ) -> models.GraphObservations:
        """Retract observations; missing ones are ignored."""
        return await self._send(requests.delete_observations(observations, idempotency_key))

    async def create_relations(
        self, relations: models.GraphRelationsIn, *, idempotency_key: str | None = None
    ) -> models.GraphRelations:
        """Create the relations that do not exist, and return them."""
        return await self._send(requests.create_relations(relations, idempotency_key))

    async def delete_relations(
        self, relations: models.GraphRelationsIn, *, idempotency_key: str | None = None
    ) -> models.GraphRelations:
        """Close relations; missing ones are ignored."""
        return await self._send(requests.delete_relations(relations, idempotency_key))

    async def create_chart(
        self, chart: models.ChartIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Create a chart."""
        return await self._send(requests.create_chart(chart, idempotency_key))

    async def list_charts(
        self,
        *,
        scope: str | None = None,
        completed: bool | None = None,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.ChartPage:
        """List active charts, last changed first; with `completed`, all of them."""
        return await self._send(
            requests.list_charts(
                scope=scope, completed=completed, due_before=due_before, cursor=cursor, limit=limit
            )
        )

    async def get_chart(self, chart_id: str) -> models.Chart:
        """Return a chart with its progress."""
        return await self._send(requests.get_chart(chart_id))

    async def change_chart(
        self, chart_id: str, changes: models.ChartChanges, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Change the outcome, due date or phase of a chart, or add to its current reality."""
        return await self._send(requests.change_chart(chart_id, changes, idempotency_key))

    async def add_step(
        self, chart_id: str, step: models.ActionStepIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Add an action step; with a current reality it is telescoped, and its chart returned."""
        return await self._send(requests.add_step(chart_id, step, idempotency_key))

    async def remove_step(
        self, chart_id: str, step: models.StepIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Remove an action step, and the chart that it was telescoped into."""
        return await self._send(requests.remove_step(chart_id, step, idempotency_key))

    async def record_progress(
        self, progress: models.StepProgressIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Record progress on an action step."""
        return await self._send(requests.record_progress(progress, idempotency_key))

    async def complete_step(
        self, step: models.StepIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Complete an action step, or a chart by the name of its desired outcome."""
        return await self._send(requests.complete_step(step, idempotency_key))

    async def telescope_step(
        self, step: models.TelescopeIn, *, idempotency_key: str | None = None
    ) -> models.Chart:
        """Make a chart of an action step, and return it."""
        return await self._send(requests.telescope_step(step, idempotency_key))

    async def get_fact(self, fact_id: str, *, known_at: datetime | None = None) -> models.Fact:
        """Return one fact by its id or an alias, as of now or of `known_at`."""
        return await self._send(requests.get_fact(fact_id, known_at))

    async def correct(
        self, fact_id: str, correction: models.CorrectIn, *, idempotency_key: str | None = None
    ) -> models.CorrectionResult:
        """Close a fact, so that recalls no longer return it; optionally store a successor."""
        return await self._send(requests.correct(fact_id, correction, idempotency_key))

    async def revise(
        self, fact_id: str, revision: models.ReviseIn, *, idempotency_key: str | None = None
    ) -> models.Revised:
        """Replace a fact by a successor with the values that are set; names and links move."""
        return await self._send(requests.revise(fact_id, revision, idempotency_key))

    async def set_alias(
        self, fact_id: str, alias: models.AliasSetIn, *, idempotency_key: str | None = None
    ) -> models.NamedFact:
        """Assign an alias to a fact; with `move`, a fact that has it loses it."""
        return await self._send(requests.set_alias(fact_id, alias, idempotency_key))

    async def remove_alias(
        self, fact_id: str, alias: models.AliasRemovalIn, *, idempotency_key: str | None = None
    ) -> models.NamedFact:
        """Free an alias of a fact, so that another fact can take it."""
        return await self._send(requests.remove_alias(fact_id, alias, idempotency_key))

    async def perform(
        self, operation: models.OperationIn, *, idempotency_key: str | None = None
    ) -> models.OperationResult:
        """Perform several acts atomically; undoing one of their facts reverts all acts."""
        return await self._send(requests.perform(operation, idempotency_key))

    async def confirm(
        self, fact_id: str, body: models.ConfirmIn, *, idempotency_key: str | None = None
    ) -> models.Fact:
        """Confirm a fact; a person's confirmation lifts its flags."""
        return await self._send(requests.confirm(fact_id, body, idempotency_key))

    async def retract(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.Fact:
        """Close a fact as wrong, with its promoted copies unless others confirmed them."""
        return await self._send(requests.retract(fact_id, body, idempotency_key))

    async def restore(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.Fact:
        """Reopen a closed fact; `Conflict` when a newer fact replaced it."""
        return await self._send(requests.restore(fact_id, body, idempotency_key))

    async def promote(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.PromotionResult:
        """Copy a fact to the scope above, or confirm the equal fact there."""
        return await self._send(requests.promote(fact_id, body, idempotency_key))

    async def approve(
        self, fact_id: str, body: models.ApproveIn, *, idempotency_key: str | None = None
    ) -> models.ApprovalResult:
        """Approve a fact, or a successor with edited content."""
        return await self._send(requests.approve(fact_id, body, idempotency_key))

    async def reject(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.Fact:
        """Reject a fact: it is archived and can be restored."""
        return await self._send(requests.reject(fact_id, body, idempotency_key))

    async def undo(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.UndoResult:
        """Undo the last action on a fact; `Conflict` when something depends on it."""
        return await self._send(requests.undo(fact_id, body, idempotency_key))

    async def erase(
        self, fact_id: str, body: models.ReasonIn, *, idempotency_key: str | None = None
    ) -> models.ErasureResult:
        """Permanently delete the text of a fact and of its promoted copies."""
        return await self._send(requests.erase(fact_id, body, idempotency_key))

    async def history(self, fact_id: str) -> models.History:
        """Return the versions of a fact and the events about it."""
        return await self._send(requests.history(fact_id))

    async def list_reviews(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ReviewPage:
        """List the drafts and flagged facts that the caller may review, newest first."""
        return await self._send(requests.list_reviews(cursor=cursor, limit=limit))

    async def recall(
        self, query: models.RecallIn, *, idempotency_key: str | None = None
    ) -> models.Recalled:
        """Retrieve the facts that match a query in the caller's scopes, best first."""
        return await self._send(requests.recall(query, idempotency_key))

    async def get_receipt(self, receipt_id: str) -> models.Receipt:
        """Return the receipt of a recall: the facts that it returned."""
        return await self._send(requests.get_receipt(receipt_id))

    async def replay(self, receipt_id: str) -> models.ReplayResult:
        """Run a recall again as of its time and compare the results."""
        return await self._send(requests.replay(receipt_id))

    async def diff(self, receipt_id: str) -> models.ReplayResult:
        """Run a recall again as of now and compare the results."""
        return await self._send(requests.diff(receipt_id))

    async def link(
        self, link: models.LinkIn, *, idempotency_key: str | None = None
    ) -> models.Linked:
        """Link two facts; an existing link stays as it is."""
        return await self._send(requests.link(link, idempotency_key))

    async def unlink(self, from_: str, to: str, type_: str) -> None:
        """Remove a link; does nothing when there is none."""
        await self._send(requests.unlink(from_, to, type_))

    async def list_aliases(
        self,
        namespace: str,
        *,
        prefix: str | None = None,
        scope: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.AliasPage:
        """List the aliases of a namespace that begin with `prefix`, in the order of their values.

        Aliases of retracted facts are free and not listed.
        """
        return await self._send(
            requests.list_aliases(namespace, prefix=prefix, scope=scope, cursor=cursor, limit=limit)
        )

    async def list_links(
        self,
        fact_id: str,
        *,
        types: Sequence[str] = (),
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.LinkPage:
        """List the links from and to a fact, newest first."""
        return await self._send(
            requests.list_links(fact_id, types=types, cursor=cursor, limit=limit)
        )

    async def neighbors(
        self,
        fact_id: str,
        *,
        depth: int | None = None,
        types: Sequence[str] = (),
        limit: int | None = None,
    ) -> models.Neighborhood:
        """Return the facts up to `depth` links away, nearest first."""
        return await self._send(requests.neighbors(fact_id, types=types, depth=depth, limit=limit))

    async def why(self, fact_id: str) -> models.FactProvenance:
        """Return the provenance of a fact."""
        return await self._send(requests.why(fact_id))

    async def impact(self, fact_id: str, *, limit: int | None = None) -> models.Impact:
        """Return the recalls, runs and facts that a fact affected."""
        return await self._send(requests.impact(fact_id, limit=limit))

    async def count_usage(
        self, uses: models.UsageIn, *, idempotency_key: str | None = None
    ) -> models.UsageCounted:
        """Record how facts were used."""
        return await self._send(requests.count_usage(uses, idempotency_key))

    async def audit(
        self, *, scope: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> models.AuditPage:
        """List the audit log of the scopes that the caller administers, newest first."""
        return await self._send(requests.audit(scope=scope, cursor=cursor, limit=limit))

    async def events(
        self, last_event_id: str | None = None, *, topics: Sequence[str] = ()
    ) -> AsyncIterator[models.Event]:
        """Stream the changes that the caller may see, until the service ends the stream.

        Starts now, or after the event `last_event_id`; `start` is the oldest event. To resume,
        call again with the id of the last event; `Compacted` means that the id is too old.

        With `topics`, only events with one of these topics or one below: `block` or `block.*`
        stands for all changes of facts of the schema `block/1`.
        """
        request = requests.events(last_event_id, topics=topics)
        call = connection.CallRetries(self._connection, request)
        decoder = sse.SseDecoder()
        try:
            async with self._http.stream(**call.stream_arguments()) as response:
                if response.status_code != HTTPStatus.OK:
                    body = await response.aread()
                    raise responses.error_of(request, response.status_code, response.headers, body)
                async for line in response.aiter_lines():
                    event = decoder.decode_line(line)
                    if event is not None:
                        yield event
        except httpx_errors.HTTPX_ERRORS as exc:
            raise httpx_errors.translate(
                exc, call=call.description, url=self._connection.url
            ) from exc

    async def add_episodes(
        self, episodes: models.EpisodesIn, *, idempotency_key: str | None = None
    ) -> models.EpisodesAccepted:
        """Append episodes to the record of a run; existing ones count as duplicates."""
        return await self._send(requests.add_episodes(episodes, idempotency_key))

    async def list_episodes(
        self,
        run_id: str,
        *,
        namespace: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.EpisodePage:
        """List the record of a run, oldest first; `namespace` as in `get_run`."""
        page = requests.list_episodes(run_id, namespace=namespace, cursor=cursor, limit=limit)
        return await self._send(page)

    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run:
        """Open, update or close a run; `Conflict` when it has another outcome already."""
        return await self._send(requests.put_run(run_id, run))

    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail:
        """Return one run of the ledger.

        Run ids are unique in a realm; `namespace` is the realm, by default the caller's own.
        """
        return await self._send(requests.get_run(run_id, namespace))

    async def list_runs(
        self,
        *,
        namespace: str | None = None,
        blueprint: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.RunPage:
        """List the runs that match all filters, newest first."""
        return await self._send(
            requests.list_runs(namespace=namespace, blueprint=blueprint, cursor=cursor, limit=limit)
        )

    async def blueprint_stats(
        self,
        namespace: str,
        name: str,
        *,
        compare: bool = False,
        by_parameter: str | None = None,
        canary: int | None = None,
        since: datetime | None = None,
    ) -> models.BlueprintStats:
        """Return the counts and rates of one Blueprint.

        With `compare`, also runs with and without knowledge; with `by_parameter`, for each value.
        With `canary`, also the runs since a time that drew their revision for the canary of that
        revision.
        """
        request = requests.blueprint_stats(
            namespace,
            name,
            compare=compare,
            by_parameter=by_parameter,
            canary=canary,
            since=since,
        )
        return await self._send(request)

    async def stats_batch(self, subjects: models.StatsIn) -> models.Stats:
        """Return the statistics of several Blueprints and scopes."""
        return await self._send(requests.stats_batch(subjects))

    async def start_extraction(
        self, extraction: models.ExtractionIn, *, idempotency_key: str | None = None
    ) -> models.Extraction:
        """Start the durable job that extracts facts from a closed run; a run has at most one."""
        return await self._send(requests.start_extraction(extraction, idempotency_key))

    async def replay_extraction(
        self, replay: models.ReplayIn, *, idempotency_key: str | None = None
    ) -> models.ExtractionReplay:
        """Ask a model for the facts of a run, without storing any; the call takes up to minutes."""
        return await self._send(requests.replay_extraction(replay, idempotency_key))

    async def get_extraction(
        self, run_id: str, *, namespace: str | None = None
    ) -> models.Extraction:
        """Return the state of a run's extraction; `namespace` as in `get_run`."""
        return await self._send(requests.get_extraction(run_id, namespace))

    async def put_scope(self, path: str, config: models.ScopeConfig) -> models.ScopeOut:
        """Declare how knowledge behaves in one scope."""
        return await self._send(requests.put_scope(path, config))

    async def get_scope(self, path: str) -> models.ScopeOut:
        """Read one scope's configuration and what it holds."""
        return await self._send(requests.get_scope(path))

    async def delete_scope(self, path: str, *, erase: bool = False) -> None:
        """Retire exactly this scope with its facts; with `erase`, delete their text permanently."""
        await self._send(requests.delete_scope(path, erase=erase))

    async def list_scopes(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ScopePage:
        """Page through the scopes that the caller may read, by path."""
        return await self._send(requests.list_scopes(cursor=cursor, limit=limit))

    async def reset_scope(self, path: str) -> models.ScopeOut:
        """Take a scope's settings back to the defaults; its facts stay."""
        return await self._send(requests.reset_scope(path))

    async def adopt_scope(
        self, path: str, *, idempotency_key: str | None = None
    ) -> models.AdoptionResult:
        """Merge the facts of an earlier scope with the same path into this one."""
        return await self._send(requests.adopt_scope(path, idempotency_key))

    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn:
        """Register who a caller is; needs the verb admin."""
        return await self._send(requests.put_principal(principal))

    async def list_principals(self) -> models.PrincipalPage:
        """List the registered principals."""
        return await self._send(requests.list_principals())

    async def delete_principal(self, username: str) -> None:
        """Forget the principal of a Kubernetes username."""
        await self._send(requests.delete_principal(username))

    async def whoami(self) -> models.WhoAmI:
        """Ask who the caller is for the service, and which store it is."""
        return await self._send(requests.whoami())

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        """Get a ticket for a call to a cell; send it in the header X-Kais-Ticket of that call."""
        return await self._send(requests.issue_ticket(call))

    async def verify_ticket(self, ticket: str) -> models.VerifiedTicket:
        """Verify a ticket for a call to the principal of this client; return its caller."""
        return await self._send(requests.verify_ticket(models.VerifyTicketIn(ticket=ticket)))

    async def ready(self) -> models.Health:
        """Ask once, without retries, whether the store answers."""
        return await self._send(requests.ready())
