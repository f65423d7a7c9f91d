"""How one check judges what it saw."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kais.resources.check import Check, CheckStatus
from kais_operator.controllers.mission.decide import check_results
from kais_operator.controllers.mission.decide.check_results import Output, Result
from kais_operator.planning.container_results import Process

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def check(**spec: Any) -> Check:
    body = {"name": "one", "type": "command", **spec}
    if body["type"] in ("command", "coverage") and "argv" not in body:
        body.setdefault("command", "make test")
    return Check.from_dict(body)


def ended(code: int = 0, text: str = "", *, took_s: float = 1) -> Process:
    return Process(NOW - timedelta(seconds=took_s), NOW, code, text)


def judged(spec: Check, process: Process | None, output: Output | None = None) -> tuple[str, str]:
    result = check_results.evaluate(spec, process, output, NOW)
    return result.status.value, result.message


COVERAGE = {"type": "coverage", "jsonPath": "totals.percent", "operator": ">=", "value": 80}
TABLE: dict[str, tuple[dict[str, Any], Process | None, Output | None, tuple[str, str]]] = {
    "a command that ends with 0 passes": ({}, ended(), None, ("Passed", "")),
    "a command that ends otherwise fails with its last line": (
        {}, ended(2, "running\n3 failed"), None, ("Failed", "exit code 2: 3 failed"),
    ),
    "failPattern counts before successPattern": (
        {"failPattern": "FAIL", "successPattern": "ok"}, ended(), Output("ok FAIL", fails=True),
        ("Failed", "the output matches failPattern 'FAIL'"),
    ),
    "successPattern counts before the exit code": (
        {"successPattern": "ok"}, ended(1), Output("ok", succeeds=True), ("Passed", ""),
    ),
    "a successPattern that is missing fails, whatever the exit code": (
        {"successPattern": "ok"}, ended(0), Output("no", succeeds=False),
        ("Failed", "the output does not match successPattern 'ok'"),
    ),
    "without failPattern in the output the exit code decides": (
        {"failPattern": "FAIL"}, ended(1, "broken"), Output("", fails=False),
        ("Failed", "exit code 1: broken"),
    ),
    "a pattern is waited for until the output is read": (
        {"failPattern": "x"}, ended(), None, ("Pending", ""),
    ),
    "a pattern that nobody could look for is an error": (
        {"failPattern": "x"}, ended(), Output(problem="its pattern is too slow: more than 2 s"),
        ("Error", "its pattern is too slow: more than 2 s"),
    ),
    "a check that runs is pending": ({}, Process(NOW), None, ("Pending", "")),
    "a check that nobody started is pending": ({}, None, None, ("Pending", "")),
    "a check past its timeout is an error": (
        {"timeoutSeconds": 5}, Process(NOW - timedelta(seconds=5)), None,
        ("Error", "it did not end within 5 s"),
    ),
    "one that ended too late while nobody looked is judged by its own times": (
        {"timeoutSeconds": 5}, ended(took_s=6), None, ("Error", "it did not end within 5 s"),
    ),
    "one that ended in time is judged although nobody looked then": (
        {"timeoutSeconds": 5}, ended(took_s=5), None, ("Passed", ""),
    ),
    "what could not be run is an error": (
        {}, Process(failure="no such container"), None, ("Error", "no such container"),
    ),
    "a file that is missing fails by name": (
        {"type": "fileExists", "paths": ["a"]}, ended(1, "missing: a"), None,
        ("Failed", "missing: a"),
    ),
    "a path out of the workspace is an error": (
        {"type": "fileExists", "paths": ["/etc/passwd"]},
        ended(2, "not inside the workspace: /etc/passwd"), None,
        ("Error", "the files could not be looked for: not inside the workspace: /etc/passwd"),
    ),
    "coverage compares the number at its path": (
        COVERAGE, ended(), Output('{"totals": {"percent": 81.5}}'), ("Passed", "81.5 >= 80"),
    ),
    "coverage below its value fails": (
        COVERAGE, ended(), Output('{"totals": {"percent": 79}}'), ("Failed", "not 79 >= 80"),
    ),
    "coverage finds the JSON after other lines": (
        COVERAGE, ended(), Output('warning: old\n{"totals": {"percent": 80}}'),
        ("Passed", "80 >= 80"),
    ),
    "coverage without JSON is an error": (
        COVERAGE, ended(1), Output("crash"),
        ("Error", "the command printed no JSON (exit code 1)"),
    ),
    "coverage with nothing at its path is an error": (
        COVERAGE, ended(), Output('{"totals": {}}'),
        ("Error", "there is no number at jsonPath 'totals.percent'"),
    ),
    "coverage of something that is no number is an error": (
        COVERAGE, ended(), Output('{"totals": {"percent": true}}'),
        ("Error", "there is no number at jsonPath 'totals.percent'"),
    ),
    "coverage follows lists": (
        {**COVERAGE, "jsonPath": "runs.1.percent", "operator": "<"}, ended(),
        Output('{"runs": [{}, {"percent": 3}]}'), ("Passed", "3 < 80"),
    ),
    "a nesting that no parser survives is not JSON": (
        COVERAGE, ended(), Output("[" * 200_000),
        ("Error", "the command printed no JSON (exit code 0)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "process", "output", "told"), TABLE.values(), ids=TABLE)
def test_a_check_is_judged(
    spec: dict[str, Any], process: Process | None, output: Output | None, told: tuple[str, str]
) -> None:
    assert judged(check(**spec), process, output) == told


@pytest.mark.parametrize(
    ("sign", "passes"), [(">=", True), ("<=", True), ("==", True), (">", False), ("<", False)]
)
def test_each_operator_compares(sign: str, passes: bool) -> None:
    spec = check(type="coverage", operator=sign, value=80)
    status, _ = judged(spec, ended(), Output("80"))
    assert status == ("Passed" if passes else "Failed")


@pytest.mark.parametrize("type_", ["response", "natsResponse"])
def test_an_answer_is_judged_by_its_patterns_and_by_being_there(type_: str) -> None:
    spec = check(type=type_)
    assert check_results.evaluate_response(spec, Output("done")).status is CheckStatus.PASSED
    assert check_results.evaluate_response(spec, Output(" ")) == Result(
        "one", CheckStatus.FAILED, "the cell left no answer"
    )
    assert (
        check_results.evaluate_response(spec, Output("done", fails=True)).status
        is CheckStatus.FAILED
    )
    assert (
        check_results.evaluate_response(spec, Output("", problem="slow")).status
        is CheckStatus.ERROR
    )


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 300),
        (COVERAGE, 300),
        ({"type": "fileExists", "paths": ["a"]}, 30),
        ({"type": "response"}, 30),
        ({"timeoutSeconds": 7}, 7),
    ],
)
def test_a_check_has_its_timeout_or_the_usual_one(spec: dict[str, Any], seconds: int) -> None:
    assert check_results.timeout_of(check(**spec)).total_seconds() == seconds


def test_a_command_as_text_goes_to_the_shell_and_a_list_does_not() -> None:
    assert check_results.argv_of(check(command="make | tee x")) == ["sh", "-c", "make | tee x"]
    assert check_results.argv_of(check(argv=["/app/check", "a b"])) == ["/app/check", "a b"]


def test_an_image_without_a_shell_is_told_by_what_to_write_instead() -> None:
    message = 'it could not be started: exec: "sh": executable file not found in $PATH'
    process = Process(failure=message, is_program_missing=True)
    no_shell = "the cell's image has no shell (sh) to run command with; give argv"
    assert judged(check(), process) == ("Error", no_shell)
    assert judged(check(argv=["x"]), process) == ("Error", message)


def test_only_the_type_of_a_failure_says_that_a_program_is_missing() -> None:
    process = Process(failure="cat: a.txt: no such file or directory")
    assert judged(check(), process) == ("Error", process.failure)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", f"1{'0' * 400}"])
def test_a_number_that_is_not_finite_judges_nothing(number: str) -> None:
    printed = Output(f'{{"totals": {{"percent": {number}}}}}')
    expected = ("Error", "the number at jsonPath 'totals.percent' is not finite")
    assert judged(check(**COVERAGE), ended(), printed) == expected
