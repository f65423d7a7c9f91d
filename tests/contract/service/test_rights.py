from __future__ import annotations

import base64

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    ActAs,
    CorrectIn,
    EpisodesIn,
    ExtractionIn,
    FactIn,
    Grant,
    PrincipalIn,
    RecallIn,
    ScopeConfig,
    Subject,
)
from knowledge_service import clock
from knowledge_service.ports import Store
from tests.contract.service.callers import PEER, Connect, refused, registration
from tests.knowledge_builders import LEAD, OTHER, TEAM, episode, run_in

CODE = errors.ErrorCode


async def test_cell_writes_home_by_default_and_nowhere_else(connect: Connect) -> None:
    lead = connect("lead")
    remembered = await lead.remember(FactIn(content="mine"))
    assert (await lead.get_fact(remembered.fact_id)).scope == LEAD
    detail = await refused(lead.remember(FactIn(content="x", scope=TEAM)), CODE.FORBIDDEN)
    assert detail == f"demo/lead-0 may read {TEAM} but lacks the verb 'remember' there"


async def test_scope_outside_is_refused_alike_whether_it_exists_or_not(connect: Connect) -> None:
    await connect("operator").put_scope(OTHER, ScopeConfig())
    lead = connect("lead")
    nowhere = "realm:nowhere"
    for path in (OTHER, nowhere, PEER):
        expected_message = f"scope {path} is not accessible to you"
        fact = FactIn(content="x", scope=path)
        assert await refused(lead.remember(fact), CODE.SCOPE_FORBIDDEN) == expected_message
        question = RecallIn(query="x", scopes=(path,))
        assert await refused(lead.recall(question), CODE.SCOPE_FORBIDDEN) == expected_message
        assert await refused(lead.list_facts(scope=path), CODE.SCOPE_FORBIDDEN) == expected_message
        assert await refused(lead.get_scope(path), CODE.SCOPE_FORBIDDEN) == expected_message


