import asyncio
import inspect
import json
import types

import httpx
import pytest

import knowledge_client
from knowledge_client import errors, models, requests
from knowledge_client.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_client.retries import RetryPolicy

QUICK = RetryPolicy(deadline_s=5, unregistered_s=5, first_s=0.001, longest_s=0.002)
STORED = httpx.Response(201, json={"fact_id": "f1", "status": "created"})
FACT = models.FactIn(content="pods crash on Mondays")


class Service:
    """Answers from a list, the last one for ever, and keeps what it was sent."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []

    def __call__(self, request):
        self.seen.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def problem(status, code, headers=None):
    body = {"title": "t", "status": status, "code": code, "detail": "no"}
    return httpx.Response(status, json=body, headers=headers)


@pytest.fixture(params=["sync", "async"])
def call(request):
    """Call one method of either client by name."""

    def run(service, method, *arguments, **options):
        settings = {"url": "http://k:8000/", "retries": QUICK} | options
        transport = httpx.MockTransport(service)
        if request.param == "sync":
            with KnowledgeClient(transport=transport, **settings) as client:
                return getattr(client, method)(*arguments)

        async def in_a_loop():
            async with AsyncKnowledgeClient(transport=transport, **settings) as client:
                return await getattr(client, method)(*arguments)

        return asyncio.run(in_a_loop())

    return run


def test_a_fact_is_sent_and_its_answer_read(call):
    service = Service(STORED)

    assert call(service, "remember", FACT).fact_id == "f1"
    assert str(service.seen[0].url) == "http://k:8000/v1/facts"
    assert json.loads(service.seen[0].content)["content"] == "pods crash on Mondays"


def test_a_write_keeps_its_key_over_retries(call):
    service = Service(httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), STORED)

    call(service, "remember", FACT)

    keys = [request.headers["Idempotency-Key"] for request in service.seen]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_calls_have_two_keys(call):
    service = Service(STORED)
    call(service, "remember", FACT)
    call(service, "remember", FACT)

    assert len({request.headers["Idempotency-Key"] for request in service.seen}) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_is_asked_again(call, status):
    service = Service(httpx.Response(status), STORED)

    assert call(service, "remember", FACT).status == "created"
    assert len(service.seen) == 2


def test_an_account_made_a_moment_ago_is_waited_for(call):
    service = Service(problem(403, "principal-unregistered"), STORED)

    assert call(service, "remember", FACT).status == "created"


def test_patience_ends_with_the_last_error_and_its_cause(call):
    service = Service(httpx.ConnectError("connection refused"))
    impatient = RetryPolicy(deadline_s=0.02, first_s=0.001, longest_s=0.005)

    with pytest.raises(errors.KnowledgeUnavailable, match="connection refused") as caught:
        call(service, "whoami", retries=impatient)

    assert len(service.seen) > 1
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_a_refusal_is_raised_at_once(call):
    service = Service(problem(409, "retracted-before"))

    with pytest.raises(errors.Conflict):
        call(service, "remember", FACT)
    assert len(service.seen) == 1


def test_readiness_is_asked_once(call):
    service = Service(httpx.ConnectError("refused"))

    with pytest.raises(errors.KnowledgeUnavailable):
        call(service, "ready")
    assert len(service.seen) == 1


def test_the_token_file_is_read_again_for_each_try(call, tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")

    class Renewing(Service):
        def __call__(self, request):
            file.write_text("second\n")
            return super().__call__(request)

    service = Renewing(httpx.Response(503), STORED)
    call(service, "remember", FACT, token_file=str(file))

    assert [r.headers["Authorization"] for r in service.seen] == ["Bearer first", "Bearer second"]


def test_a_missing_token_file_says_so(call, tmp_path):
    with pytest.raises(errors.Unauthenticated, match="cannot read the token file"):
        call(Service(STORED), "remember", FACT, token_file=str(tmp_path / "none"))


def test_address_and_token_file_come_from_the_environment(call, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("t")
    monkeypatch.setenv("KNOWLEDGE_SERVICE_URL", "http://from-environment")
    monkeypatch.setenv("KNOWLEDGE_TOKEN_FILE", str(file))
    service = Service(STORED)

    call(service, "remember", FACT, url=None)

    assert service.seen[0].url.host == "from-environment"
    assert service.seen[0].headers["Authorization"] == "Bearer t"


def test_without_an_address_the_message_names_the_variable(monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_SERVICE_URL", raising=False)

    with pytest.raises(errors.InvalidRequest, match="set KNOWLEDGE_SERVICE_URL"):
        KnowledgeClient()


def test_an_address_that_is_none_is_not_tried_again(call):
    service = Service(httpx.UnsupportedProtocol("no scheme"))

    with pytest.raises(errors.InvalidRequest, match="http address"):
        call(service, "whoami", url="knowledge")
    assert len(service.seen) == 1


def public(cls):
    return {name for name, _ in inspect.getmembers(cls, callable) if not name.startswith("_")}


def test_both_clients_have_a_method_for_every_request():
    names = {
        name
        for name, item in vars(requests).items()
        if inspect.isfunction(item) and item.__module__ == requests.__name__ and name[0] != "_"
    }
    assert public(KnowledgeClient) - {"close"} == names - {"dataclass", "quote"}
    assert public(AsyncKnowledgeClient) - {"aclose"} == public(KnowledgeClient) - {"close"}


@pytest.mark.parametrize("name", sorted(public(KnowledgeClient) - {"close"}))
def test_both_clients_take_the_same_arguments(name):
    sync, async_ = (getattr(cls, name) for cls in (KnowledgeClient, AsyncKnowledgeClient))

    assert str(inspect.signature(sync)) == str(inspect.signature(async_)).replace("AsyncI", "I")


@pytest.mark.parametrize("module", [knowledge_client, models, errors], ids=lambda m: m.__name__)
def test_all_is_exactly_the_public_names(module):
    names = {
        name
        for name, item in vars(module).items()
        if not name.startswith("_")
        and not (isinstance(item, types.ModuleType) and name not in module.__all__)
        and name not in {"annotations", "TYPE_CHECKING"}
    }
    assert names == set(module.__all__)
