"""What is learnt of a run: asked for once, polled, and told."""

import pytest

from kais_operator.planning.plan import Body
from knowledge_client import errors, models
from tests.fakes import teams
from tests.fakes.teams import condition, ended, finalizers, passes, status


async def test_the_facts_of_a_run_have_its_realms_scopes_counted_at_once() -> None:
    fake = await teams.started()
    fake.knowledge.extraction_state = "pending"
    teams.succeed(fake)
    await teams.settle(fake)
    fake.sync_state.scope_stats("realm:demo/formation:team")
    await fake.refresh_stats()
    assert fake.sync_state.due_stats().scopes == ()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction.model_validate(
        {**fake.knowledge.extractions[run_id].model_dump(), "state": "done"}
    )
    await teams.settle(fake)
    assert fake.sync_state.due_stats().scopes == ("realm:demo/formation:team",)


async def test_extraction_is_polled_until_it_is_done() -> None:
    fake = await teams.started()
    fake.knowledge.extraction_state = "pending"
    teams.succeed(fake)
    plan = await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "ExtractionPending",
        "the knowledge service is extracting facts from the run",
    )
    assert condition(fake, "Recorded")[0] == "True"
    assert plan.requeue_after.total_seconds() == 1
    fake.clock.advance(600)
    plan = await teams.settle(fake)
    assert plan.requeue_after.total_seconds() == 30
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction(
        run_id=run_id, state="done", facts=("a", "b", "c")
    )
    plan = await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == ("True", "Extracted", "3 facts extracted")
    assert status(fake)["display"]["facts"] == "0 in, 3 out"
    assert plan.requeue_after is None


EXTRACTIONS = {
    "few facts with their reason": (
        {"state": "done", "facts": ("a",), "reason": "one error recurred"},
        ("True", "Extracted", "1 fact extracted: one error recurred"),
    ),
    "none with the reason": (
        {"state": "done", "reason": "nothing went wrong"},
        ("True", "NothingToExtract", "0 facts extracted: nothing went wrong"),
    ),
    "a model that does not answer yet": (
        {"state": "pending", "reason": "429; asked again later"},
        (
            "False",
            "ExtractionPending",
            "the knowledge service is extracting facts from the run: 429; asked again later",
        ),
    ),
    "a failure with its reason": (
        {"state": "failed", "reason": "the model refused"},
        ("False", "ExtractionFailed", "no facts could be extracted: the model refused"),
    ),
}


@pytest.mark.parametrize(("expected", "told"), EXTRACTIONS.values(), ids=EXTRACTIONS)
async def test_extraction_tells(expected: Body, told: tuple[str, str, str]) -> None:
    fake = await ended()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction.model_validate(
        {"run_id": run_id, **expected}
    )
    await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == told
    assert status(fake)["outcome"] == "Succeeded"


NO_EXTRACTION = {
    "the mission asks for none": (teams.work(knowledge={"extract": False}),),
    "its scope asks for none": (teams.work(), teams.scope(extraction={"enabled": False})),
}


@pytest.mark.parametrize("bodies", NO_EXTRACTION.values(), ids=NO_EXTRACTION)
async def test_nothing_is_extracted_when(bodies: tuple[Body, ...]) -> None:
    fake = await ended(*bodies)
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "ExtractionDisabled",
        "the mission or its scope asked for no extraction",
    )
    assert condition(fake, "Recorded")[0] == "True"
    assert fake.knowledge.extractions == {}


async def test_a_mission_that_asks_for_extraction_gets_it_whatever_its_scope_says() -> None:
    tasks = teams.work(knowledge={"extract": True})
    fake = await ended(tasks, teams.scope(extraction={"enabled": False}))
    assert condition(fake, "KnowledgeExtracted")[0] == "True"


async def test_a_failed_run_leaves_knowledge_too() -> None:
    fake = await teams.started(teams.work(completion={"maxAttempts": 1}))
    teams.fail(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert condition(fake, "KnowledgeExtracted")[0] == "True"


async def test_a_store_that_went_away_between_closing_and_extraction_is_asked_again() -> None:
    fake = await teams.started()
    reset = errors.KnowledgeUnavailable("start_extraction: connection reset")
    fake.knowledge.refusals["start_extraction"] = reset
    teams.succeed(fake)
    await passes(fake)
    assert condition(fake, "Recorded")[1] == "RecordingPending"
    assert finalizers(fake) == ["kais.io/finalizer"]
    fake.knowledge.refusals.clear()
    await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted")[0] == "True"
    (episodes,) = fake.knowledge.episodes.values()
    assert len(episodes) == 1


async def test_facts_that_cells_stored_count_beside_the_extracted_ones() -> None:
    fake = await ended()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction(
        run_id=run_id, state="done", facts=("a", "b")
    )
    fake.knowledge.remembered[run_id] = ("c",)
    await teams.settle(fake)
    assert status(fake)["display"]["facts"] == "0 in, 3 out"
    known = status(fake)["knowledge"]
    assert (known["extracted"], known["remembered"]) == (2, 1)


async def test_facts_that_cells_stored_count_without_an_extraction() -> None:
    fake = await ended(teams.work(knowledge={"extract": False}))
    (run_id,) = fake.knowledge.runs
    fake.knowledge.remembered[run_id] = ("c",)
    await teams.settle(fake)
    assert status(fake)["display"]["facts"] == "0 in, 1 out"


async def test_the_number_stays_while_the_service_does_not_answer() -> None:
    fake = await ended()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.remembered[run_id] = ("c", "d")
    await teams.settle(fake)
    known = status(fake)["knowledge"]["remembered"]
    fake.knowledge.away = True
    await teams.settle(fake)
    assert status(fake)["knowledge"]["remembered"] == known == 2
