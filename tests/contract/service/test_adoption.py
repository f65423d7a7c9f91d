from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    AliasIn,
    FactIn,
    FactUse,
    PrincipalIn,
    Quota,
    RecallIn,
    ScopeConfig,
    Subject,
    UsageIn,
)
from knowledge_service.ports import ActionContext, Search, Store
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import Connect, refused
from tests.knowledge_builders import ALL, LEAD, OPERATOR, OTHER, PERSON, TEAM, new_fact, run_in

CODE = errors.ErrorCode


def account(uid: str) -> PrincipalIn:
    subject = Subject(username="system:serviceaccount:demo:lead-0", uid=uid)
    return PrincipalIn(name="demo/lead-0", type="agent", subject=subject, home=LEAD, realm_uid=uid)


class TestAdopting:
    async def test_namespace_made_again_starts_empty_and_joins_the_old_memory_on_purpose(
        self, connect: Connect
    ) -> None:
        operator, lead = connect("operator"), connect("lead")
        await operator.put_principal(account("first"))
        names = (AliasIn(namespace="ko", prefix="KO-"),)
        old = await lead.remember(FactIn(content="rain of the old days", aliases=names))
        team = await connect("ada").remember(FactIn(content="rain of the old team", scope=TEAM))
        await operator.put_run("r", run_in(outcome="Succeeded"))
        await operator.put_principal(account("second"))
        assert (await lead.recall(RecallIn(query="rain"))).facts == ()
        await refused(lead.get_fact(old.fact_id), CODE.NOT_FOUND)
        new = await lead.remember(FactIn(content="rain of today"))
        adopted = await connect("keeper").adopt_scope("realm:demo")
        assert adopted.scopes == ("realm:demo", TEAM, LEAD)
        assert adopted.facts == 2
        recalled_facts = (await lead.recall(RecallIn(query="rain"))).facts
        assert {fact.id for fact in recalled_facts} == {old.fact_id, team.fact_id, new.fact_id}
        assert (await lead.get_fact("alias:ko:KO-1")).id == old.fact_id
        assert (await lead.remember(FactIn(content="x", aliases=names))).aliases[0].value == "KO-2"
        assert (await lead.get_run("r")).outcome == "Succeeded"
        assert (await lead.get_scope(LEAD)).stats.facts == 3
        await operator.put_principal(account("second"))
        assert (await lead.get_fact(old.fact_id)).scope == LEAD

    async def test_deleted_scope_is_brought_back_with_its_settings(self, connect: Connect) -> None:
        keeper = connect("keeper")
        fact = await keeper.remember(FactIn(content="rain", scope=TEAM))
        await keeper.put_scope(TEAM, ScopeConfig(read_only=True))
        await keeper.delete_scope(TEAM)
        assert (await keeper.adopt_scope(TEAM)).facts == 1
        assert (await keeper.get_fact(fact.fact_id)).content == "rain"
        assert (await keeper.get_scope(TEAM)).config.read_only
        refusal = await refused(keeper.adopt_scope(TEAM), CODE.NOT_FOUND)
        assert refusal == f"scope {TEAM} has no predecessor to adopt"

    async def test_is_for_who_administers_the_whole_of_it(self, connect: Connect) -> None:
        for name, code in (("lead", CODE.FORBIDDEN), ("ada", CODE.FORBIDDEN)):
            await refused(connect(name).adopt_scope("realm:demo"), code)
        await refused(connect("keeper").adopt_scope(OTHER), CODE.SCOPE_FORBIDDEN)

    async def test_usage_of_the_old_days_counts_again(self, connect: Connect) -> None:
        lead, keeper = connect("lead"), connect("keeper")
        shared = await connect("operator").remember(FactIn(content="for all", scope="platform"))
        uses = UsageIn(uses=(FactUse(fact=shared.fact_id, kind="applied", count=2),))
        await lead.count_usage(uses)
        await keeper.delete_scope(LEAD)
        await lead.count_usage(uses)
        await keeper.adopt_scope(LEAD)
        assert (await lead.impact(shared.fact_id)).usage["applied"].count == 4


