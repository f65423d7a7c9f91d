"""A repeated request with the same Idempotency-Key gets the first response, whatever it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    AliasRemovalIn,
    AliasSetIn,
    ApproveIn,
    ConfirmIn,
    CorrectIn,
    FactIn,
    Grant,
    ReasonIn,
    RecallIn,
    ReviseIn,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Store
from tests.contract.service.callers import OPERATOR, Connect
from tests.contract.service.invisible_data import World
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import LEAD, OTHER, TEAM

REASON = ReasonIn(reason="because")
ALIAS = AliasIn(namespace="shop", value="one")
BY_ALIAS = "alias:shop:one"
KEY = "k"
Verb = Callable[[AsyncKnowledgeClient, str], Awaitable[object]]

VERBS_OF_AUTHORS: dict[str, Verb] = {
    "correct": lambda c, f: c.correct(f, CorrectIn(reason="r"), idempotency_key=KEY),
    "correct by a replacement": lambda c, f: c.correct(
        f, CorrectIn(reason="r", replacement="snow"), idempotency_key=KEY
    ),
    "confirm": lambda c, f: c.confirm(f, ConfirmIn(), idempotency_key=KEY),
    "retract": lambda c, f: c.retract(f, REASON, idempotency_key=KEY),
    "undo": lambda c, f: c.undo(f, REASON, idempotency_key=KEY),
    "revise": lambda c, f: c.revise(f, ReviseIn(reason="r", content="hail"), idempotency_key=KEY),
    "assign an alias": lambda c, f: c.set_alias(
        f, AliasSetIn(namespace="shop", value="two", reason="r"), idempotency_key=KEY
    ),
    "free an alias": lambda c, f: c.remove_alias(
        f, AliasRemovalIn(namespace="shop", value="one", reason="r"), idempotency_key=KEY
    ),
}
VERBS_OF_REVIEWERS: dict[str, Verb] = {
    "promote": lambda c, f: c.promote(f, REASON, idempotency_key=KEY),
    "approve": lambda c, f: c.approve(f, ApproveIn(reason="r"), idempotency_key=KEY),
    "approve an edit": lambda c, f: c.approve(
        f, ApproveIn(reason="r", content="hail"), idempotency_key=KEY
    ),
    "reject": lambda c, f: c.reject(f, REASON, idempotency_key=KEY),
    "erase": lambda c, f: c.erase(f, REASON, idempotency_key=KEY),
}
VERBS = VERBS_OF_AUTHORS | VERBS_OF_REVIEWERS


@pytest.mark.parametrize("is_by_alias", [False, True])
@pytest.mark.parametrize("verb", VERBS)
async def test_repeat_gets_the_first_response(
    connect: Connect, verb: str, is_by_alias: bool
) -> None:
    keeper = connect("keeper")
    fact = FactIn(content="rain", scope=TEAM, aliases=(ALIAS,))
    fact_id = (await connect("operator").remember(fact)).fact_id
    reference = BY_ALIAS if is_by_alias else fact_id
    first = await VERBS[verb](keeper, reference)
    assert await VERBS[verb](keeper, reference) == first


@pytest.mark.parametrize("verb", VERBS_OF_AUTHORS)
async def test_repeat_of_an_author_gets_the_first_response(connect: Connect, verb: str) -> None:
    lead = connect("lead")
    fact_id = (await lead.remember(FactIn(content="rain", aliases=(ALIAS,)))).fact_id
    first = await VERBS[verb](lead, fact_id)
    assert await VERBS[verb](lead, fact_id) == first


@pytest.mark.parametrize("later_scopes", [(TEAM,), (TEAM, LEAD)])
async def test_repeated_erasure_by_an_alias_erases_no_later_fact_of_that_alias(
    connect: Connect, later_scopes: tuple[str, ...]
) -> None:
    """With two later facts, the alias is ambiguous."""
    keeper, operator = connect("keeper"), connect("operator")
    await operator.remember(FactIn(content="rain", scope=TEAM, aliases=(ALIAS,)))
    first = await VERBS["erase"](keeper, BY_ALIAS)
    for scope in later_scopes:
        await operator.remember(FactIn(content="snow", scope=scope, aliases=(ALIAS,)))
    assert await VERBS["erase"](keeper, BY_ALIAS) == first
    facts = (await keeper.list_facts()).facts
    assert {fact.scope for fact in facts if fact.content == "snow"} == set(later_scopes)


@pytest.mark.parametrize("caller", ["eraser", "keeper", "operator"])
async def test_repeated_erasure_names_to_its_caller_what_the_first_one_named(
    world: World, caller: str
) -> None:
    await world.hide()
    path, body = f"/v1/facts/{world.names['two']}:erase", {"reason": "x"}
    key = {"Idempotency-Key": KEY}
    first = await world.ask("POST", path, body, caller=caller, **key)
    repeated = await world.ask("POST", path, body, caller=caller, **key)
    assert (repeated.status_code, repeated.content) == (200, first.content)
    assert (repeated.json()["links"] is None) is (caller == "eraser")


async def test_repeated_erasure_says_nothing_to_another_caller(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    """An erased fact is refused like one that never existed."""
    fact_id = (await connect("operator").remember(FactIn(content="rain", scope=TEAM))).fact_id
    await VERBS["erase"](connect("keeper"), fact_id)
    for caller in ("operator", "eraser", "lead"):
        headers = OPERATOR | {"Authorization": f"Bearer {caller}", "Idempotency-Key": KEY}
        response, unknown = [
            await http.post(
                f"/v1/facts/{reference}:erase", json={"reason": "because"}, headers=headers
            )
            for reference in (fact_id, "unknown")
        ]
        assert response.status_code == unknown.status_code == 404
        detail = str(response.json()["detail"])
        assert detail.replace(fact_id, "unknown") == unknown.json()["detail"]


async def test_key_of_an_erasure_is_refused_for_another_fact(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    fact_id = (await connect("operator").remember(FactIn(content="rain", scope=TEAM))).fact_id
    await VERBS["erase"](connect("keeper"), fact_id)
    headers = {"Authorization": "Bearer keeper", "Idempotency-Key": KEY}
    for reference, reason in ((fact_id, "other"), ("unknown", "because")):
        response = await http.post(
            f"/v1/facts/{reference}:erase", json={"reason": reason}, headers=headers
        )
        assert (response.status_code, response.json()["code"]) == (409, "idempotency-conflict")


READS_TEAM = Grant(scope=TEAM, verbs=("read",))


def connect_ada(store: Store, *grants: Grant) -> AsyncKnowledgeClient:
    """Return the client of an agent elsewhere, which has only these grants from now on."""
    ada = Principal("ada", "agent", OTHER, grants, subject="ada")
    transport = httpx.ASGITransport(create_app(store, NamedCallers({"ada": ada})))
    return AsyncKnowledgeClient("http://service", token="ada", transport=transport)


async def test_repeated_recall_returns_no_fact_that_its_caller_may_no_longer_read(
    connect: Connect, store: Store
) -> None:
    recall = RecallIn(query="rain")
    await connect("operator").remember(FactIn(content="rain", scope=TEAM))
    first = await connect_ada(store, READS_TEAM).recall(recall, idempotency_key=KEY)
    assert [fact.content for fact in first.facts] == ["rain"]
    repeated = await connect_ada(store).recall(recall, idempotency_key=KEY)
    assert (repeated.facts, TEAM in repeated.scopes) == ((), False)
    assert repeated.receipt is not None
    receipt = await connect_ada(store).get_receipt(repeated.receipt)
    assert receipt.facts == ()
    assert await connect_ada(store, READS_TEAM).recall(recall, idempotency_key=KEY) == first


async def test_repeated_recall_returns_no_scope_that_its_caller_may_no_longer_read(
    connect: Connect, store: Store
) -> None:
    recall = RecallIn(query="rain")
    await connect("operator").remember(FactIn(content="snow", scope=TEAM))
    first = await connect_ada(store, READS_TEAM).recall(recall, idempotency_key=KEY)
    assert (first.facts, TEAM in first.scopes) == ((), True)
    repeated = await connect_ada(store).recall(recall, idempotency_key=KEY)
    assert TEAM not in repeated.scopes


async def test_repeated_recall_returns_no_fact_that_was_rejected_since_to_an_agent(
    connect: Connect, store: Store
) -> None:
    recall, ada = RecallIn(query="rain"), connect_ada(store, READS_TEAM)
    fact_id = (await connect("operator").remember(FactIn(content="rain", scope=TEAM))).fact_id
    first = await ada.recall(recall, idempotency_key=KEY)
    assert [fact.id for fact in first.facts] == [fact_id]
    await connect("keeper").reject(fact_id, REASON)
    assert (await ada.recall(recall, idempotency_key=KEY)).facts == ()


class CountedStore:
    """A store that counts the calls of its methods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return value(*args, **kwargs)

        return call


async def test_repeated_recall_checks_its_facts_in_one_read(connect: Connect, store: Store) -> None:
    counted: Any = CountedStore(store)
    ada, recall = connect_ada(counted, READS_TEAM), RecallIn(query="rain", limit=20)
    calls = []
    for number in range(12):
        fact = FactIn(content=f"rain in the district number {number}", scope=TEAM)
        await connect("operator").remember(fact)
        if number not in (1, 11):
            continue
        key = f"k-{number}"
        first = await ada.recall(recall, idempotency_key=key)
        assert len(first.facts) == number + 1
        counted.calls.clear()
        assert await ada.recall(recall, idempotency_key=key) == first
        calls.append(dict(counted.calls))
    assert calls[0] == calls[1]
