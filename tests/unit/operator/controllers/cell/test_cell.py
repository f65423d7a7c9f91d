"""Cells: their account, their place in the store, and when they are ready."""

import pytest

from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world

SOLO = ObjectRef("Cell", "demo", "solo")
ACCOUNT = ObjectRef("ServiceAccount", "demo", "solo")
MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}


async def settled(*bodies: Body, ref: ObjectRef = SOLO) -> FakeWorld:
    fake = fake_world(*bodies)
    await fake.settle(cell.CONTROLLER, ref)
    return fake


def account(name: str = "reader", **annotations: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "demo", "annotations": annotations},
    }


async def test_a_task_cell_is_ready_without_a_pod() -> None:
    fake = await settled(teams.lone_cell())
    standby = ("True", "Standby", "a Task cell: its pod is created by a mission")
    assert condition(fake, "Ready", SOLO) == standby
    assert condition(fake, "PodReady", SOLO) == (
        "True",
        "Standby",
        "no pod is needed between missions",
    )
    assert condition(fake, "Applied", SOLO)[2] == "ServiceAccount demo/solo is there"


async def test_a_cell_that_stands_by_is_shown_so_and_keeps_a_phase_that_old_clients_know() -> None:
    status = teams.status(await settled(teams.lone_cell()), SOLO)
    assert status["display"] == {"status": "Standby"}
    assert status["phase"] == "Pending"


async def test_a_cell_that_cannot_work_is_shown_as_pending() -> None:
    status = teams.status(await settled(teams.lone_cell(serviceAccountName="reader")), SOLO)
    assert status["display"]["status"] == "Pending"


async def test_a_cell_gets_an_account_of_its_own_that_mounts_no_token() -> None:
    fake = await settled(teams.lone_cell())
    manifest = fake.cluster.read(ACCOUNT)
    assert manifest["automountServiceAccountToken"] is False
    assert manifest["metadata"]["labels"]["kais.io/cell"] == "solo"


async def test_a_cell_is_registered_at_home_in_its_own_scope() -> None:
    fake = await settled(teams.lone_cell())
    principal = fake.knowledge.principals["system:serviceaccount:demo:solo"]
    namespace = fake.cluster.read(ObjectRef("Namespace", "", "demo"))
    assert principal.type == "agent"
    assert principal.home == "realm:demo/cell:solo"
    assert principal.subject.uid == fake.cluster.read(ACCOUNT)["metadata"]["uid"]
    assert principal.realm_uid == namespace["metadata"]["uid"]
    assert [(g.scope, g.subtree, g.verbs) for g in principal.grants] == [
        ("realm:demo/cell:solo", False, ("read", "write"))
    ]
    assert condition(fake, "Registered", SOLO) == (
        "True",
        "Registered",
        "the cell is registered; its home scope is realm:demo/cell:solo",
    )


HOMES = {
    "the formation's own name": ({}, {}, "realm:demo/formation:team/cell:lead-0"),
    "the blueprint's name when made from one": (
        {"kais.io/blueprint": "reviews"},
        {},
        "realm:demo/formation:reviews/cell:lead-0",
    ),
    "the scope that the formation names": (
        {"kais.io/blueprint": "reviews"},
        {"knowledge": {"scope": "apart"}},
        "realm:demo/formation:apart/cell:lead-0",
    ),
}


@pytest.mark.parametrize(("labels", "spec", "home"), HOMES.values(), ids=HOMES)
async def test_a_formations_cell_is_at_home_in(
    labels: dict[str, str], spec: Body, home: str
) -> None:
    fake = fake_world(teams.team(metadata={"labels": labels}, **spec))
    await teams.settle_team(fake)
    principal = fake.knowledge.principals["system:serviceaccount:demo:team-lead-0"]
    assert principal.home == home


async def test_a_formations_cell_remembers_for_its_blueprint_and_writes_only_its_own_scope() -> (
    None
):
    fake = fake_world(teams.team(metadata={"labels": {"kais.io/blueprint": "reviews"}}))
    await teams.settle_team(fake)
    principal = fake.knowledge.principals["system:serviceaccount:demo:team-lead-0"]
    blueprint = "realm:demo/formation:reviews"
    assert principal.default_scope == blueprint
    assert [(g.scope, g.subtree, g.verbs) for g in principal.grants] == [
        (f"{blueprint}/cell:lead-0", False, ("read", "write")),
        (blueprint, False, ("read", "remember")),
    ]
    assert condition(fake, "Registered", ObjectRef("Cell", "demo", "team-lead-0"))[2] == (
        f"the cell is registered; its home scope is {blueprint}/cell:lead-0,"
        f" and it remembers in {blueprint}"
    )


ADDRESSES: dict[str, tuple[Body, tuple[str, ...]]] = {
    "full mesh": ({"topology": {"type": "full_mesh"}}, ("lead-*", "worker-*")),
    "star": ({"topology": {"type": "star", "hub": "lead"}}, ("lead-*", "worker-*")),
    "ring": ({"topology": {"type": "ring"}}, ("worker-0", "worker-1")),
    "no routes": ({"topology": {"type": "stigmergy", "blackboard": {"decayMinutes": 5}}}, ()),
    "unknown name": ({"topology": {"type": "star", "hub": "boss"}}, ()),
}