def test_adopted_store_is_rebuilt_to_the_byte_and_searched_alike(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    for n in range(40):
        store.remember([new_fact(f"rain {n} of old days", LEAD)], actor=PERSON)
    store.put_principal(account("first"), actor=OPERATOR)
    store.put_principal(account("second"), actor=OPERATOR)
    for n in range(20):
        store.remember([new_fact(f"rain {n} of today", LEAD)], actor=PERSON)
    assert store.adopt_scope("realm:demo", actor=OPERATOR) is not None
    store.remember([new_fact("rain of tomorrow", LEAD)], actor=PERSON)
    search = Search(ALL, "rain of today and tomorrow", 100)
    hits_before = [(hit.fact.id, hit.score) for hit in store.search(search).hits]
    assert len(hits_before) == 61
    store.close()
    db = connection.open_writer(path)
    fingerprint = projection_rebuild.fingerprint(db)
    projection_rebuild.rebuild(db)
    assert projection_rebuild.fingerprint(db) == fingerprint
    db.close()
    store = SqliteStore(path)
    assert [(hit.fact.id, hit.score) for hit in store.search(search).hits] == hits_before
    store.close()


class TestSettings:
    async def test_are_taken_back_and_the_facts_stay(self, connect: Connect) -> None:
        keeper = connect("keeper")
        fact = await keeper.remember(FactIn(content="rain", scope=TEAM))
        await keeper.put_scope(TEAM, ScopeConfig(read_only=True))
        for _ in range(2):
            scope = await keeper.reset_scope(TEAM)
            assert (scope.declared, scope.config, scope.stats.facts) == (False, ScopeConfig(), 1)
        assert (await keeper.get_fact(fact.fact_id)).scope == TEAM
        await refused(connect("ada").reset_scope(TEAM), CODE.FORBIDDEN)
        await refused(connect("lead").reset_scope(OTHER), CODE.SCOPE_FORBIDDEN)

    async def test_scopes_are_listed_in_pages(self, connect: Connect) -> None:
        for n in range(5):
            await connect("operator").put_scope(f"realm:demo/formation:f{n}", ScopeConfig())
        listed: list[str] = []
        cursor = None
        while True:
            page = await connect("keeper").list_scopes(cursor=cursor, limit=2)
            listed += [scope.path for scope in page.scopes]
            cursor = page.cursor
            if cursor is None:
                break
        whole = [scope.path for scope in (await connect("keeper").list_scopes()).scopes]
        assert listed == whole == sorted(whole)
        assert len(whole) == 7


async def test_quota_of_a_registration_is_kept_and_holds(connect: Connect, store: Store) -> None:
    body = account("u").model_copy(update={"quota": Quota(writes_per_minute=3)})
    await connect("operator").put_principal(body)
    assert store.principal(body.subject.username) == body
    assert (await connect("operator").list_principals()).principals == (body,)


async def test_writer_beyond_its_share_gets_429_and_others_go_on(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    headers = {"Authorization": "Bearer limited"}
    answers = [
        await http.post("/v1/facts", json={"content": f"fact {n}"}, headers=headers)
        for n in range(4)
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert answers[3].json()["code"] == "quota-exceeded"
    assert "may have 3 writes a minute" in answers[3].json()["detail"]
    assert 1 <= int(answers[3].headers["retry-after"]) <= 60
    assert (await connect("peer").remember(FactIn(content="x"))).status == "created"
    assert (await http.get("/v1/facts", headers=headers)).status_code == 200


@pytest.mark.parametrize("query", ["", "?dry_run"])
@pytest.mark.parametrize("subject", [None, "sky"], ids=["plain", "with a key"])
async def test_facts_of_a_batch_are_counted_one_by_one(
    http: httpx.AsyncClient, query: str, subject: str | None
) -> None:
    headers = {"Authorization": "Bearer telling"}
    keyed = {"subject": subject, "predicate": "is"} if subject else {}
    facts = [{"content": f"fact {n}", **keyed} for n in range(2)]
    statuses = []
    for path, body in (("/v1/facts:batch", {"facts": facts}), ("/v1/facts", facts[0])):
        for _ in range(2):
            answer = await http.post(path + query, json=body, headers=headers)
            statuses.append(answer.status_code)
    created = 200 if query else 201
    assert statuses[:2] == [created, 429]
    assert statuses[2] < 300, "one fact is left of the share"
    assert statuses[3] == 429
    assert answer.json()["code"] == "quota-exceeded"
    assert "may have 3 facts a minute" in answer.json()["detail"]
    assert 1 <= int(answer.headers["retry-after"]) <= 60


async def test_reader_beyond_its_share_gets_429_and_may_still_write(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    headers = {"Authorization": "Bearer reading"}
    paths = ("/v1/facts", "/v1/facts/unknown", "/v1/whoami", "/v1/scopes")
    answers = [await http.get(path, headers=headers) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 404, 200, 429]
    assert answers[3].json()["code"] == "quota-exceeded"
    assert "may have 3 reads a minute" in answers[3].json()["detail"]
    assert 1 <= int(answers[3].headers["retry-after"]) <= 60
    response = await http.post("/v1/facts", json={"content": "x"}, headers=headers)
    assert response.status_code == 201
    assert (await connect("peer").whoami()).name == "demo/lead-1"
    assert (await http.get("/readyz")).status_code == 200


def test_fact_with_the_number_of_an_erased_adopted_one_stays_where_it_was_told(
    tmp_path: Path,
) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    store.remember([new_fact("rain of old days", LEAD)], actor=PERSON)
    store.delete_scope(LEAD, actor=OPERATOR)
    (moved,) = store.remember([new_fact("rain of today", LEAD)], actor=PERSON)
    store.adopt_scope(LEAD, actor=OPERATOR)
    store.erase(moved.fact_id, ActionContext(PERSON, "asked for"))
    store.remember([new_fact("wind of others", OTHER)], actor=PERSON)
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
