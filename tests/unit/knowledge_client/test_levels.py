"""A client sends a service no field that the service's version does not have."""

from __future__ import annotations

import json
from typing import Annotated

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, KnowledgeClient, errors, requests
from knowledge_client.base_model import Since
from knowledge_client.models import FactIn, FactsIn, RecallIn


class NewerFactIn(FactIn):
    """A fact as a later release may have it."""

    colour: Annotated[str | None, Since(2)] = None


class Service:
    """Answers every write as done and keeps what it was sent."""

    def __init__(self, level: int | None) -> None:
        self.level = level
        self.requests: list[tuple[str, str, object]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.requests.append((request.method, request.url.path, body))
        headers = {"Kais-Api-Level": str(self.level)} if self.level else {}
        answer = {"fact_id": "f", "status": "created"}
        return httpx.Response(200, json=answer, headers=headers)

    @property
    def client(self) -> KnowledgeClient:
        return KnowledgeClient("http://service", transport=httpx.MockTransport(self))


def test_only_what_the_caller_set_is_sent() -> None:
    assert requests.remember(FactIn(content="x")).json == {"content": "x"}
    explicit = FactIn(content="x", review="none", tags=(), scope=None)
    assert requests.remember(explicit).json == {"content": "x", "review": "none", "tags": []}
    batch = FactsIn(facts=(FactIn(content="x"),))
    assert requests.remember_batch(batch).json == {"facts": [{"content": "x"}]}
    assert requests.recall(RecallIn(query="q")).json == {"query": "q"}


@pytest.mark.parametrize("level", [None, 1])
def test_newer_field_is_not_sent_to_an_older_service(level: int | None) -> None:
    service = Service(level)
    with pytest.raises(errors.Unsupported) as refused:
        service.client.remember(NewerFactIn(content="x", colour="red"))
    assert str(refused.value) == (
        "POST /v1/facts: colour of NewerFactIn needs level 2 of the interface, the service at"
        " http://service has level 1; upgrade it or leave the field out"
    )
    assert service.requests == [("GET", "/healthz", None)]


def test_newer_field_is_sent_to_a_service_that_has_it() -> None:
    service = Service(2)
    client = service.client
    client.remember(NewerFactIn(content="x", colour="red"))
    client.remember(NewerFactIn(content="y", colour="blue"))
    assert [path for _, path, _ in service.requests] == ["/healthz", "/v1/facts", "/v1/facts"]
    assert service.requests[1][2] == {"content": "x", "colour": "red"}


def test_newer_client_that_uses_nothing_new_asks_nothing() -> None:
    service = Service(1)
    service.client.remember(NewerFactIn(content="x"))
    assert service.requests == [("POST", "/v1/facts", {"content": "x"})]


def test_newer_field_of_a_nested_body_counts() -> None:
    service = Service(1)
    batch = FactsIn.model_construct({"facts"}, facts=(NewerFactIn(content="x", colour="red"),))

    class NewerFactsIn(FactsIn):
        facts: tuple[NewerFactIn, ...]

    with pytest.raises(errors.Unsupported, match="colour of NewerFactIn needs level 2"):
        service.client.remember_batch(NewerFactsIn(facts=batch.facts))


def test_service_that_was_upgraded_is_noticed_with_its_next_answer() -> None:
    service = Service(1)
    client = service.client
    client.remember(FactIn(content="x"))
    service.level = 2
    client.remember(FactIn(content="y"))
    client.remember(NewerFactIn(content="z", colour="red"))
    assert service.requests[-1][2] == {"content": "z", "colour": "red"}


async def test_async_client_does_the_same() -> None:
    service = Service(1)
    client = AsyncKnowledgeClient("http://service", transport=httpx.MockTransport(service))
    with pytest.raises(errors.Unsupported):
        await client.remember(NewerFactIn(content="x", colour="red"))
    assert service.requests == [("GET", "/healthz", None)]
