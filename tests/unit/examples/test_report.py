import json

from namespace_doctor import memory, report
from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Cause, Diagnosis

FACT = "0198a3de-0000-7000-8000-000000000001"
SAID = "image missing:1 cannot be pulled: nothing listens; change the image"


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
    given: memory.Given | None = None,
    outcome: memory.Outcome | None = None,
    left_out: int = 0,
) -> report.Report:
    examination = Examination(looked_at=9, left_out=left_out, diagnoses=diagnoses)
    return report.make(
        examination, given or memory.Given(), outcome or memory.Outcome(), namespace="demo"
    )


def test_first_report_says_what_is_new_and_remembered() -> None:
    made = make(diagnosis("a"), diagnosis("b"), outcome=memory.Outcome(remembered=(FACT,)))

    assert made.text().splitlines() == [
        "namespace demo: 2 of 9 pods fail; reasons known before: 0, new: 1",
        "- a, b (image-pull)",
        f"  new: {SAID}",
        "used facts: []",
        f"remembered: [{FACT}]",
    ]
    assert json.loads(made.result()) == {
        "summary": "namespace demo: 2 of 9 pods fail; reasons known before: 0, new: 1",
        "pods": [{"pods": ["a", "b"], "cause": "image-pull", "explanation": SAID}],
        "used_facts": [],
        "remembered_facts": [FACT],
    }


def test_second_report_names_the_fact_with_what_it_said() -> None:
    made = make(diagnosis("a"), given=memory.Given((memory.KnownFact(FACT, SAID),)))

    assert f"  fact {FACT}: {SAID}" in made.text().splitlines()
    assert json.loads(made.result()) == {
        "summary": "namespace demo: 1 of 9 pods fail; reasons known before: 1, new: 0",
        "pods": [{"pods": ["a"], "cause": "image-pull", "known_from": {FACT: SAID}}],
        "used_facts": [FACT],
        "remembered_facts": [],
    }


def test_fact_with_other_words_stands_beside_what_is_seen() -> None:
    other = "image missing:1 cannot be pulled: the registry moved"

    made = make(diagnosis("a"), given=memory.Given((memory.KnownFact(FACT, other),)))

    (entry,) = json.loads(made.result())["pods"]
    assert (entry["explanation"], entry["known_from"]) == (SAID, {FACT: other})


def test_fact_that_fits_nothing_is_not_named() -> None:
    given = memory.Given((memory.KnownFact(FACT, "the build is slow on Mondays"),))

    assert FACT not in make(diagnosis("a"), given=given).text()


def test_namespace_without_failures_is_said_to_be_well() -> None:
    assert make().text().splitlines()[0] == "namespace demo: none of 9 pods fails"


def test_notes_about_the_store_stand_in_the_report() -> None:
    given = memory.Given((), "injection is off")
    outcome = memory.Outcome(confirmed=2, notes=("the knowledge service is away",))

    made = make(diagnosis("a"), given=given, outcome=outcome, left_out=3)

    notes = [
        "injection is off",
        "the knowledge service is away",
        "the store had 2 of these facts already",
        "3 more failing pods are beyond --max-pods",
    ]
    assert json.loads(made.result())["notes"] == notes
    assert [line for line in made.text().splitlines() if line.startswith("note: ")] == [
        f"note: {note}" for note in notes
    ]


def test_result_keeps_4096_bytes_and_every_fact_id() -> None:
    ids = tuple(f"{FACT[:-2]}{number:02}" for number in range(20))
    found = [diagnosis(f"pod-{number}", number=number) for number in range(60)]

    made = make(*found, outcome=memory.Outcome(remembered=ids))

    assert len(made.result().encode()) <= report.LIMIT_BYTES < len(made.text().encode())
    result = json.loads(made.result())
    assert result["more"] == f"{60 - len(result['pods'])} more reasons stand in the cell's log"
    assert result["remembered_facts"] == list(ids)
