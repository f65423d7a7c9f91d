"""A knowledge service that answers reads and takes no writes: each object says why it waits."""

import pytest

from kais_operator.controllers.base import Controller
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import errors, models
from tests.fakes import teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world

SCOPE = ObjectRef("KnowledgeScope", "demo", "memory")
CELL = ObjectRef("Cell", "demo", "solo")
WRITES = ("put_principal", "put_scope", "put_run", "add_episodes", "start_extraction")
FULL = "the database cannot be used now (FullError: the disk is full)"
CAUSES = [
    errors.KnowledgeUnavailable(FULL),
    errors.PermissionDenied("the operator may not write"),
    errors.Unauthenticated("the token is not accepted"),
    errors.QuotaExceeded("too many requests; try again in 5 s"),
]
every_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)


def refuse_writes(fake: FakeWorld, cause: errors.KnowledgeError) -> None:
    fake.knowledge.refusals |= dict.fromkeys(WRITES, cause)


async def steps(fake: FakeWorld, controller: Controller, ref: ObjectRef) -> None:
    """Make some passes, which never settle; in between the operator reads, as it always does."""
    for _ in range(4):
        await fake.step(controller, ref)
        await fake.world.knowledge.whoami()


@every_cause
async def test_a_scope_says_why_its_settings_are_not_taken(cause: errors.KnowledgeError) -> None:
    fake = fake_world(teams.scope())
    refuse_writes(fake, cause)
    await steps(fake, knowledge_scope.CONTROLLER, SCOPE)
    assert condition(fake, "Configured", SCOPE) == (
        "False",
        "StoreUnavailable",
        f"{cause}; the settings are sent again until the service takes them",
    )
    fake.knowledge.refusals.clear()
    await fake.settle(knowledge_scope.CONTROLLER, SCOPE)
    assert condition(fake, "Ready", SCOPE)[0] == "True"


@every_cause
async def test_a_cell_says_why_it_is_not_registered(cause: errors.KnowledgeError) -> None:
    fake = fake_world(teams.lone_cell())
    refuse_writes(fake, cause)
    await steps(fake, cell.CONTROLLER, CELL)
    assert condition(fake, "Registered", CELL) == (
        "False",
        "StoreUnavailable",
        f"{cause}; the cell works without knowledge until it is registered",
    )
    fake.knowledge.refusals.clear()
    await fake.settle(cell.CONTROLLER, CELL)
    assert condition(fake, "Registered", CELL)[0] == "True"


async def test_a_cell_says_why_its_registration_is_rejected() -> None:
    fake = fake_world(teams.lone_cell())
    problem = models.Problem(title="Unprocessable", status=422, detail="no such verb", code="x")
    refuse_writes(fake, errors.InvalidRequest("grants.0.verbs: no such verb", problem=problem))
    await steps(fake, cell.CONTROLLER, CELL)
    assert condition(fake, "Registered", CELL) == (
        "False",
        "StoreUnavailable",
        "grants.0.verbs: no such verb; the cell works without knowledge until it is registered",
    )


@every_cause
async def test_a_mission_says_why_its_end_is_not_recorded(cause: errors.KnowledgeError) -> None:
    fake = await teams.started()
    refuse_writes(fake, cause)
    teams.succeed(fake)
    await teams.passes(fake)
    status, reason, message = condition(fake, "Recorded")
    assert (status, reason) == ("False", "StoreUnavailable")
    assert message.startswith(f"{cause}; run ")
    assert message.endswith(" is recorded when the service takes it")
    fake.knowledge.refusals.clear()
    await teams.settle(fake)
    assert condition(fake, "Recorded")[0] == "True"


async def test_a_mission_says_why_no_facts_are_extracted() -> None:
    fake = await teams.started()
    cause = errors.KnowledgeUnavailable(FULL)
    fake.knowledge.refusals["start_extraction"] = cause
    teams.succeed(fake)
    await teams.passes(fake)
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "StoreUnavailable",
        f"{FULL}; facts are extracted when it answers",
    )


async def test_the_first_reason_stays_so_that_no_status_is_written_for_each_failure() -> None:
    fake = fake_world(teams.scope())
    refuse_writes(fake, errors.KnowledgeUnavailable("request 1 failed"))
    await steps(fake, knowledge_scope.CONTROLLER, SCOPE)
    before = fake.cluster.read(SCOPE)["metadata"]["resourceVersion"]
    refuse_writes(fake, errors.KnowledgeUnavailable("request 2 failed"))
    await steps(fake, knowledge_scope.CONTROLLER, SCOPE)
    assert fake.cluster.read(SCOPE)["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    ("body", "controller", "ref", "type_"),
    [
        (teams.lone_cell(), cell.CONTROLLER, CELL, "Registered"),
        (teams.scope(), knowledge_scope.CONTROLLER, SCOPE, "Configured"),
    ],
    ids=["cell", "scope"],
)
async def test_a_condition_stays_while_reads_are_answered_between_failed_writes(
    body: Body, controller: Controller, ref: ObjectRef, type_: str
) -> None:
    fake = fake_world(body)
    refuse_writes(fake, errors.KnowledgeUnavailable(FULL))
    await steps(fake, controller, ref)
    after_a_read = condition(fake, type_, ref)
    await fake.step(controller, ref)
    await fake.step(controller, ref)
    assert fake.sync_state.unavailable_reason() is not None
    assert condition(fake, type_, ref) == after_a_read


async def test_a_reason_of_another_class_replaces_the_first_one() -> None:
    fake = fake_world(teams.lone_cell())
    refuse_writes(fake, errors.KnowledgeUnavailable("the connection was refused"))
    await steps(fake, cell.CONTROLLER, CELL)
    refuse_writes(fake, errors.PermissionDenied("the operator may not write"))
    await steps(fake, cell.CONTROLLER, CELL)
    assert condition(fake, "Registered", CELL)[2].startswith("the operator may not write; ")