async def test_invisible_fact_is_the_same_404_as_a_missing_one_to_the_byte(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    remembered = await connect("stranger").remember(FactIn(content="secret"))
    as_lead = {"Authorization": "Bearer lead"}
    response = await http.get(f"/v1/facts/{remembered.fact_id}", headers=as_lead)
    missing_id = "0" * 8 + remembered.fact_id[8:]
    missing = await http.get(f"/v1/facts/{missing_id}", headers=as_lead)
    assert (response.status_code, missing.status_code) == (404, 404)
    assert (
        response.content.replace(remembered.fact_id.encode(), missing_id.encode())
        == missing.content
    )
    assert response.headers["content-type"] == "application/problem+json"


async def test_readable_fact_of_the_team_is_corrected_by_who_may_write_there(
    connect: Connect,
) -> None:
    remembered = await connect("ada").remember(
        FactIn(content="the build needs Java 21", scope=TEAM)
    )
    correction = CorrectIn(reason="old")
    detail = await refused(connect("lead").correct(remembered.fact_id, correction), CODE.FORBIDDEN)
    assert detail == f"demo/lead-0 may read fact {remembered.fact_id} but not correct it"
    assert (
        await connect("ada").correct(remembered.fact_id, correction)
    ).fact_id == remembered.fact_id
    lost = connect("stranger").correct(remembered.fact_id, correction)
    await refused(lost, CODE.NOT_FOUND)


async def test_read_only_scope_takes_no_writes(connect: Connect) -> None:
    await connect("operator").put_scope(LEAD, ScopeConfig(read_only=True))
    detail = await refused(connect("lead").remember(FactIn(content="x")), CODE.SCOPE_READ_ONLY)
    assert detail == f"scope {LEAD} is read-only; its KnowledgeScope says so"


async def test_without_a_good_token_nobody_is_served(http: httpx.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic bGVhZA=="}):
        answer = await http.get("/v1/whoami", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_unregistered_caller_is_told_to_come_again(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/whoami", headers={"Authorization": "Bearer unregistered"})
    assert (answer.status_code, answer.json()["code"]) == (403, "principal-unregistered")
    assert answer.headers["retry-after"] == "2"


class TestRunsOfOthers:
    async def test_cell_speaks_of_its_formations_runs_only(self, connect: Connect) -> None:
        await connect("operator").put_run("own", run_in(mission="m-1"))
        await connect("operator").put_run("theirs", run_in(namespace="other", scope=OTHER))
        lead = connect("lead")
        remembered = await lead.remember(FactIn(content="learnt", run="own"))
        refs = [(ref.type, ref.id) for ref in (await lead.get_fact(remembered.fact_id)).source.refs]
        assert refs == [("mission", "demo/m-1"), ("run", "own")]
        lines = (episode(),)
        assert (await lead.add_episodes(EpisodesIn(run_id="own", episodes=lines))).accepted == 1
        for run_id in ("theirs", "nobody"):
            expected_message = f"run {run_id} does not exist or is not yours"
            fact = FactIn(content="x", run=run_id)
            assert await refused(lead.remember(fact), CODE.NOT_FOUND) == expected_message
            posted = lead.add_episodes(EpisodesIn(run_id=run_id, episodes=lines))
            assert await refused(posted, CODE.NOT_FOUND) == expected_message
            coroutine = lead.recall(RecallIn(query="x", run=run_id))
            assert await refused(coroutine, CODE.NOT_FOUND) == expected_message
            assert await refused(lead.get_run(run_id), CODE.NOT_FOUND) == expected_message

    async def test_cell_neither_opens_nor_closes_runs_nor_extracts(self, connect: Connect) -> None:
        lead = connect("lead")
        await refused(lead.put_run("r", run_in()), CODE.FORBIDDEN)
        await connect("operator").put_run("r", run_in(outcome="Failed"))
        await refused(lead.start_extraction(ExtractionIn(run_id="r")), CODE.FORBIDDEN)
        await refused(connect("stranger").put_run("r", run_in()), CODE.SCOPE_FORBIDDEN)

    async def test_run_lies_in_its_own_namespace(self, connect: Connect) -> None:
        detail = await refused(
            connect("operator").put_run("r", run_in(namespace="elsewhere")), CODE.INVALID_BODY
        )
        assert detail == "run r has a scope of another realm"


class TestPrincipals:
    async def test_are_registered_by_administrators(self, connect: Connect) -> None:
        await refused(connect("lead").put_principal(registration()), CODE.FORBIDDEN)
        await refused(connect("ada").put_principal(registration()), CODE.FORBIDDEN)
        await connect("keeper").put_principal(registration())
        assert (await connect("operator").list_principals()).principals == (registration(),)
        assert (await connect("lead").list_principals()).principals == ()
        await refused(
            connect("lead").delete_principal(registration().subject.username), CODE.NOT_FOUND
        )
        await connect("operator").delete_principal(registration().subject.username)
        assert (await connect("operator").list_principals()).principals == ()

    async def test_nobody_grants_what_it_does_not_administer(self, connect: Connect) -> None:
        below = Grant(scope="realm:demo", subtree=True, verbs=("read",))
        settled = await connect("keeper").put_principal(registration(LEAD, below))
        assert settled.grants == (below,)
        wide = Grant(scope="platform", subtree=True, verbs=("read",))
        await refused(connect("keeper").put_principal(registration(LEAD, wide)), CODE.FORBIDDEN)
        await refused(
            connect("keeper").put_principal(registration("realm:other")), "scope-forbidden"
        )

    async def test_who_administers_a_realm_alone_grants_nothing_below_it(
        self, connect: Connect
    ) -> None:
        own_principal = registration("realm:demo", Grant(scope="realm:demo", verbs=("admin",)))
        assert (await connect("warden").put_principal(own_principal)).grants == own_principal.grants
        below = Grant(scope="realm:demo", subtree=True, verbs=("admin",))
        expected_coroutine = connect("warden").put_principal(registration("realm:demo", below))
        detail = await refused(expected_coroutine, CODE.FORBIDDEN)
        assert detail == "warden may not grant all below realm:demo"

    async def test_who_administers_a_realm_alone_adopts_nothing_below_it(
        self, connect: Connect
    ) -> None:
        reported_detail = await refused(connect("warden").adopt_scope("realm:demo"), CODE.FORBIDDEN)
        assert reported_detail == "warden administers realm:demo but not all below it"

    async def test_account_of_another_namespace_is_given_no_home_here(
        self, connect: Connect
    ) -> None:
        theirs = Subject(username="system:serviceaccount:other:x", uid="u-2")
        moved = registration().model_copy(update={"subject": theirs})
        message = await refused(connect("keeper").put_principal(moved), CODE.FORBIDDEN)
        assert message.startswith(
            "system:serviceaccount:other:x is not a ServiceAccount of realm:demo;"
        )
        await connect("operator").put_principal(moved)

    async def test_whoami_tells_mode_rights_and_store(self, connect: Connect, store: Store) -> None:
        identity = await connect("ada").whoami()
        assert (identity.name, identity.type, identity.home, identity.mode) == (
            "ada",
            "human",
            "realm:demo",
            "token",
        )
        assert identity.grants[0].verbs == ("read", "write")
        assert identity.store == store.identity()


class TestActAs:
    question = RecallIn(query="java", act_as=ActAs(namespace="demo", service_account="lead-0"))

    async def test_gives_exactly_the_cells_view(self, connect: Connect) -> None:
        await connect("operator").put_principal(registration())
        for name in ("lead", "peer", "stranger"):
            await connect(name).remember(FactIn(content=f"java says {name}"))
        known_at = clock.now()  # the age of facts is counted from then
        recall_request = self.question.model_copy(update={"known_at": known_at})
        answer = await connect("operator").recall(recall_request)
        assert [fact.content for fact in answer.facts] == ["java says lead"]
        own_result = await connect("lead").recall(RecallIn(query="java", known_at=known_at))
        assert [(f.id, f.score) for f in own_result.facts] == [
            (f.id, f.score) for f in answer.facts
        ]
        assert own_result.scopes == answer.scopes == (LEAD, TEAM, "realm:demo", "platform")

    async def test_is_for_administrators(self, connect: Connect) -> None:
        detail = await refused(connect("lead").recall(self.question), CODE.FORBIDDEN)
        assert detail == "demo/lead-0 may not impersonate principals of realm:demo"

    async def test_needs_rights_over_all_that_the_cell_sees(self, connect: Connect) -> None:
        await connect("operator").put_principal(registration())
        reported_detail = await refused(connect("warden").recall(self.question), CODE.FORBIDDEN)
        assert reported_detail == "warden may not impersonate principals of realm:demo"
        assert (await connect("keeper").recall(self.question)).scopes
        elsewhere = Grant(scope=OTHER, verbs=("read",))
        await connect("operator").put_principal(registration(LEAD, elsewhere))
        reported_detail = await refused(connect("keeper").recall(self.question), CODE.FORBIDDEN)
        assert reported_detail == f"keeper may not impersonate a principal that can read {OTHER}"
        assert (await connect("operator").recall(self.question)).scopes

    async def test_needs_a_registration(self, connect: Connect) -> None:
        message = await refused(connect("operator").recall(self.question), CODE.NOT_FOUND)
        assert message.startswith("system:serviceaccount:demo:lead-0 is not registered;")


async def test_receipt_is_for_its_reader_and_who_was_granted_the_scope(connect: Connect) -> None:
    receipt = (await connect("lead").recall(RecallIn(query="java"), idempotency_key="k")).receipt
    assert receipt is not None
    assert (await connect("lead").get_receipt(receipt)).principal == "demo/lead-0"
    assert (await connect("ada").get_receipt(receipt)).id == receipt
    for name in ("peer", "stranger"):
        detail = await refused(connect(name).get_receipt(receipt), CODE.NOT_FOUND)
        assert detail == f"receipt {receipt} does not exist or is not visible to you"


class TestAttackers:
    async def test_writer_of_one_realm_learns_nothing_of_anothers_run(
        self, connect: Connect
    ) -> None:
        theirs = run_in(namespace="other", scope=OTHER, outcome="Failed")
        await connect("operator").put_run("theirs", theirs)
        assert await refused(connect("ada").get_run("theirs"), CODE.NOT_FOUND) == (
            "run theirs does not exist or is not yours"
        )
        opened = await connect("ada").put_run("theirs", run_in(kind="import", outcome="Succeeded"))
        assert (opened.namespace, opened.outcome) == ("demo", "Succeeded")
        other_run = await connect("operator").get_run("theirs", namespace="other")
        assert (other_run.scope, other_run.outcome) == (OTHER, "Failed")

    async def test_cell_at_home_in_its_formation_decides_no_outcome(self, connect: Connect) -> None:
        await connect("operator").put_run("r", run_in())
        detail = await refused(
            connect("team").put_run("r", run_in(outcome="Succeeded")), "forbidden"
        )
        assert detail == (
            "demo/shared is an agent; missions are opened and closed by the operator,"
            " agents report events as episodes"
        )

    async def test_anothers_run_is_no_cursor(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        await connect("operator").put_run("own", run_in())
        theirs = run_in(namespace="other", scope=OTHER)
        await connect("operator").put_run("theirs", theirs)
        answers = []
        for run_id in ("theirs", "nobody"):
            cursor = base64.urlsafe_b64encode(f"1:{run_id}".encode()).decode()
            headers = {"Authorization": "Bearer ada"}
            answers.append(await http.get(f"/v1/runs?cursor={cursor}", headers=headers))
        assert answers[0].status_code == answers[1].status_code == 422
        assert answers[0].text == answers[1].text

    async def test_registration_of_another_realm_is_not_taken_over(self, connect: Connect) -> None:
        subject = Subject(username="system:serviceaccount:other:x")
        theirs = PrincipalIn(name="other/x", type="agent", subject=subject, home="realm:other")
        await connect("operator").put_principal(theirs)
        mine = theirs.model_copy(update={"home": "realm:demo"})
        reported_detail = await refused(connect("keeper").put_principal(mine), CODE.FORBIDDEN)
        assert reported_detail.startswith(
            "system:serviceaccount:other:x is not a ServiceAccount of realm:demo;"
        )
        assert (await connect("operator").list_principals()).principals == (theirs,)

    async def test_person_of_another_realm_is_not_taken_over(self, connect: Connect) -> None:
        theirs = PrincipalIn(
            name="eve", type="human", subject=Subject(username="eve"), home="realm:other"
        )
        await connect("operator").put_principal(theirs)
        mine = theirs.model_copy(update={"home": "realm:demo"})
        message = await refused(connect("keeper").put_principal(mine), CODE.FORBIDDEN)
        assert message.startswith("eve is not a ServiceAccount of realm:demo;")
        assert (await connect("operator").list_principals()).principals == (theirs,)

    @pytest.mark.parametrize(
        "username",
        ["eve", "kubernetes-admin", "system:serviceaccount:demo", "system:serviceaccounts:demo:x"],
    )
    async def test_administrator_of_a_realm_registers_no_name_but_its_serviceaccounts(
        self, connect: Connect, username: str
    ) -> None:
        subject = Subject(username=username)
        eve = PrincipalIn(name="eve", type="human", subject=subject, home="realm:demo")
        refusal = await refused(connect("keeper").put_principal(eve), CODE.FORBIDDEN)
        assert refusal == (
            f"{username} is not a ServiceAccount of realm:demo;"
            " only administrators of the platform register other names"
        )
        assert (await connect("operator").list_principals()).principals == ()
        assert (await connect("operator").put_principal(eve)).home == "realm:demo"


AS_AGENT = {"Authorization": "Bearer keeper", "Kais-Speak-As": "agent"}


class TestSpeakingAsAnAgent:
    async def test_person_sees_no_drafts_and_reviews_nothing(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        draft = FactIn(content="a claim", scope="realm:demo", review="draft")
        fact = (await connect("keeper").remember(draft)).fact_id
        response = await http.get(f"/v1/facts/{fact}", headers=AS_AGENT)
        assert (response.status_code, response.json()["code"]) == (404, "not-found")
        approved = await http.post(
            f"/v1/facts/{fact}:approve", json={"reason": "x"}, headers=AS_AGENT
        )
        assert approved.status_code == 403
        identity = (await http.get("/v1/whoami", headers=AS_AGENT)).json()
        assert identity["type"] == "agent"
        stored = {"content": "from an agent", "scope": "realm:demo"}
        assert (await http.post("/v1/facts", json=stored, headers=AS_AGENT)).is_success

    async def test_nobody_speaks_as_anything_else(self, http: httpx.AsyncClient) -> None:
        headers = {"Authorization": "Bearer lead", "Kais-Speak-As": "human"}
        answer = await http.get("/v1/facts", headers=headers)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "the header Kais-Speak-As may only be 'agent'"
