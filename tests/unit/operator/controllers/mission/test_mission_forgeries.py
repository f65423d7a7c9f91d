"""Missions whose annotations somebody forged: nothing breaks, nobody else's run is touched."""

import json
from typing import Any

import pytest

from kais.resources.mission import Mission
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.mission.decide.mission_observed import exec_key
from knowledge_client import models
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition
from tests.fakes.world import FakeWorld

AT = "2026-01-01T00:00:00Z"
NAIVE = "2026-01-01T00:00:00"
FIRST = "0001-01-01T00:00:00+14:00"
LAST = "9999-12-31T23:59:59Z"
DEEP = "[" * 100_000
LONG = "9" * 5000
TRY: dict[str, Any] = {
    "number": 1,
    "state": "Failed",
    "startedAt": AT,
    "finishedAt": AT,
    "words": "no",
}
TRIES = [
    {**TRY, "startedAt": NAIVE},
    {**TRY, "startedAt": LAST},
    {**TRY, "startedAt": FIRST},
    {**TRY, "finishedAt": NAIVE},
    {**TRY, "message": 5},
    {**TRY, "message": "\ud800"},
    {**TRY, "words": ["a"]},
    {**TRY, "exitCode": "a"},
    {**TRY, "number": 10**30},
    {**TRY, "number": True},
]
ENDINGS: list[Any] = [
    {"finishedAt": NAIVE},
    {"finishedAt": FIRST},
    {"startedAt": NAIVE},
    {"words": 5},
    {"words": "\ud800"},
    {"attempt": "x"},
    {"attempt": -4},
    {"attempt": 10**30},
    {"receipt": [1]},
    {"injected": "x"},
    {"injected": -1},
    {"injected": 1.5},
    {"tries": [TRY] * 5000},
    *({"tries": [first_try]} for first_try in TRIES),
]
EARLIER = {"runId": "a", "outcome": "Failed", "attempt": 1}
FORGED = [
    *(("kais.io/ending", json.dumps(first_try)) for first_try in ENDINGS),
    *(("kais.io/attempts", json.dumps([first_try])) for first_try in TRIES),
    *((f"kais.io/{name}", DEEP) for name in ("ending", "attempts", "earlier-runs", "review")),
    ("kais.io/parameters", DEEP),
    ("kais.io/attempts", f'[{{"number": {LONG}}}]'),
    ("kais.io/review", f'{{"attempt": {LONG}}}'),
    ("kais.io/review", '{"attempt": 1, "verdict": "reject", "feedback": "\\ud800"}'),
    ("kais.io/earlier-runs", json.dumps([{**EARLIER, "startedAt": NAIVE}])),
    ("kais.io/earlier-runs", json.dumps([{**EARLIER, "attempt": float("inf")}])),
    ("kais.io/accepted-at", NAIVE),
    ("kais.io/accepted-at", "soon"),
    ("kais.io/accepted-at", LAST),
    ("kais.io/held-until", NAIVE),
    ("kais.io/held-until", "soon"),
    ("kais.io/held-until", LAST),
    ("kais.io/run-id", "x" * 5000),
    ("kais.io/run-id", "../../v1/facts"),
]


async def let_go(fake: FakeWorld) -> None:
    """Pass over a mission, delete it, and see that nothing holds it."""
    for _ in range(4):
        await teams.pass_(fake)
    fake.cluster.remove(MISSION)
    for _ in range(4):
        await teams.pass_(fake)
    assert MISSION not in fake.cluster.refs()


@pytest.mark.parametrize(("name", "text"), FORGED, ids=lambda text: text[:60])
@pytest.mark.parametrize("outcome", [None, "Failed"])
async def test_an_annotation_that_somebody_forged_neither_breaks_a_pass_nor_holds_the_object(
    name: str, text: str, outcome: str | None
) -> None:
    fake = await teams.started()
    fields = {name: text} | ({"kais.io/outcome": outcome} if outcome else {})
    fake.cluster.edit(MISSION, {"metadata": {"annotations": fields}})
    await let_go(fake)


