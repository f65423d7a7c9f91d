"""What a pass tells in its log and in Events, and what each refusal of the API server comes to."""

from __future__ import annotations

import json
import logging
import re

import pytest

from kais_operator import errors, logging_config
from kais_operator.kubernetes import api_errors
from kais_operator.manager import reconciler as manager_reconciler
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import Body, ObjectRef, Plan
from knowledge_client import models
from tests.fakes import world as worlds
from tests.fakes.reconcilers import reconciler_of

KEY = ObjectRef("Formation", "demo", "f")
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "demo"}}
APPLIED = {"type": "Applied", "status": "True", "reason": "Applied", "message": "all is applied"}
STATUS = {"conditions": [APPLIED, {**APPLIED, "type": "Ready", "reason": "Ready"}]}
FIELDS = re.compile(
    r"kind=(\S+) namespace=(\S*) name=(\S+) generation=(\S+) reason=(\S+) message=(.+)"
)


@pytest.fixture
def fakes(caplog: pytest.LogCaptureFixture) -> worlds.FakeWorld:
    caplog.set_level(logging.INFO)
    metadata = {"name": "f", "namespace": "demo"}
    formation = {"apiVersion": "kais.io/v1", "kind": "Formation", "metadata": metadata}
    return worlds.fake_world({**formation, "spec": {}})


def creates(_: Body) -> Plan:
    return Plan((plans.Create(MAP),), status=STATUS)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    """Give the fields of each line about a pass."""
    formatter = logging_config.TextFormatter()
    records = [r for r in caplog.records if r.name == manager_reconciler.__name__]
    lines = [formatter.format(record).partition(f"{record.name} ")[2] for record in records]
    matches = [FIELDS.fullmatch(line) for line in lines]
    assert all(matches), lines
    return [match.groups() for match in matches if match]


ANSWERS = {
    "403 by a quota": (403, "Forbidden", "ApplyFailed", "Forbidden"),
    "422 by the schema": (422, "Invalid", "ApplyFailed", "Invalid"),
    "409 as somebody else wrote": (409, "Conflict", None, "Conflict"),
    "500 of a broken API server": (500, "InternalError", None, "WriteFailed"),
    "503 of a busy one": (503, "ServiceUnavailable", None, "WriteFailed"),
    "429 of a throttled one": (429, "TooManyRequests", None, "ClusterUnavailable"),
}


@pytest.mark.parametrize(
    ("status", "reason", "condition", "logged"), ANSWERS.values(), ids=ANSWERS.keys()
)
async def test_what_the_api_server_answers_becomes_a_reason_and_another_try(
    fakes, caplog, status, reason, condition, logged
):
    answer = json.dumps({"kind": "Status", "reason": reason, "message": "the server's words"})
    error = api_errors.from_status(
        status, answer.encode(), operation="POST configmaps", is_write=True
    )
    fakes.cluster.fail("create", error)
    with pytest.raises(Backoff, match="the server's words"):
        await reconciler_of(fakes, creates)(KEY)
    displayed_status = fakes.cluster.read(KEY).get("status")
    if condition is None:
        assert displayed_status is None, "a failure that goes by itself is no news for the user"
    else:
        reasons = [(c["type"], c["status"], c["reason"]) for c in displayed_status["conditions"]]
        assert reasons == [(t, "False", condition) for t in ("Applied", "Ready")]
        assert "the server's words" in displayed_status["conditions"][0]["message"]
    message = "POST configmaps: the server's words"
    assert told(caplog) == [("Formation", "demo", "f", "1", logged, message)]


TWICE = {
    "two 500s to a write": (errors.WriteFailed, "create", "ApplyFailed"),
    "no answer to a write": (errors.ClusterUnavailable, "create", None),
    "a read that fails": (errors.ClusterUnavailable, "get", None),
}


