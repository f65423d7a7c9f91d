import json

from namespace_doctor import memory, report
from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Cause, Diagnosis

FACT = "0198a3de-0000-7000-8000-000000000001"
MESSAGE = "image missing:1 cannot be pulled: nothing listens; change the image"


def diagnosis(pod: str, *, number: int = 1) -> Diagnosis:
    return Diagnosis(
        pod=pod,
        cause=Cause.IMAGE,
        subject=f"image missing:{number}",
        signature=f"ImagePullBackOff missing:{number}",
        explanation="cannot be pulled: nothing listens",
        advice="change the image",
    )


def make(
    *diagnoses: Diagnosis,
    scenario: memory.RecalledKnowledge | None = None,
    outcome: memory.Outcome | None = None,
    left_out: int = 0,
) -> report.Report:
    examination = Examination(examined_pods=9, omitted_pods=left_out, diagnoses=diagnoses)
    return report.build_report(
        examination,
        scenario or memory.RecalledKnowledge(),
        outcome or memory.Outcome(),
        namespace="demo",
    )


def test_first_report_says_what_is_new_and_remembered() -> None:
    report = make(diagnosis("a"), diagnosis("b"), outcome=memory.Outcome(remembered=(FACT,)))

    assert report.text().splitlines() == [
        "namespace demo: 2 of 9 pods fail; reasons known before: 0, new: 1",
        "- a, b (image-pull)",
        f"  new: {MESSAGE}",
        "used facts: []",
        f"remembered: [{FACT}]",
    ]
    assert json.loads(report.result()) == {
        "summary": "namespace demo: 2 of 9 pods fail; reasons known before: 0, new: 1",
        "pods": [{"pods": ["a", "b"], "cause": "image-pull", "explanation": MESSAGE}],
        "used_facts": [],
        "remembered_facts": [FACT],
    }


def test_second_report_names_the_fact_with_what_it_said() -> None:
    report = make(
        diagnosis("a"), scenario=memory.RecalledKnowledge((memory.KnownFact(FACT, MESSAGE),))
    )

    assert f"  fact {FACT}: {MESSAGE}" in report.text().splitlines()
    assert json.loads(report.result()) == {
        "summary": "namespace demo: 1 of 9 pods fail; reasons known before: 1, new: 0",
        "pods": [{"pods": ["a"], "cause": "image-pull", "known_from": {FACT: MESSAGE}}],
        "used_facts": [FACT],
        "remembered_facts": [],
    }


def test_fact_with_other_words_stands_beside_what_is_seen() -> None:
    other_message = "image missing:1 cannot be pulled: the registry moved"

    report = make(
        diagnosis("a"), scenario=memory.RecalledKnowledge((memory.KnownFact(FACT, other_message),))
    )

    (entry,) = json.loads(report.result())["pods"]
    assert (entry["explanation"], entry["known_from"]) == (MESSAGE, {FACT: other_message})


def test_fact_that_fits_nothing_is_not_named() -> None:
    scenario = memory.RecalledKnowledge((memory.KnownFact(FACT, "the build is slow on Mondays"),))

    assert FACT not in make(diagnosis("a"), scenario=scenario).text()


def test_namespace_without_failures_is_said_to_be_well() -> None:
    assert make().text().splitlines()[0] == "namespace demo: none of 9 pods fails"


def test_notes_about_the_store_stand_in_the_report() -> None:
    scenario = memory.RecalledKnowledge((), "injection is off")
    outcome = memory.Outcome(confirmed=2, notes=("the knowledge service is away",))

    report = make(diagnosis("a"), scenario=scenario, outcome=outcome, left_out=3)

    notes = [
        "injection is off",
        "the knowledge service is away",
        "the store had 2 of these facts already",
        "3 more failing pods are beyond --max-pods",
    ]
    assert json.loads(report.result())["notes"] == notes
    assert [line for line in report.text().splitlines() if line.startswith("note: ")] == [
        f"note: {note}" for note in notes
    ]


def test_result_keeps_4096_bytes_and_every_fact_id() -> None:
    ids = tuple(f"{FACT[:-2]}{number:02}" for number in range(20))
    matching_diagnosis = [diagnosis(f"pod-{number}", number=number) for number in range(60)]

    full_report = make(*matching_diagnosis, outcome=memory.Outcome(remembered=ids))

    assert (
        len(full_report.result().encode()) <= report.LIMIT_BYTES < len(full_report.text().encode())
    )
    result = json.loads(full_report.result())
    assert result["more"] == f"{60 - len(result['pods'])} more reasons stand in the cell's log"
    assert result["remembered_facts"] == list(ids)
