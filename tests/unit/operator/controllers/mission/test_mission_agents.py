"""Missions of a cell that serves A2A: one message for each attempt, whatever is killed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from kais import a2a, labels
from kais.agent_results import AgentFailure, AgentUsage, Artifact, FailureClass
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_operator import errors
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.mission.decide import budgets
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.manager import reconcile_requests
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.planning import cell_cost_annotation
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.cell_cost_annotation import CellUsage
from kais_operator.planning.plan import Body, SendMessage
from knowledge_client.models import TicketIn
from tests.fakes import services, teams
from tests.fakes.agents import FOREIGN, OURS, FakeAgents
from tests.fakes.services import SOLO
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Explain."}
ANSWERED = AgentTask(
    TaskState.COMPLETED,
    answer="The disk was full.",
    usage=AgentUsage(
        input_tokens=900, output_tokens=60, turns=3, tool_calls=2, cost=Decimal("0.00114")
    ),
    artifacts=(Artifact("shared/report.md", 12),),
)


def agent(**spec: Any) -> Body:
    return teams.thing("Cell", "solo", spec={"mind": MIND, **spec})


def mission(**spec: Any) -> Body:
    return teams.work(formationRef=None, cellRef="solo", **spec)


async def sent(*bodies: Body, passes: int = 4, **spec: Any) -> FakeWorld:
    """Return a world in which the message of the first attempt was sent."""
    fake = await services.serving(*(bodies or (agent(),)), mission(**spec))
    for _ in range(passes):
        await teams.pass_(fake)
    return fake


def end(fake: FakeWorld, task: AgentTask) -> None:
    (latest,) = list(fake.agents.tasks)[-1:]
    fake.agents.tasks[latest] = task


def run_id(fake: FakeWorld) -> str:
    return str(fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/run-id"])


async def test_service_cell_with_a_mind_has_a_pod_that_serves_a2a() -> None:
    fake = await services.serving(agent())
    pod = services.template(fake)["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "kais/agent:1"
    assert container["ports"] == [{"containerPort": 8080, "name": "a2a"}]
    assert container["readinessProbe"]["httpGet"] == {"path": a2a.CARD_PATH, "port": 8080}
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["KAIS_AGENT_STATE"] == "/var/lib/kais-agent"
    assert "KAIS_OBJECTIVE" not in variables
    assert {"kais-agent-state", "kais-credentials"} <= {each["name"] for each in pod["volumes"]}
    service = fake.cluster.read(services.SERVICE)
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [("a2a", 8080)]
    assert condition(fake, "Ready", SOLO)[0] == "True"


async def test_message_has_the_objective_and_ids_that_follow_from_run_and_attempt() -> None:
    fake = await sent(
        objective="why is it down?", entrypoint={"cell": "solo", "message": "be brief"}
    )
    (message,) = fake.agents.deliveries
    assert message.text == "why is it down?\n\nbe brief"
    assert message.call.message_id == a2a.message_id(run_id(fake), 1, "work")
    assert (message.call.run_id, message.call.attempt) == (run_id(fake), 1)
    address = message.call.address
    assert (address.service, address.port, address.path) == ("solo", 8080, "/")
    assert address.account == "system:serviceaccount:demo:solo"
    assert condition(fake, "Started")[0] == "True"


async def test_answer_usage_and_files_are_in_the_status_and_counted_once() -> None:
    fake = await sent()
    end(fake, ANSWERED)
    await teams.settle(fake)
    ended = status(fake)
    assert (ended["outcome"], ended["result"]) == ("Succeeded", "The disk was full.")
    assert ended["tokens"] == {"input": 900, "output": 60}
    assert (ended["turns"], ended["toolCalls"], ended["cost"]) == (3, 2, 0.00114)
    assert [each["path"] for each in ended["artifacts"]] == ["/workspace/shared/report.md"]
    assert condition(fake, "Succeeded")[2] == "attempt 1: the agent answered"
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.cost, run.tokens) == ("Succeeded", 0.00114, 960)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert status(fake, SOLO)["totalCost"] == 0.00114
    assert len(fake.agents.deliveries) == 1


async def test_a_run_of_a_service_cell_patches_its_mission_three_times() -> None:
    fake = await services.serving(agent(), mission())
    before, calls = len(fake.cluster.writes), len(fake.knowledge.calls)
    await teams.settle(fake)
    assert fake.cluster.writes[before:].count(("patch", MISSION)) == 1
    assert fake.knowledge.calls[calls:] == ["put_run"]
    end(fake, ANSWERED)
    await teams.settle(fake)
    assert fake.cluster.writes[before:].count(("patch", MISSION)) == 3
    assert fake.cluster.writes[before:].count(("patch", SOLO)) == 1
    closing = ["get_run", "add_episodes", "put_run", "start_extraction"]
    assert fake.knowledge.calls[calls + 1 : calls + 7] == [*closing, "get_run", "get_extraction"]


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("is_lost", [False, True], ids=["arrives", "is lost"])
async def test_operator_that_is_killed_after_any_pass_sends_no_task_twice(
    at: int, is_lost: bool
) -> None:
    fake = await services.serving(agent(), mission())
    fake.agents.loses_messages = is_lost
    for number in range(1, 14):
        if number == at:
            fake = restarted(fake)
            fake.agents.loses_messages = False
        if number == 6 and fake.agents.tasks:
            end(fake, ANSWERED)
        await teams.pass_(fake)
        fake.clock.advance(1)
    if fake.agents.tasks:
        end(fake, ANSWERED)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert set(fake.agents.tasks) == {a2a.message_id(run_id(fake), 1, "work")}
    (run,) = fake.knowledge.runs.values()
    assert (run.attempts, run.cost) == (1, 0.00114)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert status(fake, SOLO)["totalCost"] == 0.00114


class Killed(Exception):
    """The operator process ended."""


class KilledWhileSending(FakeAgents):
    """Ends the process before or after a message leaves it, once."""

    def __init__(self, agents: FakeAgents, *, is_after: bool) -> None:
        super().__init__(agents.tasks, agents.deliveries, agents.cancelled, agents.card)
        self.is_after = is_after

    def send(self, message: SendMessage) -> None:
        if self.is_after:
            super().send(message)
        raise Killed


async def _passes(fake: FakeWorld) -> None:
    for _ in range(6):
        await teams.pass_(fake)


async def killed_while_sending(*, is_after: bool, card: Any = None) -> FakeWorld:
    fake = await services.serving(agent(), mission())
    if card is not None:
        fake.agents.card = card
    dying = replace(
        fake, world=replace(fake.world, agents=KilledWhileSending(fake.agents, is_after=is_after))
    )
    with pytest.raises(Killed):
        await _passes(dying)
    stamped = fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/attempts"]
    assert a2a.message_id(run_id(fake), 1, "work") in stamped, "stamped before it is sent"
    return restarted(fake)


async def test_message_that_never_left_is_sent_again_to_a_server_that_knows_repeats() -> None:
    fake = await killed_while_sending(is_after=False)
    for _ in range(3):
        await teams.pass_(fake)
    assert [each.call.attempt for each in fake.agents.deliveries] == [1]


async def test_message_that_left_is_not_sent_again() -> None:
    fake = await killed_while_sending(is_after=True)
    for _ in range(3):
        await teams.pass_(fake)
    assert [each.call.attempt for each in fake.agents.deliveries] == [1]


async def test_server_that_knows_no_repeats_gets_a_new_attempt_instead() -> None:
    fake = await killed_while_sending(is_after=False, card=FOREIGN)
    await teams.pass_(fake)
    assert fake.agents.deliveries == []
    fake.clock.advance(5)
    for _ in range(4):
        await teams.pass_(fake)
    assert [each.call.attempt for each in fake.agents.deliveries] == [2]
    assert status(fake)["history"][0]["result"] == (
        "the attempt was interrupted: it is unknown whether the cell got its message"
    )


async def refused(card: Any, *, passes: int = 4) -> FakeWorld:
    """Return a world in which the first message was not sent, for want of a connection."""
    fake = await services.serving(agent(), mission(completion={"timeout": "10m"}))
    fake.agents.card, fake.agents.refuses_connections = card, True
    for _ in range(passes):
        await teams.pass_(fake)
        fake.clock.advance(1)
    return fake


def replace_pod(fake: FakeWorld) -> None:
    for pod in fake.cluster.refs("Pod"):
        fake.cluster.remove(pod)
    services.pod(fake, status=services.ready(), uid="new")


@pytest.mark.parametrize("card", [OURS, FOREIGN], ids=["ours", "foreign"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["", "and its pod is replaced"])
async def test_message_whose_connection_was_refused_is_sent_again_in_the_same_attempt(
    card: Any, is_replaced: bool
) -> None:
    fake = await refused(card)
    assert fake.agents.deliveries == []
    if is_replaced:
        replace_pod(fake)
    fake.agents.refuses_connections = False
    for _ in range(4):
        await teams.pass_(fake)
        fake.clock.advance(1)
    assert [each.call.attempt for each in fake.agents.deliveries] == [1], "and only once"
    end(fake, ANSWERED)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)


async def test_connection_that_is_refused_until_the_timeout_ends_the_run() -> None:
    fake = await refused(FOREIGN)
    fake.clock.advance(601)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("TimedOut", 1)
    assert fake.agents.deliveries == []


async def test_refused_connection_that_the_operator_forgot_interrupts_the_attempt() -> None:
    fake = restarted(await refused(FOREIGN))
    await teams.pass_(fake)
    assert status(fake)["history"][0]["result"] == (
        "the attempt was interrupted: it is unknown whether the cell got its message"
    )


async def test_new_pod_interrupts_the_attempt_and_gets_the_next_one() -> None:
    fake = await sent()
    old = fake.agents.deliveries[0].call.message_id
    for pod in fake.cluster.refs("Pod"):
        fake.cluster.remove(pod)
    services.pod(fake, status=services.ready(), uid="new")
    await fake.settle(cell.CONTROLLER, SOLO)
    for _ in range(3):
        await teams.pass_(fake)
    assert len(fake.agents.deliveries) == 1
    fake.clock.advance(5)
    for _ in range(4):
        await teams.pass_(fake)
    assert [each.call.attempt for each in fake.agents.deliveries] == [1, 2]
    assert fake.agents.deliveries[1].call.message_id != old
    assert status(fake)["history"][0]["result"] == (
        "the attempt was interrupted: its pod was replaced"
    )


@pytest.mark.parametrize("is_ready", [True, False], ids=["a new pod is ready", "no pod is ready"])
async def test_answer_that_was_read_before_the_pod_was_replaced_counts(is_ready: bool) -> None:
    """The write that records it was refused, for example because someone edited the mission."""
    fake = await sent()
    end(fake, ANSWERED)
    fake.cluster.fail("patch", errors.Conflict("changed"), kind="Mission")
    with pytest.raises(errors.Conflict):
        await teams.pass_(fake)
    replace_pod(fake)
    if not is_ready:
        for pod in fake.cluster.refs("Pod"):
            fake.cluster.remove(pod)
    fake.agents.tasks.clear()  # the new pod begins without them
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)
    assert (status(fake)["result"], status(fake)["cost"]) == ("The disk was full.", 0.00114)


async def test_new_operator_knows_no_answer_of_a_pod_that_was_replaced() -> None:
    fake = await sent()
    end(fake, ANSWERED)
    replace_pod(fake)
    fake = restarted(fake)
    await teams.pass_(fake)
    assert status(fake)["history"][0]["result"] == (
        "the attempt was interrupted: its pod was replaced"
    )


async def test_cell_that_does_not_answer_is_waited_for() -> None:
    fake = await sent()
    fake.agents.card = replace(fake.agents.card, problem="503: the service cannot verify tickets")
    for _ in range(3):
        await teams.pass_(fake)
        fake.clock.advance(120)
    assert status(fake)["phase"] == "Running"
    assert "does not answer: 503" in condition(fake, "Succeeded")[2]
    fake.agents.card = replace(fake.agents.card, problem=None)
    end(fake, ANSWERED)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)


@pytest.mark.parametrize("state", [TaskState.WORKING, TaskState.INPUT_REQUIRED])
async def test_agent_without_a_sign_of_life_is_interrupted_unless_it_waits_for_a_person(
    state: TaskState,
) -> None:
    fake = await sent()
    end(fake, AgentTask(state, heartbeat=fake.clock.now()))
    fake.clock.advance(60)
    await teams.pass_(fake)
    assert status(fake)["attempt"] == 1
    assert "history" not in status(fake) or "finishedAt" not in status(fake)["history"][0]
    fake.clock.advance(1)
    for _ in range(2):
        await teams.pass_(fake)
    is_interrupted = "no sign of life" in str(status(fake)["history"])
    assert is_interrupted is (state is TaskState.WORKING)


async def test_server_without_heartbeats_is_bound_by_the_timeout_alone() -> None:
    fake = await sent(completion={"timeout": "10m"})
    fake.agents.card = FOREIGN
    end(fake, AgentTask(TaskState.WORKING, heartbeat=fake.clock.now() - timedelta(hours=1)))
    fake.clock.advance(599)
    await teams.pass_(fake)
    assert status(fake)["phase"] == "Running"
    fake.clock.advance(2)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert fake.agents.cancelled == [a2a.message_id(run_id(fake), 1, "work")]


async def test_abort_cancels_the_task_although_the_mission_is_suspended() -> None:
    fake = await sent()
    end(fake, AgentTask(TaskState.WORKING, usage=ANSWERED.usage))
    annotations = {"kais.io/abort": "enough", "kais.io/reconcile": "suspended"}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert fake.agents.cancelled == [a2a.message_id(run_id(fake), 1, "work")]
    assert status(fake)["cost"] == 0.00114, "what it has cost so far counts"


async def test_deletion_cancels_the_task() -> None:
    fake = await sent()
    fake.cluster.edit(MISSION, {"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}})
    for _ in range(6):
        await teams.pass_(fake)
    assert fake.agents.cancelled == [fake.agents.deliveries[0].call.message_id]


FAILURES = {
    FailureClass.MODEL_UNAUTHORIZED: ("Failed", 1),
    FailureClass.BUDGET: ("BudgetExceeded", 1),
    FailureClass.TOOL_LOOP: ("Failed", 1),
    FailureClass.MODEL_UNAVAILABLE: ("Succeeded", 2),
    FailureClass.INTERRUPTED: ("Succeeded", 2),
}


@pytest.mark.parametrize(("reason", "expected"), FAILURES.items())
async def test_class_of_a_failure_decides_whether_another_attempt_follows(
    reason: FailureClass, expected: tuple[str, int]
) -> None:
    fake = await sent()
    usage = AgentUsage(input_tokens=10, output_tokens=1, turns=1, cost=Decimal("0.5"))
    failure = AgentFailure(reason, "because")
    end(fake, AgentTask(TaskState.FAILED, usage=usage, failure=failure))
    for _ in range(3):
        await teams.pass_(fake)
    fake.clock.advance(5)
    for _ in range(4):
        await teams.pass_(fake)
    if len(fake.agents.deliveries) > 1:
        assert fake.agents.deliveries[1].metadata["feedback"].endswith(f"({reason}): because")
        end(fake, ANSWERED)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == expected
    assert status(fake)["history"][0]["result"] == (f"the agent gave no answer ({reason}): because")
    assert status(fake)["cost"] == (0.50114 if expected[1] == 2 else 0.5)


async def test_message_that_a_server_refuses_fails_the_attempt() -> None:
    fake = await sent()
    fake.agents.tasks.clear()
    fake.agents.card = replace(fake.agents.card, refusal="the same id with another content")
    for _ in range(3):
        await teams.pass_(fake)
    assert status(fake)["history"][0]["result"] == (
        "the cell refused the message: the same id with another content"
    )


async def test_response_checks_and_commands_judge_the_answer_of_a_running_agent() -> None:
    says = {"name": "says", "type": "response", "successPattern": "disk"}
    built = {"name": "built", "type": "command", "argv": ["/app/check"]}
    fake = await sent(completion={"checks": [says, built]})
    assert [each["status"] for each in status(fake)["checks"]] == ["Pending", "Pending"]
    end(fake, ANSWERED)
    for _ in range(3):
        await teams.pass_(fake)
    assert [command.argv for command in fake.containers.started] == [("/app/check",)]
    fake = restarted(fake)
    fake.agents.tasks.clear()  # what is recorded is not asked again
    fake.containers.end("built")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert {each["status"] for each in status(fake)["checks"]} == {"Passed"}
    assert status(fake)["cost"] == 0.00114
    assert condition(fake, "Succeeded")[2] == "attempt 1: the agent answered and its checks passed"


async def test_answer_that_a_check_rejects_opens_the_next_attempt_with_feedback() -> None:
    says = {"name": "says", "type": "response", "successPattern": "network"}
    fake = await sent(completion={"checks": [says], "maxAttempts": 2})
    end(fake, ANSWERED)
    for _ in range(4):
        await teams.pass_(fake)
    fake.clock.advance(5)
    for _ in range(3):
        await teams.pass_(fake)
    assert "does not match successPattern" in fake.agents.deliveries[1].metadata["feedback"]


async def test_foreign_image_that_serves_a2a_gets_the_objective_and_says_what_is_not_enforced() -> (
    None
):
    server = {"image": "theirs:1", "a2a": {"port": 9000, "path": "/agent"}}
    bodies = (teams.thing("Cell", "solo", spec={"mode": "Service", "container": server}),)
    fake = await services.serving(*bodies, mission())
    fake.agents.card = FOREIGN
    for _ in range(4):
        await teams.pass_(fake)
    (message,) = fake.agents.deliveries
    assert (message.call.address.port, message.call.address.path) == (9000, "/agent/")
    ready = condition(fake, "Ready", SOLO)
    assert ready[:2] == ("True", "TopologyNotEnforced")
    assert "checks no tickets" in ready[2]
    end(fake, replace(ANSWERED, usage=None))
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_working_agent_causes_one_write_for_each_change_of_its_cost() -> None:
    fake = await sent()
    for _ in range(3):
        await teams.pass_(fake)
    writes = len(fake.cluster.writes)
    for turns in range(6):
        usage = AgentUsage(turns=turns, cost=Decimal(turns // 3))
        end(fake, AgentTask(TaskState.WORKING, usage=usage, heartbeat=fake.clock.now()))
        plan = await teams.pass_(fake)
        assert timedelta(seconds=1) <= plan.requeue_after <= timedelta(seconds=5)
        fake.clock.advance(10)
    assert len(fake.cluster.writes) == writes + 2


async def test_agent_that_hangs_is_asked_less_often_because_it_holds_a_reconcile() -> None:
    fake = await sent(completion={"timeout": "10m"})
    for _ in range(3):
        await teams.pass_(fake)
    fake.clock.advance(200)
    fake.agents.card = replace(fake.agents.card, problem="no answer within 5 s")
    plan = await teams.pass_(fake)
    assert plan.requeue_after == timedelta(seconds=20)
    fake.agents.card = replace(fake.agents.card, problem=None)
    plan = await teams.pass_(fake)
    assert plan.requeue_after == timedelta(seconds=5)


async def test_mission_ranks_ahead_of_others_unless_its_cell_does_not_answer() -> None:
    def rank() -> float:
        index.update(MISSION, fake.cluster.read(MISSION), is_deleted=False)
        return reconcile_requests.priority_delay_s(MISSION, 1.0, index)

    fake, index = await sent(), ReferenceIndex()
    assert rank() == -reconcile_requests.UNDER_WAY_LEAD_S
    fake.agents.card = replace(fake.agents.card, problem="no answer within 5 s")
    await teams.pass_(fake)
    assert rank() == 0
    fake.agents.card = replace(fake.agents.card, problem=None)
    await teams.pass_(fake)
    assert rank() == -reconcile_requests.UNDER_WAY_LEAD_S


async def test_pod_that_is_lost_counts_its_last_report() -> None:
    fake = await sent(completion={"timeout": "10m"})
    end(fake, AgentTask(TaskState.WORKING, usage=ANSWERED.usage, heartbeat=fake.clock.now()))
    await teams.pass_(fake)
    end(fake, AgentTask(TaskState.WORKING, heartbeat=fake.clock.now()))
    await teams.pass_(fake)
    for pod in fake.cluster.refs("Pod"):
        fake.cluster.remove(pod)
    fake = restarted(fake)
    fake.clock.advance(601)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("TimedOut", 0.00114)


async def ended_early(fake: FakeWorld, how: str) -> str:
    if how == "timeout":
        fake.clock.advance(601)
    else:
        fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    return str(status(fake)["outcome"])


@pytest.mark.parametrize(("how", "expected"), [("abort", "Cancelled"), ("timeout", "TimedOut")])
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed after the cancel"])
async def test_run_that_ends_early_counts_what_the_cancelled_task_reports(
    how: str, expected: str, is_killed: bool
) -> None:
    fake = await sent(completion={"timeout": "10m"})
    fake.agents.card = replace(fake.agents.card, has_heartbeat=False)
    fake.agents.usage_when_cancelled = ANSWERED.usage
    if is_killed:
        (message,) = fake.agents.deliveries
        await fake.agents.cancel(message.call)
        fake.agents.cancelled.clear()
        fake = restarted(fake)
    assert await ended_early(fake, how) == expected
    assert status(fake)["cost"] == 0.00114


async def test_abort_does_not_wait_for_a_task_that_works_on() -> None:
    fake = await sent()
    fake.agents.ignores_cancels = True
    end(fake, AgentTask(TaskState.WORKING, usage=ANSWERED.usage, heartbeat=fake.clock.now()))
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    for _ in range(3):
        await teams.pass_(fake)
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Cancelled", 0.00114)


async def test_stale_task_is_cancelled_before_the_next_message() -> None:
    fake = await sent()
    stale = fake.agents.deliveries[0].call.message_id
    end(fake, AgentTask(TaskState.WORKING, heartbeat=fake.clock.now()))
    fake.clock.advance(61)
    await teams.pass_(fake)
    fake.clock.advance(5)
    for _ in range(3):
        await teams.pass_(fake)
    assert fake.agents.cancelled == [stale]
    assert [each.call.attempt for each in fake.agents.deliveries] == [1, 2]


def test_share_of_three_minds_fits_into_a_ticket() -> None:
    cells = [{"name": name, "spec": {"mind": MIND}} for name in ("a", "b", "c")]
    formation = Formation.from_dict(teams.team(cells=cells, budget={"maxTotalCost": 1.0}))
    now = fake_world().clock.now()
    left = budgets.spending_of(
        Mission.from_dict(mission()),
        Cell.from_dict(agent()),
        MissionTeam(formation),
        (),
        now=now,
    ).left
    assert format(left or 0, "f") == "0.333333333333"
    TicketIn(to="solo", budget_left=format(left or 0, "f"))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"maxTotalCost": 2.0}, "0.5"), ({"maxCostPerHour": 1.75, "maxTotalCost": 9.0}, "0.25")],
)
async def test_limits_of_a_service_cell_bound_the_budget_of_its_message(
    limits: Body, expected: str
) -> None:
    usage = AgentUsage(turns=1, cost=Decimal("1.5"))
    counted = CellUsage().add("earlier", usage, ended_at=fake_world().clock.now())
    body = agent(resources=limits)
    body["metadata"]["annotations"] = {labels.CELL_USAGE: cell_cost_annotation.dump(counted)}
    fake = await sent(body)
    assert fake.agents.deliveries[0].call.budget_left == expected


async def test_cell_without_injected_facts_passes_the_arm_of_the_run_to_its_peers() -> None:
    fake = await sent(agent(knowledge={"inject": False}))
    assert fake.agents.deliveries[0].call.arm == "on"


async def test_task_counts_although_a_repeated_message_was_refused() -> None:
    fake = await sent()
    fake.agents.card = replace(fake.agents.card, refusal="the same id with another content")
    end(fake, ANSWERED)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_receipt_of_the_facts_is_in_the_status() -> None:
    fake = await sent(completion={"checks": [{"name": "built", "type": "command", "argv": ["x"]}]})
    end(fake, replace(ANSWERED, receipt="r-9"))
    for _ in range(3):
        await teams.pass_(fake)
    assert status(fake)["knowledge"]["receipt"] == "r-9"
    fake.agents.tasks.clear()
    fake.containers.end("built")
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["knowledge"]["receipt"]) == ("Succeeded", "r-9")
    assert not status(fake)["display"].get("facts", "").startswith("0 in")


async def test_cancel_that_failed_is_repeated_while_the_mission_finishes() -> None:
    fake = await sent()
    fake.agents.ignores_cancels = True
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    for _ in range(2):
        await teams.pass_(fake)
    assert "kais.io/outcome" in fake.cluster.read(MISSION)["metadata"]["annotations"]
    fake.agents.ignores_cancels = False
    await teams.settle(fake)
    (task,) = fake.agents.tasks.values()
    assert task.state is TaskState.CANCELED