@pytest.mark.parametrize(("error", "verb", "condition"), TWICE.values(), ids=TWICE.keys())
async def test_only_a_write_that_fails_twice_in_a_row_is_a_condition(fakes, error, verb, condition):
    passes = reconciler_of(fakes, creates)
    for _ in range(2):
        fakes.cluster.fail(verb, error("the server's words"))
        with pytest.raises(Backoff):
            await passes(KEY)
    conditions = fakes.cluster.read(KEY).get("status", {}).get("conditions", [])
    assert [c["reason"] for c in conditions] == ([condition] * 2 if condition else [])


async def test_failures_with_a_write_between_them_are_no_condition(fakes):
    passes = reconciler_of(fakes, creates)
    fakes.cluster.fail("create", errors.WriteFailed("busy"))
    with pytest.raises(Backoff):
        await passes(KEY)
    await passes(KEY)
    fakes.cluster.remove(ObjectRef("ConfigMap", "demo", "m"))
    fakes.cluster.fail("create", errors.WriteFailed("busy"))
    with pytest.raises(Backoff):
        await passes(KEY)
    conditions = fakes.cluster.read(KEY).get("status", {}).get("conditions", [])
    assert "ApplyFailed" not in [c["reason"] for c in conditions]


async def test_a_409_that_met_a_namesake_is_looked_at_again_and_is_no_failure(fakes, caplog):
    fakes.cluster.put(MAP)
    assert await reconciler_of(fakes, creates)(KEY) == manager_reconciler.NAME_CONFLICT_RETRY_S
    assert [fields[4] for fields in told(caplog)] == ["StatusWritten"]


async def test_a_pass_that_changed_something_says_what_and_an_idle_one_nothing(fakes, caplog):
    def decide(_: Body) -> Plan:
        refs = fakes.cluster.refs("ConfigMap")
        return Plan((), status=STATUS) if refs else creates(_)

    passes = reconciler_of(fakes, decide)
    await passes(KEY)
    assert told(caplog) == [
        ("Formation", "demo", "f", "1", "Acted", "Create"),
        ("Formation", "demo", "f", "1", "StatusWritten", "the status has changed"),
    ]
    caplog.clear()
    await passes(KEY)
    assert told(caplog) == []


async def test_a_store_that_is_away_is_a_failure_with_its_words(fakes, caplog):
    fakes.knowledge.away = True
    scope = plans.PutScope("realm:demo", models.ScopeConfig())
    with pytest.raises(Backoff):
        await reconciler_of(fakes, lambda _: Plan((scope,)))(KEY)
    (line,) = told(caplog)
    assert line[:5] == ("Formation", "demo", "f", "1", "StoreUnavailable")


async def test_a_bug_is_told_with_the_fields_of_its_object(fakes, caplog):
    def decide(_: Body) -> Plan:
        raise KeyError("no such\nthing")

    with pytest.raises(KeyError):
        await reconciler_of(fakes, decide)(KEY)
    assert told(caplog) == [("Formation", "demo", "f", "1", "KeyError", r"'no such\nthing'")]


async def test_words_of_many_lines_stay_in_the_line_of_their_pass(fakes, caplog):
    fakes.cluster.fail("create", errors.Invalid("first\nkind=Forged name=x"))
    with pytest.raises(Backoff):
        await reconciler_of(fakes, creates)(KEY)
    (line,) = told(caplog)
    assert line[5] == "first kind=Forged name=x"


async def test_a_failing_pass_that_is_made_again_emits_no_second_event(fakes):
    warning = plans.EmitEvent("Warning", "TaskFailed", "the attempt lost its words")

    def decide(body: Body) -> Plan:
        known_value = (body.get("status") or {}).get("phase") == "Failed"
        return Plan(() if known_value else (warning,), status={"phase": "Failed"})

    passes = reconciler_of(fakes, decide)
    for _ in range(5):
        await passes(KEY)
    (event,) = fakes.cluster.events
    assert (event["about"], event["type"], event["reason"]) == (KEY, "Warning", "TaskFailed")
    assert event["message"] == "the attempt lost its words"
