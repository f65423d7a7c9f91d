"""Subscriptions of the MCP endpoint, with the official client over a socket.

The in-memory transport returns whole responses, and the response to `subscriptions/listen` is a
stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    ResourcesListChanged,
    ResourceUpdated,
    Subscription,
)

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    ActionStepIn,
    ChartIn,
    ConfirmIn,
    FactIn,
    GraphEntitiesIn,
    GraphEntityIn,
    GraphNamesIn,
    GraphObservationsIn,
    ReasonIn,
    ReviseIn,
    StepIn,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import QuotaExceeded
from knowledge_service.mcp_endpoint.endpoint import McpEndpoint
from knowledge_service.ports import Store
from knowledge_service.routes import streams
from knowledge_service.use_cases import event_stream
from tests import agent_services
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import OTHER

PATIENCE_S = 60.0
METHOD_NOT_FOUND = -32601
CHART = ChartIn(
    desired_outcome="Five songs",
    current_reality="None yet",
    due_date=datetime(2030, 5, 1, tzinfo=UTC),
    action_steps=(ActionStepIn(title="Buy a guitar"), ActionStepIn(title="Practise")),
)


class Service:
    """A service with the endpoint on a socket; `callers` may change while it runs."""

    def __init__(self, app: Any, url: str, callers: NamedCallers) -> None:
        self.app = app
        self.url = url
        self.callers = callers

    def rest(self, name: str) -> AsyncKnowledgeClient:
        transport = httpx.ASGITransport(self.app)
        return AsyncKnowledgeClient(self.url, token=name, transport=transport)

    @asynccontextmanager
    async def mcp(self, name: str, mode: str = "2026-07-28") -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {name}"}
        timeout = httpx2.Timeout(PATIENCE_S)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
            Client(
                streamable_http_client(f"{self.url}/mcp/knowledge,charts,graph", http_client=http),
                mode=mode,
            ) as client,
        ):
            yield client


@asynccontextmanager
async def serving(
    store: Store, callers: Mapping[str, Principal] = CALLERS
) -> AsyncIterator[Service]:
    named = NamedCallers(dict(callers))
    app = create_app(store, named, mcp=McpEndpoint())
    async with asyncio.timeout(PATIENCE_S), agent_services.serving(app) as url:
        yield Service(app, url, named)


async def next_event(subscription: Subscription) -> object:
    return await anext(aiter(subscription))


async def test_changes_of_facts_entities_and_charts_reach_their_subscribers(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead") as client:
        lead = service.rest("lead")
        fact = (await lead.remember(FactIn(content="in sight"))).fact_id
        entity = GraphEntityIn(name="Ann & co", entity_type="person")
        await lead.create_entities(GraphEntitiesIn(entities=(entity,)))
        chart = await lead.create_chart(CHART)
        uris = [
            f"kais://facts/{fact}",
            "kais://entities/Ann%20%26%20co",
            f"kais://charts/{chart.id}",
        ]
        changes = [
            lambda: lead.confirm(fact, ConfirmIn()),
            lambda: lead.add_observations(
                GraphObservationsIn.model_validate(
                    {"observations": [{"entity": "Ann & co", "contents": ["likes tea"]}]}
                )
            ),
            lambda: lead.complete_step(StepIn(step=chart.action_steps[0].name)),
        ]
        async with client.listen(resource_subscriptions=uris) as subscription:
            assert subscription.honored.resource_subscriptions == uris
            for uri, change in zip(uris, changes, strict=True):
                await lead.remember(FactIn(content=f"nobody follows this: {uri}"))
                await change()
                assert await next_event(subscription) == ResourceUpdated(uri)


async def test_a_subscription_to_the_old_name_of_a_renamed_entity_goes_on(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead") as client:
        lead = service.rest("lead")
        entity = GraphEntityIn(name="Ann", entity_type="person")
        (ann,) = (await lead.create_entities(GraphEntitiesIn(entities=(entity,)))).entities
        uri = "kais://entities/Ann"
        async with client.listen(resource_subscriptions=[uri]) as subscription:
            await lead.revise(ann.id, ReviseIn(reason="married", content="Ann King"))
            assert await next_event(subscription) == ResourceUpdated(uri)
            observation = {"entity": "Ann King", "contents": ["likes tea"]}
            await lead.add_observations(
                GraphObservationsIn.model_validate({"observations": [observation]})
            )
            assert await next_event(subscription) == ResourceUpdated(uri)
            await lead.delete_entities(GraphNamesIn(names=("Ann King",)))
            assert await next_event(subscription) == ResourceUpdated(uri)


async def test_added_and_closed_facts_change_the_list(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead") as client:
        lead = service.rest("lead")
        async with client.listen(resources_list_changed=True) as subscription:
            fact = (await lead.remember(FactIn(content="new"))).fact_id
            assert await next_event(subscription) == ResourcesListChanged()
            assert fact in (await client.list_resources()).resources[0].uri
            await lead.retract(fact, ReasonIn(reason="wrong"))
            assert await next_event(subscription) == ResourcesListChanged()
            assert (await client.list_resources()).resources == []


# Beside the cell `lead`, above it, and beside the cell `stranger` of another realm.
@pytest.mark.parametrize("reader", ["peer", "team", "neighbour"])
async def test_changes_out_of_sight_are_not_announced(store: Store, reader: str) -> None:
    neighbour = Principal("other/y", "agent", f"{OTHER}/cell:y")
    async with serving(store, {**CALLERS, "neighbour": neighbour}) as service:
        own = service.rest(reader)
        own_fact = (await own.remember(FactIn(content="my own"))).fact_id
        owners = [service.rest(name) for name in ("lead", "stranger")]
        hidden = [await _hidden_resources(owner) for owner in owners]
        uris = list(dict.fromkeys((*hidden[0], *hidden[1], f"kais://facts/{own_fact}")))
        async with (
            service.mcp(reader) as client,
            client.listen(resource_subscriptions=uris, resources_list_changed=True) as subscription,
        ):
            assert subscription.honored.resource_subscriptions == uris
            for owner, (fact_uri, *_) in zip(owners, hidden, strict=True):
                await _change_everything(owner, fact_uri.rpartition("/")[2])
            await own.confirm(own_fact, ConfirmIn())
            assert await next_event(subscription) == ResourceUpdated(uris[-1])


async def _hidden_resources(owner: AsyncKnowledgeClient) -> list[str]:
    """Create a fact, an entity and a chart; return their URIs, and those of their parts."""
    fact = (await owner.remember(FactIn(content="hidden"))).fact_id
    entity = GraphEntityIn(name="Ann", entity_type="person", observations=("hidden",))
    (ann,) = (await owner.create_entities(GraphEntitiesIn(entities=(entity,)))).entities
    chart = await owner.create_chart(CHART)
    return [
        f"kais://facts/{fact}",
        f"kais://facts/{ann.id}",
        "kais://facts/alias:entity:Ann",
        "kais://entities/Ann",
        f"kais://charts/{chart.id}",
        *(f"kais://entities/{step.name}" for step in chart.action_steps),
    ]


async def _change_everything(owner: AsyncKnowledgeClient, fact: str) -> None:
    """Add, change and close what `_hidden_resources` created."""
    await owner.confirm(fact, ConfirmIn())
    observation = {"observations": [{"entity": "Ann", "contents": ["likes tea"]}]}
    await owner.add_observations(GraphObservationsIn.model_validate(observation))
    (chart,) = (await owner.list_charts()).charts
    await owner.complete_step(StepIn(step=chart.action_steps[0].name))
    await owner.delete_entities(GraphNamesIn(names=("Ann",)))
    await owner.retract(fact, ReasonIn(reason="wrong"))
    await owner.remember(FactIn(content="hidden too"))


async def test_what_names_no_resource_is_not_subscribed_to(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead") as client:
        uris = ["file:///etc/passwd", "kais://facts/one"]
        async with client.listen(resource_subscriptions=uris) as subscription:
            assert subscription.honored.resource_subscriptions == ["kais://facts/one"]
        many = [f"kais://facts/{number}" for number in range(501)]
        with pytest.raises(MCPError, match="a subscription may have 500 resources"):
            async with client.listen(resource_subscriptions=many):
                pass


@pytest.mark.parametrize(("mode", "can_listen"), [("auto", True), ("legacy", False)])
async def test_only_the_newer_revision_declares_subscriptions(
    store: Store, mode: str, can_listen: bool
) -> None:
    async with serving(store) as service, service.mcp("lead", mode) as client:
        declared = client.server_capabilities.resources
        assert declared is not None
        assert (bool(declared.subscribe), bool(declared.list_changed)) == (can_listen, can_listen)
        if not can_listen:
            with pytest.raises(ListenNotSupportedError):
                async with client.listen(resources_list_changed=True):
                    pass


@pytest.mark.parametrize("method", ["resources/subscribe", "subscriptions/listen"])
async def test_the_older_revision_has_no_subscriptions(store: Store, method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": "kais://facts/one"}}
    headers = {**_headers("lead"), "MCP-Protocol-Version": "2025-11-25", "Mcp-Method": method}
    async with serving(store) as service, httpx.AsyncClient(timeout=PATIENCE_S) as http:
        response = await http.post(f"{service.url}/mcp", json=message, headers=headers)
    assert response.json()["error"]["code"] == METHOD_NOT_FOUND


@pytest.mark.parametrize("now", [None, CALLERS["peer"]], ids=["expired", "of another"])
async def test_a_stream_ends_with_its_token(
    store: Store, monkeypatch: pytest.MonkeyPatch, now: Principal | None
) -> None:
    monkeypatch.setattr(streams, "_REAUTHENTICATION_S", 0.1)
    async with serving(store) as service, service.mcp("lead") as client:
        async with client.listen(resources_list_changed=True) as subscription:
            service.callers.principals.pop("lead")
            if now:
                service.callers.principals["lead"] = now
            assert [event async for event in subscription] == []
        if now is None:
            refused = await _listen_once(service.url, "lead")
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


async def _listen_once(url: str, name: str) -> httpx.Response:
    """Send a request to listen that is answered at once because it is refused."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        return await http.post(f"{url}/mcp", json=LISTEN, headers=_headers(name))


