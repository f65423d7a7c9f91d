"""An id names a run of the caller's realm, and none that the caller may not see."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import EpisodesIn, ExtractionIn, FactIn, RecallIn
from tests.contract.service.callers import OPERATOR, Connect, refused
from tests.knowledge_builders import OTHER, TEAM, episode, run_in

CODE = errors.ErrorCode
STRANGERS = f"{OTHER}/cell:x"


async def test_id_that_another_realm_has_taken_is_free(connect: Connect) -> None:
    theirs = run_in(kind="session", namespace="other", scope=STRANGERS)
    await connect("stranger").put_run("nightly", theirs)
    opened = await connect("gardener").put_run("nightly", run_in())
    assert (opened.namespace, opened.scope) == ("demo", TEAM)
    assert (await connect("lead").get_run("nightly")).namespace == "demo"
    assert (await connect("stranger").get_run("nightly")).namespace == "other"


async def test_answers_are_the_same_whether_another_realm_has_the_id(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    headers = {"Authorization": "Bearer lead"}
    calls = (
        ("GET", "/v1/runs/nightly", None),
        ("GET", "/v1/runs/nightly/episodes", None),
        ("GET", "/v1/extractions/nightly", None),
        ("GET", "/v1/runs/nightly?namespace=other", None),
        ("POST", "/v1/episodes",
         {"run_id": "nightly", "episodes": [{"type": "message", "content": "x"}]}),
        ("POST", "/v1/extractions", {"run_id": "nightly"}),
        ("POST", "/v1/recall", {"query": "rain", "run": "nightly"}),
        ("POST", "/v1/facts", {"content": "rain", "run": "nightly"}),
    )  # fmt: skip

    async def answers() -> list[tuple[int, bytes]]:
        results = []
        for method, path, body in calls:
            answer = await http.request(method, path, json=body, headers=headers)
            results.append((answer.status_code, answer.content))
        return results

    initial_items = await answers()
    theirs = run_in(kind="session", namespace="other", scope=STRANGERS)
    await connect("stranger").put_run("nightly", theirs)
    assert await answers() == initial_items
    assert {status for status, _ in initial_items} == {404}


async def test_caller_of_many_realms_names_the_namespace(connect: Connect) -> None:
    operator = connect("operator")
    for namespace, scope in (("demo", TEAM), ("other", OTHER)):
        run = run_in(namespace=namespace, scope=scope, outcome="Failed")
        await operator.put_run("nightly", run)
    message = "run nightly exists in each of realm:demo, realm:other; name its namespace"
    assert await refused(operator.get_run("nightly"), CODE.CONFLICT) == message
    lines = EpisodesIn(run_id="nightly", episodes=(episode("a"),))
    assert await refused(operator.add_episodes(lines), CODE.CONFLICT) == message
    await operator.add_episodes(lines.model_copy(update={"namespace": "other"}))
    await operator.start_extraction(ExtractionIn(run_id="nightly", namespace="other"))
    assert (await operator.get_run("nightly", namespace="demo")).namespace == "demo"
    theirs = await operator.list_episodes("nightly", namespace="other")
    assert [item.content for item in theirs.episodes] == ["a"]
    assert (await operator.list_episodes("nightly", namespace="demo")).episodes == ()
    assert (await operator.get_extraction("nightly", namespace="other")).state == "pending"
    with pytest.raises(errors.NotFound):
        await operator.get_extraction("nightly", namespace="demo")


async def test_session_of_an_agent_hides_no_mission_elsewhere(connect: Connect) -> None:
    operator = connect("operator")
    await operator.put_run("nightly", run_in())
    theirs = run_in(kind="session", namespace="other", scope=STRANGERS)
    await connect("stranger").put_run("nightly", theirs)
    assert (await operator.get_run("nightly")).namespace == "demo"


async def test_runs_are_paged_across_realms(connect: Connect) -> None:
    operator = connect("operator")
    for namespace, scope in (("demo", TEAM), ("other", OTHER)):
        for name in ("nightly", "weekly"):
            await operator.put_run(name, run_in(namespace=namespace, scope=scope))
    names, cursor = [], None
    while True:
        page = await operator.list_runs(limit=1, cursor=cursor)
        names += [(run.namespace, run.run_id) for run in page.runs]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(set(names)) == len(names) == 4


async def test_recall_and_fact_of_a_cell_belong_to_the_run_of_its_own_realm(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    operator = connect("operator")
    await operator.put_run("nightly", run_in(namespace="other", scope=OTHER))
    await operator.put_run("nightly", run_in(mission="m"))
    fact = await connect("lead").remember(FactIn(content="rain at noon", run="nightly"))
    fact_provenance = await connect("lead").why(fact.fact_id)
    assert fact_provenance.run is not None
    assert fact_provenance.run.mission == "m"
    recalled = await connect("lead").recall(RecallIn(query="rain", run="nightly"))
    assert recalled.receipt
    response = await http.post(
        "/v1/facts", json={"content": "snow", "scope": TEAM, "run": "nightly"}, headers=OPERATOR
    )
    assert response.status_code == 201
