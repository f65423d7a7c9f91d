from namespace_doctor import memory, report
from namespace_doctor.diagnose import Examination
from namespace_doctor.diagnoses import Cause, Diagnosis

FACT = "0198a3de-0000-7000-8000-000000000001"


def diagnosis(pod: str, *, number: int = 1) -> Diagnosis:
    return Diagnosis(
        pod=pod,
        cause=Cause.IMAGE,
        subject=f"image missing:{number}",
        signature=f"ImagePullBackOff missing:{number}",
        explanation="cannot be pulled: nothing listens",
        advice="change the image",
    )


def render(
    *diagnoses: Diagnosis,
    given: memory.Given | None = None,
    outcome: memory.Outcome | None = None,
    left_out: int = 0,
) -> tuple[str, str]:
    examination = Examination(looked_at=9, left_out=left_out, diagnoses=diagnoses)
    return report.render(
        examination, given or memory.Given(), outcome or memory.Outcome(), namespace="demo"
    )


def test_first_report_says_what_is_new_and_remembered() -> None:
    whole, short = render(
        diagnosis("a"), diagnosis("b"), outcome=memory.Outcome(remembered=(FACT,))
    )

    assert whole == short
    assert whole.splitlines() == [
        "namespace demo: 2 of 9 pods fail for 1 reasons, 0 known before, 1 new",
        "- a, b (image-pull)",
        "  new: image missing:1 cannot be pulled: nothing listens; change the image",
        "used facts: []",
        f"remembered: [{FACT}]",
    ]


def test_second_report_names_the_fact_with_what_it_said() -> None:
    given = memory.Given((memory.KnownFact(FACT, diagnosis("a").statement),))

    whole, _ = render(diagnosis("a"), given=given)

    assert whole.splitlines() == [
        "namespace demo: 1 of 9 pods fail for 1 reasons, 1 known before, 0 new",
        "- a (image-pull)",
        f"  fact {FACT}: image missing:1 cannot be pulled: nothing listens; change the image",
        f"used facts: [{FACT}]",
        "remembered: []",
    ]


def test_fact_that_fits_nothing_is_not_named() -> None:
    given = memory.Given((memory.KnownFact(FACT, "the build is slow on Mondays"),))

    assert FACT not in render(diagnosis("a"), given=given)[0]


def test_namespace_without_failures_is_said_to_be_well() -> None:
    assert render()[0].splitlines()[0] == "namespace demo: none of 9 pods fails"


def test_notes_about_the_store_stand_in_the_report() -> None:
    given = memory.Given((), "injection is off")
    outcome = memory.Outcome(confirmed=2, notes=("the knowledge service is away",))

    whole, _ = render(diagnosis("a"), given=given, outcome=outcome)

    assert whole.splitlines()[-5:] == [
        "note: injection is off",
        "note: the knowledge service is away",
        "confirmed: 2 facts that the store had already",
        "used facts: []",
        "remembered: []",
    ]


def test_short_report_keeps_4096_bytes_and_every_fact_id() -> None:
    ids = tuple(f"{FACT[:-2]}{number:02}" for number in range(20))
    found = [diagnosis(f"pod-{number}", number=number) for number in range(60)]

    whole, short = render(*found, outcome=memory.Outcome(remembered=ids), left_out=3)

    assert len(short.encode()) <= report.LIMIT_BYTES < len(whole.encode())
    assert "more reasons stand in the cell's log" in short
    assert short.endswith(f"remembered: [{', '.join(ids)}]\n")
    assert "- 3 more failing pods are beyond --max-pods" in whole