@pytest.mark.parametrize(("spec", "peers"), ADDRESSES.values(), ids=ADDRESSES)
async def test_registration_names_the_cell_and_whom_the_topology_lets_it_speak_to(
    spec: Body, peers: tuple[str, ...]
) -> None:
    image = {"mode": "Task", "container": {"image": "i"}}
    cells = [
        {"name": "lead", "spec": image},
        {"name": "worker", "replicas": 2, "spec": image},
    ]
    fake = fake_world(teams.team(cells=cells, **spec))
    await teams.settle_team(fake)
    principal = fake.knowledge.principals["system:serviceaccount:demo:team-lead-0"]
    if spec["topology"].get("hub") == "boss":
        assert principal.address is None
        return
    assert principal.address is not None
    assert (principal.address.formation, principal.address.cell) == ("team", "lead-0")
    assert principal.address.peers == peers


async def test_a_store_that_is_away_does_not_keep_a_cell_from_being_ready() -> None:
    fake = fake_world(teams.lone_cell())
    fake.knowledge.away = True
    for _ in range(3):
        await fake.step(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO)[0] == "True"
    assert condition(fake, "Registered", SOLO) == (
        "False",
        "StoreUnavailable",
        (
            "put_principal: the knowledge service does not answer; "
            "the cell works without knowledge until it is registered"
        ),
    )
    fake.knowledge.away = False
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Registered", SOLO)[:2] == ("True", "Registered")


TOOL = {"name": "shell"}


async def test_a_mind_that_needs_what_is_not_supported_keeps_nothing_running() -> None:
    fake = await settled(services.lone_service())
    fake.cluster.edit(
        SOLO, {"spec": {"container": None, "mode": None, "mind": MIND, "tools": [TOOL]}}
    )
    await fake.settle(cell.CONTROLLER, SOLO)
    expected = (
        "False",
        "NotYetSupported",
        "spec.tools: not yet supported: shell; remove them",
    )
    for type_ in ("Applied", "PodReady", "Registered", "Ready"):
        assert condition(fake, type_, SOLO) == expected
    assert fake.cluster.refs("Deployment") == fake.cluster.refs("Service") == []
    fake.cluster.edit(SOLO, {"spec": services.service(mind=None, tools=[])})
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Applied", SOLO)[:2] == ("True", "Applied")


REFUSED = {
    "an unknown tool": (
        {"tools": [{"name": "bash"}, {"name": "recall"}]},
        ("UnknownTool", "spec.tools: unknown: bash; known are recall, remember"),
    ),
    "a tool that is planned": (
        {"tools": [{"name": "shell"}]},
        ("NotYetSupported", "spec.tools: not yet supported: shell; remove"),
    ),
    "a provider without any endpoint": (
        {"mind": {**MIND, "provider": "ollama"}},
        ("NoModelEndpoint", "spec.mind.provider ollama has no public endpoint: set spec.mind.base"),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), REFUSED.values(), ids=REFUSED)
async def test_a_mind_is_not_run_with(spec: Body, expected: tuple[str, str]) -> None:
    fake = await settled(teams.lone_cell(**{"container": None, "mind": MIND, **spec}))
    state, reason, message = condition(fake, "Ready", SOLO)
    assert (state, reason) == ("False", expected[0])
    assert message.startswith(expected[1])
    warnings = [event for event in fake.cluster.events if event["type"] == "Warning"]
    assert [(event["reason"], event["message"]) for event in warnings] == [(reason, message)]
    assert fake.cluster.refs("ServiceAccount") == []
    healed = {"tools": [{"name": "recall"}], "mind": {**MIND, "baseUrl": "http://models:1/v1"}}
    fake.cluster.edit(SOLO, {"spec": healed})
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO)[:2] == ("True", "Standby")


async def test_fields_of_a_mind_without_effect_are_listed() -> None:
    mind = {**MIND, "localBrain": {"any": 1}, "selfModel": {}}
    fake = await settled(teams.lone_cell(container=None, mind=mind))
    assert condition(fake, "Ready", SOLO) == (
        "True",
        "Standby",
        "a Task cell: its pod is created by a mission (without effect: localBrain, selfModel)",
    )
    assert teams.status(fake, SOLO)["display"]["model"] == "m"


async def test_a_cell_does_not_become_what_peoples_tools_are() -> None:
    ref = ObjectRef("Cell", "demo", "kais-user")
    fake = await settled(teams.lone_cell("kais-user"), ref=ref)
    assert condition(fake, "Ready", ref) == (
        "False",
        "NameTaken",
        "ServiceAccount kais-user is for people's tools; name the cell otherwise",
    )
    assert fake.cluster.refs("ServiceAccount") == []
    assert fake.knowledge.principals == {}