async def test_a_number_too_long_to_read_on_a_job_or_its_map_is_no_number() -> None:
    fake = await teams.started()
    for ref in [*fake.cluster.refs("Job"), *fake.cluster.refs("ConfigMap")]:
        forged = {"kais.io/attempt": LONG, "kais.io/injected": LONG}
        fake.cluster.edit(ref, {"metadata": {"annotations": forged}})
    teams.succeed(fake)
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[0] == "True"


@pytest.mark.parametrize("name", ["Team_A", "a/../b", "team."])
@pytest.mark.parametrize("field", ["formationRef", "cellRef"])
async def test_a_reference_that_no_object_can_have_as_name_ends_the_mission_in_words(
    field: str, name: str
) -> None:
    spec = {"formationRef": None, field: name}
    fake = await teams.ready_world(teams.work(**spec))
    await teams.settle(fake)
    fake.clock.advance(300)
    await teams.settle(fake)
    kind = field.removesuffix("Ref").capitalize()
    assert condition(fake, "Succeeded")[2] == (
        f"not started within 5m: {kind}/demo/{name} does not exist; create it"
    )
    await let_go(fake)


@pytest.mark.parametrize("label", ["kais.io/blueprint", "kais.io/cell-template"])
async def test_a_label_that_is_no_name_in_a_scope_breaks_neither_cell_nor_mission(
    label: str,
) -> None:
    fake = await teams.started()
    for ref in (teams.FORMATION, *fake.cluster.refs("Cell")):
        fake.cluster.edit(ref, {"metadata": {"labels": {label: "A_b.c"}}})
    for ref in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, ref)
        assert condition(fake, "Ready", ref)[0] == "True"
    await let_go(fake)


def victim(fake: FakeWorld) -> models.Run:
    """Another namespace's run that goes on."""
    run = models.Run(
        run_id="victim",
        kind="mission",
        namespace="other",
        scope="realm:other/formation:team",
        opened_at=fake.clock.now(),
    )
    fake.knowledge.realms["other"].runs["victim"] = run
    return run


@pytest.mark.parametrize("outcome", [None, "Failed"])
async def test_a_mission_that_borrows_a_run_of_another_namespace_changes_nothing_of_it(
    outcome: str | None,
) -> None:
    fake = await teams.started()
    run = victim(fake)
    fields = {"kais.io/run-id": "victim"} | ({"kais.io/outcome": outcome} if outcome else {})
    fake.cluster.edit(MISSION, {"metadata": {"annotations": fields}})
    for _ in range(4):
        await teams.pass_(fake)
    await let_go(fake)
    other_realm = fake.knowledge.realms["other"]
    assert other_realm.runs == {"victim": run}
    assert not other_realm.episodes
    assert not other_realm.extractions
    assert fake.knowledge.runs["victim"].outcome == (outcome or "Cancelled")


async def test_an_unreadable_mission_that_is_deleted_closes_no_run_of_another_namespace() -> None:
    fake = await teams.started()
    run = victim(fake)
    broken = {"spec": {"completion": {"timeout": "soon"}}}
    annotated = {"metadata": {"annotations": {"kais.io/run-id": "victim"}}}
    fake.cluster.edit(MISSION, {**broken, **annotated})
    await let_go(fake)
    assert fake.knowledge.realms["other"].runs == {"victim": run}


async def test_an_unreadable_mission_without_its_run_id_is_let_go() -> None:
    fake = await teams.started()
    broken = {"spec": {"completion": {"timeout": "soon"}}}
    fake.cluster.edit(MISSION, {**broken, "metadata": {"annotations": {"kais.io/run-id": None}}})
    await let_go(fake)


async def test_checks_of_two_missions_are_kept_apart_although_they_name_one_run() -> None:
    mission, other_mission = (
        Mission.from_dict(
            teams.work(name, metadata={"uid": name, "annotations": {"kais.io/run-id": "victim"}})
        )
        for name in ("one", "other")
    )
    assert exec_key(mission, 1, "tests") != exec_key(other_mission, 1, "tests")
