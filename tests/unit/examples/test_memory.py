import json
from pathlib import Path

from knowledge_client import ErrorCode, errors, models
from namespace_doctor import memory
from namespace_doctor.diagnoses import Cause, Diagnosis

IMAGE = Diagnosis(
    pod="missing-image-one",
    cause=Cause.IMAGE,
    subject="image 127.0.0.1:1/missing:1",
    signature="ImagePullBackOff 127.0.0.1:1/missing:1",
    explanation="cannot be pulled: connection refused, nothing listens at 127.0.0.1:1",
    advice="change the image or start that registry",
)
CRASH = Diagnosis(
    pod="crash-loop",
    cause=Cause.CRASH,
    subject="container crash-loop/app",
    signature="CrashLoopBackOff crash-loop/app exit 1",
    explanation="exits with code 1 and is restarted again and again",
    advice="read its last words",
)
SCENARIO = memory.RecalledKnowledge()


class FakeStore:
    """Takes what it is told; refuses facts about the subjects in `corrected`."""

    def __init__(self, *, corrected: str = "", known_name: str = "", is_away: bool = False) -> None:
        self.corrected, self.known, self.is_away = corrected, known_name, is_away
        self.facts: list[models.FactIn] = []
        self.episodes: list[models.EpisodesIn] = []

    def remember(self, fact: models.FactIn) -> models.Remembered:
        if self.is_away:
            raise errors.KnowledgeUnavailable("POST /v1/facts: no answer from http://store")
        if fact.subject == self.corrected:
            problem = models.Problem(
                title="refused",
                status=409,
                code=ErrorCode.RETRACTED_BEFORE,
                detail="retracted: wrong",
            )
            raise errors.Conflict("retracted before: wrong", problem=problem)
        self.facts.append(fact)
        status = "confirmed" if fact.subject == self.known else "created"
        return models.Remembered(fact_id=f"id-{len(self.facts)}", status=status)

    def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted:
        self.episodes.append(episodes)
        return models.EpisodesAccepted(accepted=len(episodes.episodes), duplicates=0)


def given_file(folder: Path, *facts: dict, **extra_fields: object) -> Path:
    path = folder / "knowledge.json"
    path.write_text(json.dumps({"note": "data", "receipt": "r", "facts": facts, **extra_fields}))
    return path


def new_facts(
    *diagnoses: Diagnosis, scenario: memory.RecalledKnowledge = SCENARIO
) -> list[models.FactIn]:
    return memory.new_facts(diagnoses, scenario, memory.Origin("run-1", 1, "demo/doctor-x1"))


def record(
    *diagnoses: Diagnosis, scenario: memory.RecalledKnowledge = SCENARIO
) -> tuple[models.EpisodeIn, ...]:
    return memory.episodes(diagnoses, scenario, namespace="demo", attempt=2)


def test_new_fact_says_what_is_true_of_the_subject_and_not_of_the_pod() -> None:
    (fact,) = new_facts(IMAGE)

    assert fact.content == (
        "image 127.0.0.1:1/missing:1 cannot be pulled: connection refused, nothing listens at"
        " 127.0.0.1:1; change the image or start that registry"
    )
    assert "missing-image-one" not in fact.model_dump_json()
    assert (fact.subject, fact.predicate) == (IMAGE.subject, "fails because")
    assert fact.tags == ("kubernetes", "failing-pod", "image-pull")
    assert (fact.run, fact.attempt, fact.scope) == ("run-1", 1, None)
    assert fact.source is not None
    assert [(r.type, r.id) for r in fact.source.refs] == [
        ("run", "run-1"),
        ("mission", "demo/doctor-x1"),
    ]


def test_two_pods_with_one_reason_make_one_fact() -> None:
    assert len(new_facts(IMAGE, IMAGE, CRASH)) == 2


def test_fact_that_was_given_is_not_remembered_again(tmp_path: Path) -> None:
    scenario = memory.read_knowledge(given_file(tmp_path, {"id": "f1", "content": IMAGE.statement}))

    assert [fact.subject for fact in new_facts(IMAGE, CRASH, scenario=scenario)] == [CRASH.subject]
    assert [fact.id for fact in scenario.facts_about(IMAGE)] == ["f1"]
    assert scenario.facts_about(CRASH) == ()


def test_fact_that_names_the_signature_is_used_and_does_not_stand_for_the_explanation(
    tmp_path: Path,
) -> None:
    content = f"error {IMAGE.signature} recurred 2 times"
    scenario = memory.read_knowledge(given_file(tmp_path, {"id": "f2", "content": content}))

    assert [fact.id for fact in scenario.facts_about(IMAGE)] == ["f2"]
    assert [fact.subject for fact in new_facts(IMAGE, scenario=scenario)] == [IMAGE.subject]


def test_fact_with_another_reason_for_the_subject_is_named_and_replaced(tmp_path: Path) -> None:
    content = f"{CRASH.subject} exits with code 9; read its last words"
    scenario = memory.read_knowledge(given_file(tmp_path, {"id": "f3", "content": content}))

    assert [fact.id for fact in scenario.facts_about(CRASH)] == ["f3"]
    assert [fact.content for fact in new_facts(CRASH, scenario=scenario)] == [CRASH.statement]


def test_reason_for_no_knowledge_is_passed_on(tmp_path: Path) -> None:
    scenario = memory.read_knowledge(given_file(tmp_path, reason="injection is off"))

    assert scenario == memory.RecalledKnowledge((), "injection is off")


def test_missing_or_damaged_knowledge_is_a_note_and_no_failure(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")

    assert memory.read_knowledge(None).note == (
        "no knowledge was given: KAIS_KNOWLEDGE_FILE is not set"
    )
    assert f"the given knowledge in {damaged} cannot be read" in memory.read_knowledge(damaged).note


def test_record_has_one_error_a_container_and_the_decision() -> None:
    *episodes, decision = record(IMAGE, CRASH)

    assert [(e.type, e.error_signature, e.attempt) for e in episodes] == [
        ("error", IMAGE.signature, 2),
        ("error", CRASH.signature, 2),
    ]
    assert episodes[0].refs[0].id == "demo/missing-image-one"
    assert decision.content == (
        "explained 2 failing containers of namespace demo: 0 by facts that were given, 2 anew"
    )


def test_only_facts_that_are_new_in_the_store_are_named_as_remembered() -> None:
    store = FakeStore(known_name=IMAGE.subject)

    outcome = memory.store_knowledge(
        store, new_facts(IMAGE, CRASH), record(IMAGE, CRASH), run_id="run-1"
    )

    assert outcome == memory.Outcome(("id-2",), confirmed=1)
    assert [batch.run_id for batch in store.episodes] == ["run-1"]


def test_fact_that_somebody_corrected_is_left_alone_and_said() -> None:
    store = FakeStore(corrected=IMAGE.subject)

    outcome = memory.store_knowledge(store, new_facts(IMAGE, CRASH), record(IMAGE), run_id="run-1")

    assert outcome.remembered == ("id-1",)
    assert outcome.notes == (
        "not remembered about image 127.0.0.1:1/missing:1: retracted before: wrong",
    )


def test_store_that_is_away_is_a_note() -> None:
    outcome = memory.store_knowledge(FakeStore(is_away=True), new_facts(IMAGE), (), run_id="run-1")

    (note,) = outcome.notes
    assert note == (
        "the knowledge service did not take everything: POST /v1/facts: no answer from http://store"
    )


def test_doctor_outside_a_mission_keeps_no_record() -> None:
    store = FakeStore()

    memory.store_knowledge(store, new_facts(IMAGE), record(IMAGE), run_id=None)

    assert store.episodes == []