async def test_an_account_that_belongs_to_somebody_else_is_left_alone() -> None:
    fake = await settled(teams.lone_cell(), account("solo"))
    status, reason, message = condition(fake, "Applied", SOLO)
    assert (status, reason) == ("False", "NameTaken")
    assert message.startswith("ServiceAccount/demo/solo exists already and does not belong to")
    assert condition(fake, "Ready", SOLO)[1] == "NameTaken"
    assert "ownerReferences" not in fake.cluster.read(ACCOUNT)["metadata"]
    fake.cluster.remove(ACCOUNT)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO)[:2] == ("True", "Standby")


REFUSED = {
    "that is missing": ((), "ServiceAccount demo/reader does not exist; create it, annotated "),
    "that does not allow cells": (
        (account(),),
        (
            "ServiceAccount demo/reader may not be used by cells; its owner can allow it with the "
            "annotation "
        ),
    ),
    "that allows cells with another word": (
        (account(**{"kais.io/allow-cells": "yes"}),),
        (
            "ServiceAccount demo/reader may not be used by cells; its owner can allow it with the "
            "annotation "
        ),
    ),
}


@pytest.mark.parametrize(("bodies", "message"), REFUSED.values(), ids=REFUSED)
async def test_an_account_is_not_borrowed(bodies: tuple[Body, ...], message: str) -> None:
    fake = await settled(teams.lone_cell(serviceAccountName="reader"), *bodies)
    expected = ("False", "AccountNotAllowed", f'{message}kais.io/allow-cells: "true"')
    assert condition(fake, "Applied", SOLO) == expected
    assert condition(fake, "Ready", SOLO) == expected
    assert fake.knowledge.principals == {}


async def test_cells_that_share_an_account_are_at_home_in_their_nearest_common_scope() -> None:
    borrowing = {"serviceAccountName": "reader"}
    cells = [
        {"name": "lead", "spec": teams.task(**borrowing)},
        {"name": "scout", "spec": teams.task(**borrowing)},
    ]
    fake = fake_world(teams.team(cells=cells), account(**{"kais.io/allow-cells": "true"}))
    await teams.settle_team(fake)
    principal = fake.knowledge.principals["system:serviceaccount:demo:reader"]
    assert principal.home == "realm:demo/formation:team"
    assert fake.cluster.refs("ServiceAccount") == [ObjectRef("ServiceAccount", "demo", "reader")]


async def test_the_reads_of_a_pass_do_not_grow_with_those_who_share_its_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = [{"name": "lead", "spec": teams.task(serviceAccountName="reader")}]
    names = [f"team-{number}" for number in range(12)]
    fake = fake_world(*[teams.team(name, cells=cells) for name in names], account())
    for name in names:
        await teams.settle_team(fake, ObjectRef("Formation", "demo", name))
    read: list[ObjectRef] = []
    get = fake.cluster.get

    async def counting(ref: ObjectRef, **how: bool) -> Body | None:
        read.append(ref)
        return await get(ref, **how)

    monkeypatch.setattr(fake.cluster, "get", counting)
    await fake.step(cell.CONTROLLER, ObjectRef("Cell", "demo", "team-0-lead-0"))
    assert len(read) == 7


async def test_a_leave_that_is_taken_back_is_noticed() -> None:
    fake = fake_world(
        teams.lone_cell(serviceAccountName="reader"), account(**{"kais.io/allow-cells": "true"})
    )
    plan = await fake.settle(cell.CONTROLLER, SOLO)
    assert plan is not None
    assert plan.requeue_after is not None
    assert plan.requeue_after.total_seconds() == 300
    denied = {"metadata": {"annotations": {"kais.io/allow-cells": "false"}}}
    fake.cluster.edit(ObjectRef("ServiceAccount", "demo", "reader"), denied)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO)[:2] == ("False", "AccountNotAllowed")


async def test_what_a_task_cell_has_no_use_for_is_said() -> None:
    fake = await settled(
        teams.lone_cell(
            tools=[{"name": "shell"}],
            container={"image": "w:1", "env": [{"name": "KAIS_RUN_ID", "value": "x"}]},
            resources={"maxTotalCost": 1.0},
        )
    )
    assert condition(fake, "Ready", SOLO)[2] == (
        "a Task cell: its pod is created by a mission (ignored: tools (shell) apply only to "
        "cells with a mind; variables KAIS_RUN_ID are reserved for kais; limits of cost and tokens "
        "apply only to cells with a mind)"
    )


async def test_a_settled_cell_writes_nothing() -> None:
    fake = await settled(teams.lone_cell())
    initial_count = len(fake.cluster.writes)
    calls = len(fake.knowledge.calls)
    await fake.step(cell.CONTROLLER, SOLO)
    assert (len(fake.cluster.writes), len(fake.knowledge.calls)) == (initial_count, calls)


async def test_a_cell_that_is_going_makes_nothing() -> None:
    body = teams.lone_cell()
    body["metadata"] |= {"finalizers": ["x/y"], "deletionTimestamp": "2026-03-01T12:00:00Z"}
    fake = await settled(body)
    assert fake.cluster.writes == []


async def test_readiness_is_told_once() -> None:
    fake = await settled(teams.lone_cell())
    await fake.settle(cell.CONTROLLER, SOLO)
    assert [(e["type"], e["reason"]) for e in fake.cluster.events] == [("Normal", "Standby")]
