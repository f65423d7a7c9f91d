"""Tickets: who gets one for which cell, what the callee learns, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import CellAddress, PrincipalIn, Subject, Ticket, TicketIn
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Store
from knowledge_service.use_cases import tickets
from tests.contract.service.callers import CALLERS, refused
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import TEAM, run_in

CODE = errors.ErrorCode
START = datetime(2030, 1, 1, tzinfo=UTC)
CELLS = ("lead-0", "critic-0", *(f"worker-{index}" for index in range(6)))
PEERS = {"lead": ("critic-*", "worker-*"), "worker": ("lead-*", "worker-*"), "critic": ()}


def account(cell: str, formation: str = "team-a1", namespace: str = "demo") -> str:
    return f"system:serviceaccount:{namespace}:{formation}-{cell}"


def registered(cell: str, *, uid: str = "u-1", formation: str = "team-a1") -> PrincipalIn:
    peers = PEERS[cell.partition("-")[0]]
    return PrincipalIn(
        name=f"demo/{formation}-{cell}",
        type="agent",
        subject=Subject(username=account(cell, formation), uid=uid),
        home=f"{TEAM}/cell:{cell}",
        address=CellAddress(formation=formation, cell=cell, peers=peers),
    )


def caller(cell: str, *, uid: str = "u-1", formation: str = "team-a1") -> Principal:
    name, home = f"demo/{formation}-{cell}", f"{TEAM}/cell:{cell}"
    return Principal(name, "agent", home, subject=f"{account(cell, formation)} {uid}")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def call(store: Store, clock: Clock) -> Callable[[str], AsyncKnowledgeClient]:
    """Return clients by the name of the caller, after the cells of a team are registered."""
    callers = CALLERS | {cell: caller(cell) for cell in CELLS}
    callers["replaced worker"] = caller("worker-0", uid="u-2")
    callers["other team"] = caller("worker-0", formation="team-b2")
    app = create_app(store, NamedCallers(callers), clock=clock)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def connect(name: str) -> AsyncKnowledgeClient:
        return AsyncKnowledgeClient("http://service", token=name, transport=transport)

    operator = connect("operator")
    for cell in CELLS:
        await operator.put_principal(registered(cell))
    await operator.put_principal(registered("worker-0", formation="team-b2"))
    await operator.put_run("run-1", run_in(arm="holdout"))
    return connect


Call = Callable[[str], AsyncKnowledgeClient]


async def ask(call: Call, name: str, **fields: object) -> Ticket:
    return await call(name).issue_ticket(TicketIn.model_validate(fields))


async def test_operator_speaks_to_a_cell_which_learns_for_which_run(call: Call) -> None:
    ticket = await ask(
        call, "operator", to=account("lead-0"), run_id="run-2", attempt=2, arm="off",
        budget_left="1.50",
    )  # fmt: skip
    assert ticket.expires_at == START + timedelta(seconds=60)
    verified = await call("lead-0").verify_ticket(ticket.ticket)
    assert verified.model_dump(exclude={"expires_at"}) == {
        "caller": "operator", "role": "operator", "cell": None, "run_id": "run-2", "attempt": 2,
        "arm": "off", "hops": (), "budget_left": "1.50",
    }  # fmt: skip


async def test_ticket_serves_its_callee_alone(call: Call) -> None:
    ticket = await ask(call, "operator", to=account("worker-0"), run_id="run-1")
    for name in ("worker-1", "operator", "ada", "other team"):
        detail = await refused(call(name).verify_ticket(ticket.ticket), CODE.FORBIDDEN)
        assert detail.startswith("the ticket is for another cell than ")


async def test_account_that_was_created_again_is_another_callee(call: Call) -> None:
    ticket = await ask(call, "operator", to=account("worker-0"), run_id="run-1")
    repeated = call("replaced worker").verify_ticket(ticket.ticket)
    await refused(repeated, CODE.FORBIDDEN)


async def test_ticket_ends_after_a_minute(call: Call, clock: Clock) -> None:
    ticket = await ask(call, "operator", to=account("lead-0"))
    clock.time += timedelta(seconds=59)
    await call("lead-0").verify_ticket(ticket.ticket)
    clock.time += timedelta(seconds=1)
    detail = await refused(call("lead-0").verify_ticket(ticket.ticket), CODE.TICKET_EXPIRED)
    assert detail == "the ticket expired at 2030-01-01T00:01:00+00:00; the caller needs a new one"


@pytest.mark.parametrize("forged", ["x", "A" * 200, "é" * 40])
async def test_what_the_service_did_not_issue_is_no_ticket(call: Call, forged: str) -> None:
    detail = await refused(call("lead-0").verify_ticket(forged), CODE.TICKET_INVALID)
    assert detail == "this service did not issue the ticket"


async def test_changed_ticket_is_none(call: Call) -> None:
    ticket = (await ask(call, "operator", to=account("lead-0"))).ticket
    changed = ticket[:40] + ("A" if ticket[40] != "A" else "B") + ticket[41:]
    await refused(call("lead-0").verify_ticket(changed), CODE.TICKET_INVALID)


async def test_cell_calls_a_peer_for_the_run_of_its_own_ticket_even_when_that_is_old(
    call: Call, clock: Clock
) -> None:
    own_ticket = await ask(
        call, "operator", to=account("lead-0"), run_id="run-1", attempt=3, arm="holdout",
        budget_left="2",
    )  # fmt: skip
    clock.time += timedelta(hours=1)
    onward = await ask(call, "lead-0", to="worker-1", ticket=own_ticket.ticket, budget_left="5")
    verified = await call("worker-1").verify_ticket(onward.ticket)
    assert (verified.role, verified.caller, verified.cell) == (
        "cell",
        "demo/team-a1-lead-0",
        "lead-0",
    )
    assert (verified.run_id, verified.attempt, verified.arm) == ("run-1", 3, "holdout")
    assert (verified.hops, verified.budget_left) == (("demo/team-a1-lead-0",), "2")


async def test_task_cell_names_its_run_and_the_arm_is_that_of_the_ledger(call: Call) -> None:
    ticket = await ask(call, "lead-0", to="worker-0", run_id="run-1", attempt=2)
    verified = await call("worker-0").verify_ticket(ticket.ticket)
    assert (verified.run_id, verified.attempt, verified.arm) == ("run-1", 2, "holdout")


async def test_short_name_is_of_the_own_use_of_a_blueprint(call: Call) -> None:
    ticket = await ask(call, "lead-0", to="worker-0", run_id="run-1")
    await refused(call("other team").verify_ticket(ticket.ticket), CODE.FORBIDDEN)


async def test_topology_and_namespace_bound_whom_a_cell_speaks_to(call: Call) -> None:
    def refusal(by: str, to: str) -> object:
        return ask(call, by, to=to, run_id="run-1")

    who = "demo/team-a1-critic-0"
    assert await refused(refusal("critic-0", "lead-0"), CODE.FORBIDDEN) == (
        f"{who} may not speak to lead-0: the topology of formation team-a1 has no route from"
        " critic-0 to it"
    )
    elsewhere = account("x", namespace="other")
    assert await refused(refusal("lead-0", elsewhere), CODE.FORBIDDEN) == (
        f"demo/team-a1-lead-0 may not speak to {elsewhere}: it is an account of another namespace"
    )
    for name in (account("worker-0", "team-b2"), account("nobody")):
        assert await refused(refusal("lead-0", name), CODE.FORBIDDEN) == (
            f"demo/team-a1-lead-0 may not speak to {name}: it is no cell of formation team-a1"
        )
    assert await refused(refusal("lead-0", "worker-7"), CODE.NOT_FOUND) == (
        "worker-7 is not registered, or not a cell that you may speak to"
    )
    assert await refused(refusal("lead", "worker-0"), CODE.FORBIDDEN) == (
        "demo/lead-0 is the account of no single cell of a formation, so no topology allows it to"
        " speak to a cell"
    )


async def test_call_that_returns_to_a_waiting_cell_is_a_loop(call: Call) -> None:
    own_ticket = await ask(call, "operator", to=account("lead-0"), run_id="run-1")
    first = await ask(call, "lead-0", to="worker-0", ticket=own_ticket.ticket)
    second = await ask(call, "worker-0", to="worker-1", ticket=first.ticket)
    back = ask(call, "worker-1", to="lead-0", ticket=second.ticket)
    assert await refused(back, CODE.LOOP) == (
        "demo/team-a1-lead-0 waits for the answer to this call (demo/team-a1-lead-0 >"
        " demo/team-a1-worker-0 > demo/team-a1-worker-1); answer with what you know instead"
    )
    itself = ask(call, "worker-0", to="worker-0", ticket=first.ticket)
    assert "calls itself" in await refused(itself, CODE.LOOP)


async def test_call_passes_four_cells_at_most(call: Call) -> None:
    chain = await ask(call, "operator", to=account("worker-0"), run_id="run-1")
    for index in range(tickets.MAX_HOPS):
        chain = await ask(call, f"worker-{index}", to=f"worker-{index + 1}", ticket=chain.ticket)
    assert len((await call("worker-4").verify_ticket(chain.ticket)).hops) == tickets.MAX_HOPS
    beyond = ask(call, "worker-4", to="worker-5", ticket=chain.ticket)
    detail = await refused(beyond, CODE.FORBIDDEN)
    assert "the call has passed 5 cells" in detail
    assert detail.endswith("at most 4 are allowed; answer with what you know instead")


async def test_ticket_of_another_cell_is_no_authority_to_call(call: Call) -> None:
    stolen = await ask(call, "operator", to=account("lead-0"), run_id="run-1")
    await refused(ask(call, "worker-0", to="worker-1", ticket=stolen.ticket), CODE.FORBIDDEN)


async def test_cell_without_ticket_and_run_is_refused(call: Call) -> None:
    detail = await refused(ask(call, "lead-0", to="worker-0"), CODE.INVALID_BODY)
    assert detail == (
        "name the ticket under which the cell was called, or the run_id that it works for"
    )
    await refused(ask(call, "lead-0", to="worker-0", run_id="theirs"), CODE.NOT_FOUND)


async def test_run_that_is_over_makes_no_calls(call: Call) -> None:
    own_ticket = await ask(call, "operator", to=account("lead-0"), run_id="run-1")
    await call("operator").put_run("run-1", run_in(arm="holdout", outcome="Succeeded"))
    detail = await refused(
        ask(call, "lead-0", to="worker-0", ticket=own_ticket.ticket), CODE.FORBIDDEN
    )
    assert detail == "run run-1 is over, so its cells make no further calls"


async def test_person_speaks_for_itself_to_cells_where_it_may_write(call: Call) -> None:
    ticket = await ask(call, "ada", to=account("lead-0"))
    verified = await call("lead-0").verify_ticket(ticket.ticket)
    assert (verified.caller, verified.role, verified.run_id) == ("ada", "person", None)
    as_operator = ask(call, "ada", to=account("lead-0"), run_id="run-1")
    assert await refused(as_operator, CODE.INVALID_BODY) == (
        "a person speaks for itself: leave out run_id, ticket and arm"
    )
    reader = ask(call, "bea", to=account("lead-0"))
    await refused(reader, CODE.NOT_FOUND)
    stranger = ask(call, "gardener", to=account("nobody"))
    await refused(stranger, CODE.NOT_FOUND)


async def test_ticket_shows_nothing_of_its_content(call: Call) -> None:
    first = await ask(call, "operator", to=account("lead-0"), run_id="run-1")
    second = await ask(call, "operator", to=account("lead-0"), run_id="run-1")
    assert first.ticket[:16] != second.ticket[:16]
    assert "run-1" not in first.ticket


@pytest.mark.parametrize("run_id", [None, "run-that-nobody-opened"])
async def test_work_that_no_run_bounds_makes_no_calls_after_a_day(
    call: Call, clock: Clock, run_id: str | None
) -> None:
    own_ticket = await ask(call, "operator", to=account("lead-0"), run_id=run_id)
    clock.time += timedelta(days=1)
    await ask(call, "lead-0", to="worker-0", ticket=own_ticket.ticket)
    clock.time += timedelta(seconds=60)
    late = ask(call, "lead-0", to="worker-0", ticket=own_ticket.ticket)
    assert "more than a day ago" in await refused(late, CODE.TICKET_EXPIRED)