async def test_a_stream_ends_when_the_service_stops(store: Store) -> None:
    async with (
        serving(store) as service,
        service.mcp("lead") as client,
        client.listen(resources_list_changed=True) as subscription,
    ):
        service.app.state.services.subscription_limiter.is_closing = True
        assert [event async for event in subscription] == []


async def test_a_caller_has_eight_streams_at_most(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead") as client:
        opened = [client.listen(resources_list_changed=True) for _ in range(8)]
        for stream in opened:
            await stream.__aenter__()
        with pytest.raises(MCPError, match="already has 8 open streams; close one first"):
            async with client.listen(resources_list_changed=True):
                pass
        await opened.pop().__aexit__(None, None, None)
        await until_open(service, 7)
        async with client.listen(resources_list_changed=True):
            await service.rest("lead").remember(FactIn(content="calls go on"))
        for stream in opened:
            await stream.__aexit__(None, None, None)


async def until_open(service: Service, count: int) -> None:
    limiter = service.app.state.services.subscription_limiter
    while len(limiter._subscriptions) != count:  # noqa: ASYNC110 (it announces nothing)
        await asyncio.sleep(0.01)


async def test_a_thousand_streams_are_bounded_and_calls_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = {
        f"agent {number}": Principal(f"x/{number}", "agent", f"{OTHER}/cell:c{number}")
        for number in range(125)
    }
    async with serving(store, {**CALLERS, **agents}) as service:
        limiter = service.app.state.services.subscription_limiter
        asking = [
            asyncio.create_task(listen_in_process(service.app, name, WaitingClient()))
            for name in agents
            for _ in range(8)
        ]
        fact = await service.rest("lead").remember(FactIn(content="calls go on"))
        assert fact.status == "created"
        await until_open(service, event_stream._MAX_STREAMS)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert not limiter._subscriptions


async def test_the_stream_after_a_thousand_is_refused_with_the_reason_and_when_to_try_again(
    store: Store,
) -> None:
    async with serving(store) as service, httpx.AsyncClient(timeout=PATIENCE_S) as http:
        limiter = service.app.state.services.subscription_limiter
        refused_count = 0
        for number in range(1000):
            realm = f"realm:r{number}/formation:team"
            try:
                limiter.subscribe(Principal(f"x/{number}", "agent", realm))
            except QuotaExceeded:
                refused_count += 1
        assert refused_count == 1000 - event_stream._MAX_STREAMS
        detail = "256 streams are open, and no caller has more than demo/lead-0; try again"

        headers = {"Authorization": "Bearer lead"}
        refusal = await http.get(f"{service.url}/v1/events", headers=headers)
        assert (refusal.status_code, refusal.headers["Retry-After"]) == (429, "5")
        assert refusal.headers["Content-Type"] == "application/problem+json"
        problem = refusal.json()
        assert (problem["code"], problem["detail"]) == ("quota-exceeded", detail)

        answer = await http.post(f"{service.url}/mcp", json=LISTEN, headers=_headers("lead"))
        assert answer.headers["Content-Type"] == "application/json", "no stream was opened"
        error = answer.json()["error"]
        assert error["message"] == (
            f"quota-exceeded: {detail}\nRetry after 5 s.\nWait, then try again."
        )
        assert (error["data"]["code"], error["data"]["retry_after_s"]) == ("quota-exceeded", 5)

        fact = await service.rest("lead").remember(FactIn(content="calls go on"))
        assert fact.status == "created"


@pytest.mark.parametrize("message_count", [0, 1, 2])
async def test_a_client_that_hangs_loses_its_stream(
    store: Store, monkeypatch: pytest.MonkeyPatch, message_count: int
) -> None:
    monkeypatch.setattr(streams, "_SEND_TIMEOUT_S", 0.1)
    async with serving(store) as service:
        client = WaitingClient(message_count)
        stream = asyncio.create_task(listen_in_process(service.app, "lead", client))
        if message_count == 2:
            await client.acknowledged.wait()
            await service.rest("lead").remember(FactIn(content="news"))
        await stream
        assert not service.app.state.services.subscription_limiter._subscriptions


class WaitingClient:
    """A client that reads some messages, all by default, and neither asks more nor hangs up."""

    def __init__(self, message_count: int | None = None) -> None:
        self._message_count = message_count
        self._has_asked = False
        self.acknowledged = asyncio.Event()

    async def receive(self) -> Mapping[str, Any]:
        if self._has_asked:
            await asyncio.Event().wait()
        self._has_asked = True
        return {"type": "http.request", "body": json.dumps(LISTEN).encode(), "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        if self._message_count is not None:
            if self._message_count == 0:
                await asyncio.Event().wait()
            self._message_count -= 1
        if b"acknowledged" in message.get("body", b""):
            self.acknowledged.set()


LISTEN = {
    "jsonrpc": "2.0",
    "id": "one",
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"resourcesListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}


def _headers(name: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {name}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }


async def listen_in_process(app: Any, name: str, client: WaitingClient) -> None:
    headers = [(key.lower().encode(), value.encode()) for key, value in _headers(name).items()]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/mcp",
        "raw_path": b"/mcp", "query_string": b"", "root_path": "", "scheme": "http",
        "server": ("service", 80), "client": ("test", 1), "asgi": {}, "headers": headers,
    }  # fmt: skip
    await app(scope, client.receive, client.send)
