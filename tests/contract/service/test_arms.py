"""Runs in the arms off and holdout: no way of asking gets facts, and receipts say why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    ActAs,
    Arm,
    CellAddress,
    ChartIn,
    FactIn,
    Grant,
    GraphEntitiesIn,
    GraphNamesIn,
    PrincipalIn,
    RecallIn,
    Subject,
    TicketIn,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Store
from tests.contract.service import test_mcp
from tests.contract.service.callers import CALLERS, Connect, refused
from tests.contract.service.test_agent_runtime import ANSWER, RECALL, pod, tool_texts
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import LEAD, TEAM, run_in

CODE = errors.ErrorCode
QUESTION = RecallIn(query="rain")
HOLDOUT = "run r-held is in the arm holdout, which gets no knowledge"
CELLS = {"held": "team-a1", "served": "team-b2"}


def account(formation: str, cell: str) -> str:
    return f"system:serviceaccount:demo:{formation}-{cell}"


def cell_of(formation: str, cell: str) -> Principal:
    """Return a cell of one use; the uses of a Blueprint share the home of their cells."""
    name, home = f"demo/{formation}-{cell}", f"{TEAM}/cell:{cell}"
    grants = (Grant(scope=TEAM, verbs=("read", "remember")),)
    return Principal(name, "agent", home, grants, memory=TEAM, subject=account(formation, cell))


@pytest.fixture
async def cells(store: Store) -> Connect:
    """Connect as the operator, or as cells of two uses of one Blueprint, of which one is held."""
    uses = {
        f"{arm} {cell}": cell_of(formation, cell)
        for arm, formation in CELLS.items()
        for cell in ("lead-0", "worker-0")
    }
    app = create_app(store, NamedCallers(CALLERS | uses))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def connect(name: str) -> AsyncKnowledgeClient:
        return AsyncKnowledgeClient("http://service", token=name, transport=transport)

    operator = connect("operator")
    for use in uses.values():
        formation, cell = use.name.removeprefix("demo/")[:7], use.home.rpartition(":")[2]
        address = CellAddress(formation=formation, cell=cell, peers=("lead-*", "worker-*"))
        await operator.put_principal(
            PrincipalIn(
                name=use.name,
                type="agent",
                subject=Subject(username=use.subject),
                home=use.home,
                address=address,
            )
        )
    await operator.remember(FactIn(content="rain needs a coat", scope=TEAM))
    await operator.put_run("r-held", run_in(arm="holdout", formation="team-a1"))
    await operator.put_run("r-served", run_in(formation="team-b2"))
    return connect


@pytest.mark.parametrize("arm", ["off", "holdout"])
@pytest.mark.parametrize("name", ["lead", "operator", "ada"])
async def test_recall_for_a_run_without_knowledge_gets_no_facts_and_a_receipt_that_says_why(
    connect: Connect, name: str, arm: Arm
) -> None:
    operator = connect("operator")
    await operator.remember(FactIn(content="rain needs a coat", scope=TEAM))
    await operator.put_run("r", run_in(arm=arm))
    answer = await connect(name).recall(RecallIn(query="rain", run="r"))
    reasons = (f"run r is in the arm {arm}, which gets no knowledge",)
    assert (answer.facts, answer.reasons) == ((), reasons)
    assert answer.receipt is not None
    receipt = await operator.get_receipt(answer.receipt)
    assert (receipt.run, receipt.facts, receipt.reasons) == ("r", (), reasons)


async def test_run_with_knowledge_gets_it_and_has_no_reasons(cells: Connect) -> None:
    answer = await cells("served lead-0").recall(RecallIn(query="rain", run="r-served"))
    assert [fact.content for fact in answer.facts] == ["rain needs a coat"]
    assert answer.reasons == ()


async def test_operator_that_asks_for_a_cell_gets_no_facts_either(cells: Connect) -> None:
    whom = ActAs(namespace="demo", service_account="team-a1-lead-0")
    question = RecallIn(query="rain", run="r-held", act_as=whom)
    assert (await cells("operator").recall(question)).reasons == (HOLDOUT,)


async def test_cell_leaves_its_arm_neither_by_naming_no_run_nor_by_naming_another(
    cells: Connect,
) -> None:
    held, name = cells("held lead-0"), "demo/team-a1-lead-0"
    await cells("operator").put_run("r-past", run_in(formation="team-a1", outcome="Succeeded"))
    await held.put_run("r-mine", run_in(kind="session", scope=LEAD))
    assert (await held.recall(QUESTION)).reasons == (HOLDOUT,)
    for other in ("r-served", "r-past", "r-mine"):
        answer = await held.recall(RecallIn(query="rain", run=other))
        assert answer.facts == ()
        assert answer.reasons == (
            f"{HOLDOUT}; without a ticket, {name} may work for it as well as for {other}",
        )


async def test_other_uses_of_the_blueprint_keep_their_knowledge(cells: Connect) -> None:
    assert (await cells("served worker-0").recall(QUESTION)).facts != ()


async def test_cell_gets_facts_again_when_the_run_has_ended(cells: Connect) -> None:
    await cells("operator").put_run("r-held", run_in(formation="team-a1", outcome="Succeeded"))
    assert (await cells("held lead-0").recall(QUESTION)).facts != ()


async def test_arm_of_a_run_never_changes(cells: Connect) -> None:
    changed = await cells("operator").put_run("r-held", run_in(arm="on", formation="team-a1"))
    assert changed.arm == "holdout"
    changed = await cells("operator").put_run("r-served", run_in(arm="off", formation="team-b2"))
    assert changed.arm == "on"


async def test_session_of_an_agent_withholds_nothing_from_its_team(cells: Connect) -> None:
    await cells("served lead-0").put_run("s", run_in(kind="session", scope=LEAD, arm="holdout"))
    assert (await cells("served lead-0").recall(QUESTION)).facts != ()


async def test_peer_gets_no_facts_under_a_ticket_of_the_run_or_without_one(cells: Connect) -> None:
    to_lead = TicketIn(to=account("team-a1", "lead-0"), run_id="r-held", arm="on")
    first = await cells("operator").issue_ticket(to_lead)
    assert (await cells("held lead-0").verify_ticket(first.ticket)).arm == "holdout"
    to_peer = TicketIn(to="worker-0", ticket=first.ticket)
    second = await cells("held lead-0").issue_ticket(to_peer)
    for ticket in (second.ticket, None):
        question = RecallIn(query="rain", ticket=ticket)
        answer = await cells("held worker-0").recall(question)
        assert (answer.facts, answer.reasons) == ((), (HOLDOUT,))


async def test_cell_that_serves_two_runs_gets_facts_under_the_ticket_of_the_one_with_knowledge(
    cells: Connect,
) -> None:
    operator, lead = cells("operator"), cells("held lead-0")
    await operator.put_run("r-both", run_in(formation="team-a1"))
    ticket = await operator.issue_ticket(TicketIn(to=account("team-a1", "lead-0"), run_id="r-both"))
    question = RecallIn(query="rain", run="r-both", ticket=ticket.ticket)
    assert (await lead.recall(question)).facts != ()
    assert (await lead.recall(question.model_copy(update={"run": "r-held"}))).facts == ()
    await operator.put_run("r-both", run_in(formation="team-a1", outcome="Succeeded"))
    await refused(lead.recall(question), CODE.FORBIDDEN)


async def test_ticket_of_another_cell_serves_no_recall(cells: Connect) -> None:
    ticket = await cells("operator").issue_ticket(
        TicketIn(to=account("team-b2", "lead-0"), run_id="r-served")
    )
    recall = cells("held lead-0").recall(RecallIn(query="rain", ticket=ticket.ticket))
    await refused(recall, CODE.FORBIDDEN)


async def test_ticket_of_a_person_is_no_way_out_of_the_arm(cells: Connect) -> None:
    lead = cells("held lead-0")
    ticket = await cells("gardener").issue_ticket(TicketIn(to=account("team-a1", "lead-0")))
    answer = await lead.recall(RecallIn(query="rain", ticket=ticket.ticket))
    assert answer.reasons == (HOLDOUT,)


async def test_lists_graph_aliases_and_charts_are_empty_and_single_facts_do_not_exist(
    cells: Connect,
) -> None:
    operator, held = cells("operator"), cells("held lead-0")
    names = GraphNamesIn(names=("umbrella",))
    fact = (await operator.list_facts(scope=TEAM)).facts[0].id
    gardener = cells("gardener")
    await gardener.create_entities(
        GraphEntitiesIn.model_validate(
            {"entities": [{"name": "umbrella", "entityType": "tool", "observations": ["dry"]}]}
        )
    )
    chart = await gardener.create_chart(
        ChartIn(
            desired_outcome="dry", current_reality="wet", due_date=datetime(2030, 1, 1, tzinfo=UTC)
        )
    )
    served = cells("served lead-0")
    assert (await served.list_facts()).facts != ()
    assert (await served.open_entities(names)).entities != ()
    assert (await served.list_charts()).charts != ()
    assert (await held.list_facts()).facts == ()
    assert (await held.read_graph()).entities == ()
    assert (await held.read_graph(contains="umbrella")).entities == ()
    assert (await held.open_entities(names)).entities == ()
    assert (await held.list_aliases("graph")).aliases == ()
    assert (await held.list_charts()).charts == ()
    for call in (
        held.get_fact(fact),
        held.why(fact),
        held.history(fact),
        held.impact(fact),
        held.neighbors(fact),
        held.list_links(fact),
        held.get_chart(chart.id),
    ):
        detail = await refused(call, CODE.NOT_FOUND)
        assert detail == f"no facts are accessible to demo/team-a1-lead-0: {HOLDOUT}"


async def test_cell_of_a_holdout_remembers_and_corrects_as_others_do(cells: Connect) -> None:
    held = cells("held lead-0")
    stored = await held.remember(FactIn(content="hail needs a helmet", run="r-held"))
    assert stored.status == "created"
    assert (await cells("served lead-0").recall(RecallIn(query="hail"))).facts != ()


async def test_tools_of_the_mcp_endpoint_get_no_facts_and_say_why(store: Store) -> None:
    async with test_mcp.serving(store) as service:
        operator = service.rest("operator")
        stored = await operator.remember(FactIn(content="rain needs a coat", scope=TEAM))
        await operator.put_run("r-held", run_in(arm="holdout", formation="team-a1"))
        async with service.mcp("lead") as lead:
            answer = await test_mcp.called(lead, "recall", query="rain")
            assert (answer["facts"], answer["reasons"]) == ([], [HOLDOUT])
            text = (await lead.call_tool("recall", {"query": "rain"})).content[0]
            assert text.text == f"No facts: {HOLDOUT}."  # type: ignore[union-attr]
            _, text = await test_mcp.failed(lead, "why", fact_id=stored.fact_id)
            assert HOLDOUT in text


async def test_older_interface_gets_no_facts(connect: Connect, http: httpx.AsyncClient) -> None:
    operator = connect("operator")
    await operator.remember(FactIn(content="rain needs a coat", scope=TEAM))
    await operator.put_run("r-held", run_in(arm="holdout", formation="team-a1"))
    answer = await http.post(
        "/recall", json={"query": "rain"}, headers={"Authorization": "Bearer lead"}
    )
    assert answer.json() == []
    receipt = await operator.get_receipt(answer.headers["Kais-Receipt"])
    assert receipt.reasons == (HOLDOUT,)


async def test_mind_hears_why_its_tool_recalls_nothing(
    tmp_path: Path, connect: Connect, transport: httpx.ASGITransport
) -> None:
    operator = connect("operator")
    await operator.remember(FactIn(content="the build needs Go", scope=TEAM))
    await operator.put_run("run-1", run_in(arm="holdout"))
    world = pod(tmp_path, transport, RECALL.format(scope="all") + ANSWER)
    await world.run()
    expected = "no facts: run run-1 is in the arm holdout, which gets no knowledge"
    assert tool_texts(world) == [expected]


async def test_replay_of_a_withheld_recall_is_equal_and_explains_itself(cells: Connect) -> None:
    operator = cells("operator")
    answer = await cells("held lead-0").recall(RecallIn(query="rain", run="r-held"))
    assert answer.receipt is not None
    assert (await operator.replay(answer.receipt)).equal
    fact = (await operator.list_facts(scope=TEAM)).facts[0].id
    question = RecallIn(query="rain", run="r-held", why_not=(fact,))
    [explained] = (await cells("operator").recall(question)).why_not
    assert (explained.stage, explained.why) == ("off", HOLDOUT)
