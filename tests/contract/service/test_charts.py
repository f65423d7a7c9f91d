"""Structural tension charts: what is to exist, what is true now, and the steps between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    ActionStepIn,
    AddedStepIn,
    Chart,
    ChartChanges,
    ChartIn,
    FactIn,
    GraphNamesIn,
    GraphObservationsIn,
    GraphRelationsIn,
    ReasonIn,
    RecallIn,
    ReviseIn,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)
from knowledge_service.errors import NotFound
from knowledge_service.ports import Store
from knowledge_service.use_cases import charts
from knowledge_service.use_cases.graph import entities
from knowledge_service.use_cases.operations import Performer
from tests.contract.service.callers import CALLERS, Connect, refused
from tests.knowledge_builders import LEAD, TEAM, run_in

CODE = errors.ErrorCode
DUE = datetime(2030, 5, 1, tzinfo=UTC)


async def created(client: AsyncKnowledgeClient, *steps: str, **fields: object) -> Chart:
    chart = {
        "desired_outcome": "Five songs on the guitar",
        "current_reality": "I have never played an instrument.",
        "due_date": DUE,
        "action_steps": [ActionStepIn(title=each) for each in steps],
        **fields,
    }
    return await client.create_chart(ChartIn.model_validate(chart))


async def test_a_chart_has_an_outcome_a_reality_and_steps(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    assert chart.desired_outcome == "Five songs on the guitar"
    assert chart.current_reality == ("I have never played an instrument.",)
    assert [step.title for step in chart.action_steps] == ["Buy a guitar", "Find a teacher"]
    first, second = (step.due_date for step in chart.action_steps)
    assert first is not None and second is not None  # noqa: PT018
    assert first < second < DUE
    assert (chart.phase, chart.progress, chart.level) == ("germination", 0, 0)
    assert (chart.next_step, chart.advice) == (chart.action_steps[0].name, ())
    assert chart.scope == LEAD
    assert await lead.get_chart(chart.id) == chart
    assert (await lead.list_charts()).charts == (chart,)


async def test_a_chart_is_a_part_of_the_graph(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    graph = await lead.read_graph(outgoing=True)
    assert sorted(entity.name.removeprefix(chart.id) for entity in graph.entities) == [
        "_action_1", "_chart", "_current_reality", "_desired_outcome",
    ]  # fmt: skip
    assert sorted(each.relation_type for each in graph.relations) == [
        "advances_toward", "contains", "contains", "contains", "creates_tension_with",
    ]  # fmt: skip
    metadata = next(e.metadata for e in graph.entities if e.entity_type == "action_step")
    assert metadata["chartId"] == chart.id
    assert metadata["completionStatus"] is False
    recalled = await lead.recall(RecallIn(query="who never played an instrument?"))
    assert "I have never played an instrument." in [fact.content for fact in recalled.facts]


async def test_a_completed_step_flows_into_the_current_reality(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    first, second = chart.action_steps
    after = await lead.complete_step(StepIn(step=first.name))
    assert after.current_reality[1:] == ("Completed: Buy a guitar",)
    assert (after.phase, after.progress, after.completed) == ("assimilation", 0.5, False)
    assert after.next_step == second.name
    message = await refused(lead.complete_step(StepIn(step=first.name)), CODE.CONFLICT)
    assert message == f"'{first.name}' is complete already"
    done = await lead.complete_step(StepIn(step=second.name))
    assert (done.phase, done.progress, done.completed) == ("completion", 1, True)
    assert (await lead.list_charts()).charts == ()
    assert (await lead.list_charts(completed=True)).charts == (done,)
    relations = (await lead.read_graph(outgoing=True)).relations
    assert [each.from_ for each in relations if each.relation_type == "flows_into"] == [
        first.name, second.name,
    ]  # fmt: skip


async def test_a_telescoped_chart_flows_into_its_parent(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Find a teacher", "Practise")
    step = chart.action_steps[0]
    telescope = TelescopeIn(
        step=step.name,
        current_reality="I know no teacher.",
        action_steps=(ActionStepIn(title="Ask friends"),),
    )
    below = await lead.telescope_step(telescope)
    assert (below.desired_outcome, below.level) == ("Find a teacher", 1)
    assert (below.parent_chart, below.parent_step) == (chart.id, step.name)
    assert below.due_date == step.due_date
    assert (await lead.get_chart(chart.id)).action_steps[0].chart == below.id
    await lead.complete_step(StepIn(step=below.action_steps[0].name))
    above = await lead.get_chart(chart.id)
    assert above.current_reality[1:] == ("Completed: Find a teacher",)
    assert [each.completed for each in above.action_steps] == [True, False]
    assert (await lead.get_chart(below.id)).completed


async def test_one_act_is_one_operation_with_one_undo(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    await lead.complete_step(StepIn(step=chart.action_steps[0].name))
    (entity,) = (await lead.open_entities(GraphNamesIn(names=(chart.name,)))).entities
    await lead.undo(entity.id, ReasonIn(reason="by mistake"))
    assert await lead.get_chart(chart.id) == chart


async def test_a_chart_is_changed(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    changes = ChartChanges(
        desired_outcome="Ten songs", current_reality=("I own a guitar.",), phase="completion"
    )
    changed = await lead.change_chart(chart.id, changes)
    assert (changed.desired_outcome, changed.phase) == ("Ten songs", "completion")
    assert changed.current_reality[1:] == ("I own a guitar.",)
    more = await lead.add_step(chart.id, ActionStepIn(title="Sing", due_date=DUE))
    assert (more.action_steps[1].name, more.action_steps[1].due_date) == (
        f"{chart.id}_action_2", DUE,
    )  # fmt: skip
    progress = StepProgressIn(
        step=more.action_steps[1].name, observation="I sing in the shower.", in_reality=True
    )
    after = await lead.record_progress(progress)
    assert after.action_steps[1].progress == ("I sing in the shower.",)
    assert after.current_reality[2:] == ("I sing in the shower.",)
    rest = await lead.remove_step(chart.id, StepIn(step=chart.action_steps[0].name))
    assert [step.title for step in rest.action_steps] == ["Sing"]


async def test_progress_begins_the_assimilation_and_germination_can_be_set_again(
    connect: Connect,
) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    progress = StepProgressIn(step=chart.action_steps[0].name, observation="Two shops are open.")
    assert (await lead.record_progress(progress)).phase == "assimilation"
    changed = await lead.change_chart(chart.id, ChartChanges(phase="germination"))
    assert (changed.phase, changed.progress) == ("germination", 0)


async def test_charts_that_are_due_are_listed(connect: Connect) -> None:
    lead = connect("lead")
    late = await created(lead, due_date=DUE + timedelta(days=30))
    soon = await created(lead)
    assert (await lead.list_charts(due_before=DUE)).charts == (soon,)
    assert len((await lead.list_charts(due_before=late.due_date)).charts) == 2
    page = await lead.list_charts(limit=1)
    assert page.charts == (soon,)
    assert (await lead.list_charts(limit=1, cursor=page.cursor)).charts == (late,)


async def test_advice_refuses_nothing(connect: Connect) -> None:
    chart = await created(
        connect("lead"), desired_outcome="Fix the noise", current_reality="Ready to start"
    )
    outcome, reality = chart.advice
    assert "speaks of a problem (fix)" in outcome
    assert "speaks of readiness (ready to)" in reality


async def test_a_step_is_telescoped_once_and_never_into_itself(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    step = chart.action_steps[0].name
    itself = TelescopeIn(step=f"{chart.id}_desired_outcome", current_reality="x")
    assert "cannot be telescoped into itself" in await refused(
        lead.telescope_step(itself), CODE.CONFLICT
    )
    below = await lead.telescope_step(TelescopeIn(step=step, current_reality="x"))
    again = await refused(
        lead.telescope_step(TelescopeIn(step=step, current_reality="x")), CODE.CONFLICT
    )
    assert again == f"'{step}' was telescoped into chart {below.id} already"
    rest = await lead.remove_step(chart.id, StepIn(step=step))
    assert rest.action_steps == ()
    assert [each.id for each in (await lead.list_charts()).charts] == [chart.id]


async def test_what_is_missing_or_hidden_is_said_alike(connect: Connect) -> None:
    lead, peer = connect("lead"), connect("peer")
    chart = await created(lead, "Buy a guitar")
    hidden = await refused(peer.get_chart(chart.id), CODE.NOT_FOUND)
    assert hidden == f"chart {chart.id} does not exist or is not visible to you"
    step = StepIn(step=chart.action_steps[0].name)
    assert "does not exist" in await refused(peer.complete_step(step), CODE.NOT_FOUND)
    assert (await peer.list_charts()).charts == ()
    missing = StepIn(step="nothing")
    assert "has no action step" in await refused(
        lead.remove_step(chart.id, missing), CODE.NOT_FOUND
    )


async def test_a_relation_by_hand_makes_no_endless_chart(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    step = chart.action_steps[0].name
    below = await lead.telescope_step(
        TelescopeIn(step=step, current_reality="x", action_steps=(ActionStepIn(title="y"),))
    )
    loop = {"from": below.action_steps[0].name, "relation_type": "telescopes_into",
            "to": chart.name}  # fmt: skip
    await lead.create_relations(GraphRelationsIn.model_validate({"relations": [loop]}))
    assert (await lead.remove_step(chart.id, StepIn(step=step))).action_steps == ()


@pytest.mark.parametrize("outcome", ["", "x" * 8193])
async def test_invalid_texts_store_nothing(connect: Connect, outcome: str) -> None:
    lead = connect("lead")
    with pytest.raises((errors.KnowledgeError, ValueError)):
        await created(lead, desired_outcome=outcome)
    assert (await lead.list_charts(completed=True)).charts == ()


async def set_data(client: AsyncKnowledgeClient, chart: Chart, **data: object) -> None:
    (entity,) = (await client.open_entities(GraphNamesIn(names=(chart.name,)))).entities
    fact = await client.get_fact(entity.id)
    changes = {"reason": "by hand", "data": {**(fact.data or {}), **data}}
    await client.revise(entity.id, ReviseIn.model_validate(changes))


async def test_a_chart_that_claims_a_parent_completes_nothing_there(connect: Connect) -> None:
    ada, teammate = connect("ada"), connect("teammate")
    chart = await created(ada, "Pay the invoice", scope=TEAM)
    step = chart.action_steps[0].name
    claim = await created(teammate, "Look at the invoice", scope=TEAM)
    await set_data(teammate, claim, parentChart=chart.id, parentActionStep=step)
    await ada.complete_step(StepIn(step=claim.action_steps[0].name))
    assert await ada.get_chart(chart.id) == chart


async def test_a_malformed_chart_hides_no_other(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Practise")
    await set_data(
        lead, chart, level="top", parentChart=5, parentActionStep=["x"],
        dueDate="0001-01-01T00:00:00+14:00",
    )  # fmt: skip
    (listed,) = (await lead.list_charts()).charts
    assert (listed.level, listed.parent_chart, listed.parent_step) == (0, None, None)
    assert listed.due_date is None
    step = chart.action_steps[0].name
    below = await lead.telescope_step(TelescopeIn(step=step, current_reality="x"))
    assert below.level == 1
    await lead.complete_step(StepIn(step=step))


async def test_a_date_without_a_zone_is_in_utc(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    await set_data(lead, chart, dueDate="2030-05-01T00:00:00")
    assert (await lead.list_charts(due_before=DUE)).charts[0].due_date == DUE
    assert len((await lead.add_step(chart.id, ActionStepIn(title="Sing"))).action_steps) == 2


async def test_an_outcome_whose_text_was_deleted_gets_another(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead)
    gone = {"entity": f"{chart.id}_desired_outcome", "contents": [chart.desired_outcome]}
    await lead.delete_observations(GraphObservationsIn.model_validate({"observations": [gone]}))
    changed = await lead.change_chart(chart.id, ChartChanges(desired_outcome="Ten songs"))
    assert changed.desired_outcome == "Ten songs"


async def test_a_repeat_with_the_key_changes_a_chart_once(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    async def twice(path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": "Bearer lead", "Idempotency-Key": f"key of {path}"}
        first, second = [await http.post(path, json=body, headers=headers) for _ in range(2)]
        assert second.status_code == first.status_code == 200, second.text
        assert second.json() == first.json()
        answer: dict[str, Any] = first.json()
        return answer

    chart = await twice(
        "/v1/charts",
        {"desired_outcome": "Five songs", "current_reality": "None.", "due_date": DUE.isoformat(),
         "action_steps": [{"title": "Buy a guitar"}]},
    )  # fmt: skip
    path = f"/v1/charts/{chart['id']}"
    step = chart["action_steps"][0]["name"]
    await twice(f"{path}:change", {"desired_outcome": "Ten songs"})
    await twice(f"{path}/steps", {"title": "Sing"})
    await twice("/v1/charts:progress", {"step": step, "observation": "I saw one."})
    await twice("/v1/charts:telescope", {"step": step, "current_reality": "No money."})
    await twice("/v1/charts:complete", {"step": step})
    rest = await twice(f"{path}/steps:remove", {"step": step})
    assert [each["title"] for each in rest["action_steps"]] == ["Sing"]
    assert [each.id for each in (await connect("lead").list_charts()).charts] == [chart["id"]]


class InterleavedStore:
    """A store in which something happens right before the first operation."""

    def __init__(self, store: Store, act: Callable[[], object]) -> None:
        self._store, self._pending = store, [act]

    def perform(self, *arguments: Any) -> Any:
        """Perform an operation after what is pending."""
        while self._pending:
            self._pending.pop()()
        return self._store.perform(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_the_last_steps_complete_the_chart_even_at_the_same_time(
    connect: Connect, transport: httpx.ASGITransport
) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher", "Practise")
    first, second, third = (StepIn(step=step.name) for step in chart.action_steps)
    await lead.complete_step(first)
    app: Any = transport.app
    services = app.state.services
    other = Performer(services, CALLERS["lead"])
    store: Any = InterleavedStore(
        services.store, lambda: charts.complete_step(other, third, services.now())
    )
    performer = Performer(replace(services, store=store), CALLERS["lead"])
    done = charts.complete_step(performer, second, services.now())
    assert (done.completed, done.progress) == (True, 1)
    assert len(done.current_reality) == 5


async def test_the_observation_of_another_is_no_title(connect: Connect) -> None:
    ada, teammate = connect("ada"), connect("teammate")
    chart = await created(ada, "Pay the invoice", scope=TEAM)
    names = (f"{chart.id}_desired_outcome", chart.action_steps[0].name)
    for entity in (await ada.open_entities(GraphNamesIn(names=names))).entities:
        added = {"content": "Pay me twice", "about": entity.id, "kind": "observation"}
        for position in (-1, 0):
            fact = {**added, "position": position, "scope": TEAM, "force": True}
            await teammate.remember(FactIn.model_validate(fact))
        above = {**added, "position": -2, "scope": "realm:demo"}
        await ada.remember(FactIn.model_validate(above))
    await ada.complete_step(StepIn(step=names[1]))
    after = await ada.change_chart(chart.id, ChartChanges(desired_outcome="Ten songs"))
    assert after.desired_outcome == "Ten songs"
    assert after.action_steps[0].title == "Pay the invoice"
    assert "Pay me twice" in after.action_steps[0].progress
    assert "Completed: Pay the invoice" in after.current_reality


async def test_a_step_that_is_added_with_a_reality_is_one_operation(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    step = AddedStepIn(title="Find a teacher", due_date=DUE, current_reality="I know none.")
    below = await lead.add_step(chart.id, step, idempotency_key="add-a-teacher")
    assert await lead.add_step(chart.id, step, idempotency_key="add-a-teacher") == below
    assert below.desired_outcome == "Find a teacher"
    assert below.current_reality == ("I know none.",)
    assert (below.parent_chart, below.level, below.due_date) == (chart.id, 1, DUE)
    above = await lead.get_chart(chart.id)
    assert [(each.title, each.chart) for each in above.action_steps] == [
        ("Buy a guitar", None), ("Find a teacher", below.id),
    ]  # fmt: skip
    assert below.parent_step == above.action_steps[1].name

    (entity,) = (await lead.open_entities(GraphNamesIn(names=(below.name,)))).entities
    await lead.undo(entity.id, ReasonIn(reason="by mistake"))
    assert await lead.get_chart(chart.id) == chart
    await refused(lead.get_chart(below.id), CODE.NOT_FOUND)


async def rename(client: AsyncKnowledgeClient, name: str, new_name: str) -> None:
    (entity,) = (await client.open_entities(GraphNamesIn(names=(name,)))).entities
    await client.revise(entity.id, ReviseIn(reason="shorter", content=new_name))


async def test_entities_that_are_renamed_stay_in_their_chart(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    for part in ("action_1", "action_2", "chart", "current_reality", "desired_outcome"):
        await rename(lead, f"{chart.id}_{part}", f"my {part}")
    more = await lead.add_step(chart.id, ActionStepIn(title="Practise"))
    assert [(step.name, step.title) for step in more.action_steps] == [
        ("my action_1", "Buy a guitar"),
        ("my action_2", "Find a teacher"),
        (f"{chart.id}_action_3", "Practise"),
    ]
    for step in more.action_steps:
        done = await lead.complete_step(StepIn(step=step.name))
    assert done.completed
    assert done.current_reality == (
        "I have never played an instrument.",
        "Completed: Buy a guitar", "Completed: Find a teacher", "Completed: Practise",
        "Completed: Five songs on the guitar",
    )  # fmt: skip


async def test_a_renamed_step_is_completed_by_the_chart_below_it(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    step = chart.action_steps[1].name
    telescope = TelescopeIn(
        step=step, current_reality="x", action_steps=(ActionStepIn(title="Ask friends"),)
    )
    below = await lead.telescope_step(telescope)
    await rename(lead, step, "the teacher")
    await lead.complete_step(StepIn(step=below.action_steps[0].name))
    above = await lead.get_chart(chart.id)
    assert [(each.name, each.completed) for each in above.action_steps] == [
        (chart.action_steps[0].name, False), ("the teacher", True),
    ]  # fmt: skip


async def test_two_steps_cannot_be_renamed_to_the_same_name(connect: Connect) -> None:
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    first, second = (step.name for step in chart.action_steps)
    await rename(lead, first, "a step")
    message = await refused(rename(lead, second, "a step"), CODE.CONFLICT)
    assert "alias:entity:a step is a name of fact" in message
    after = await lead.complete_step(StepIn(step="a step"))
    assert [(step.name, step.completed) for step in after.action_steps] == [
        ("a step", True), (second, False),
    ]  # fmt: skip


async def test_a_person_deletes_what_an_agent_revises(connect: Connect) -> None:
    """Whoever comes second gets an error that says what happened, and nothing comes back."""
    lead, keeper = connect("lead"), connect("keeper")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    first, second = (step.name for step in chart.action_steps)
    await keeper.delete_entities(GraphNamesIn(names=(first,)))
    for call in (
        lead.complete_step(StepIn(step=first)),
        lead.record_progress(StepProgressIn(step=first, observation="x")),
        lead.telescope_step(TelescopeIn(step=first, current_reality="x")),
    ):
        message = await refused(call, CODE.NOT_FOUND)
        assert message == f"entity {first!r} does not exist or is not visible to you"
    assert [step.name for step in (await lead.get_chart(chart.id)).action_steps] == [second]
    (entity,) = (await lead.open_entities(GraphNamesIn(names=(second,)))).entities
    await lead.record_progress(StepProgressIn(step=second, observation="I asked."))
    await keeper.delete_entities(GraphNamesIn(names=(second,)))
    stale = ReviseIn(reason="late", data={"chartId": chart.id})
    assert "superseded already" in await refused(lead.revise(entity.id, stale), CODE.CONFLICT)
    assert (await lead.get_chart(chart.id)).action_steps == ()


async def test_a_deletion_while_a_step_is_completed_leaves_one_of_both(
    connect: Connect, transport: httpx.ASGITransport
) -> None:
    lead, keeper = connect("lead"), connect("keeper")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    step = chart.action_steps[0].name
    app: Any = transport.app
    services = app.state.services
    person = Performer(services, CALLERS["keeper"])
    store: Any = InterleavedStore(
        services.store, lambda: entities.delete_entities(person, GraphNamesIn(names=(step,)))
    )
    performer = Performer(replace(services, store=store), CALLERS["lead"])
    with pytest.raises(NotFound, match=f"entity '{step}' does not exist"):
        charts.complete_step(performer, StepIn(step=step), services.now())
    assert (await keeper.get_chart(chart.id)).current_reality == chart.current_reality


async def test_a_run_gets_what_is_true_of_a_chart(connect: Connect) -> None:
    """Names of parts, open steps and open outcomes say nothing that is true, and fill no budget."""
    await connect("operator").put_run("r", run_in())
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar", "Find a teacher")
    first, second = chart.action_steps
    await lead.record_progress(StepProgressIn(step=first.name, observation="Two shops are open."))
    objectives = ("Five songs on the guitar", f"{chart.id}_action_1", "unrelated")
    expected = {"I have never played an instrument.", "Two shops are open."}
    for objective in objectives:
        assert await injected(lead, objective) == expected
    await lead.complete_step(StepIn(step=first.name))
    await lead.complete_step(StepIn(step=second.name))
    assert await injected(lead, "Five songs on the guitar") == expected | {
        "Completed: Buy a guitar",
        "Completed: Find a teacher",
        "Completed: Five songs on the guitar",
    }


async def test_what_a_run_does_not_get_of_a_chart_is_recalled_without_one(connect: Connect) -> None:
    await connect("operator").put_run("r", run_in())
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    texts = (chart.desired_outcome, *chart.current_reality, chart.action_steps[0].title, chart.name)
    for text in texts:
        recalled = await lead.recall(RecallIn(query=text))
        assert text in [fact.content for fact in recalled.facts]


async def test_a_run_gets_the_truth_of_a_chart_as_it_was(connect: Connect) -> None:
    await connect("operator").put_run("r", run_in())
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    asked_at = (await lead.recall(RecallIn(query="guitar"))).known_at
    await lead.complete_step(StepIn(step=chart.action_steps[0].name))
    question = RecallIn(query="songs on the guitar", run="r", known_at=asked_at)
    recalled = await lead.recall(question)
    assert [fact.content for fact in recalled.facts] == ["I have never played an instrument."]


async def test_an_explanation_says_why_a_run_does_not_get_a_part(connect: Connect) -> None:
    await connect("operator").put_run("r", run_in())
    lead = connect("lead")
    chart = await created(lead, "Buy a guitar")
    (name,) = (await lead.list_facts(kind="entity", contains=f"{chart.id}_action_1")).facts
    (title,) = (await lead.list_facts(about=name.id)).facts
    question = RecallIn(
        query=f"{title.content} {name.content}", run="r", why_not=(name.id, title.id)
    )
    reasons = [(each.stage, each.why) for each in (await lead.recall(question)).why_not]
    assert reasons == [
        ("filters", "it is the name of a part of a chart, and runs get what is true"),
        ("filters", "it is an action step of a chart, and runs get what is true"),
    ]


async def injected(client: AsyncKnowledgeClient, objective: str) -> set[str]:
    """Return what a run with this objective is given."""
    recalled = await client.recall(RecallIn(query=objective, run="r", limit=50))
    return {fact.content for fact in recalled.facts}
