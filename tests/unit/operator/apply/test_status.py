"""Status is written only when it says something new, and tells a refusal in its words."""

from __future__ import annotations

import pytest

from kais_operator import errors
from kais_operator.apply import apply_failed_status, status
from tests.fakes.clock import START
from tests.fakes.cluster import FakeCluster, ref_of


def formation() -> dict:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "f", "namespace": "demo"},
        "spec": {},
    }


async def test_an_equal_status_is_not_written():
    cluster = FakeCluster()
    read = cluster.put({**formation(), "status": {"cost": 1, "display": {"b": "2", "a": "1"}}})
    assert await status.write(cluster, read, {"display": {"a": "1", "b": "2"}, "cost": 1.0}) is None
    assert await status.write(cluster, read, None) is None
    assert cluster.writes == []


async def test_another_status_is_written_and_read_back():
    cluster = FakeCluster()
    read = cluster.put(formation())
    writes = await status.write(cluster, read, {"phase": "Running"})
    assert writes is not None
    assert writes["status"] == {"phase": "Running"}
    assert cluster.writes == [("status", ref_of(read))]


async def test_a_status_of_what_is_gone_is_an_error():
    cluster = FakeCluster()
    read = cluster.put(formation())
    cluster.vanish(ref_of(read))
    with pytest.raises(errors.NotFound):
        await status.write(cluster, read, {"phase": "Running"})


def condition(type_: str, value: str = "True", **changed: str) -> dict:
    reported_condition = {"type": type_, "status": value, "reason": "Fine", "message": "it is fine"}
    return {**reported_condition, "lastTransitionTime": "2026-01-01T00:00:00Z", **changed}


def told(*conditions: dict) -> dict:
    return {"conditions": list(conditions), "phase": "Running"}


def by_type(status: dict | None) -> dict[str, dict]:
    assert status is not None
    return {c["type"]: c for c in status["conditions"]}


def test_a_refusal_takes_the_place_of_applied_and_of_the_summary():
    decided = told(condition("Applied"), condition("CellsReady"), condition("Ready"))
    result = by_type(
        apply_failed_status.with_refusal(
            decided, formation(), message="exceeded quota: none", now=START
        )
    )
    for type_ in ("Applied", "Ready"):
        assert (result[type_]["status"], result[type_]["reason"]) == ("False", "ApplyFailed")
        assert result[type_]["message"] == "exceeded quota: none"
        assert result[type_]["lastTransitionTime"] == "2026-03-01T12:00:00Z"
    assert result["CellsReady"]["status"] == "True"


def test_a_refusal_that_lasts_keeps_its_time():
    initial_state = {
        **formation(),
        "status": told(condition("Applied", "False"), condition("Ready")),
    }
    decided = told(condition("Applied"), condition("Ready"))
    result = by_type(
        apply_failed_status.with_refusal(decided, initial_state, message="no", now=START)
    )
    assert result["Applied"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert result["Ready"]["lastTransitionTime"] == "2026-03-01T12:00:00Z"


def test_a_mission_that_has_started_stays_started():
    initial_state = {**formation(), "status": told(condition("Started"))}
    decided = told(condition("Started"), condition("Succeeded", "Unknown"))
    result = by_type(
        apply_failed_status.with_refusal(decided, initial_state, message="no", now=START)
    )
    assert result["Started"]["status"] == "True"
    assert result["Succeeded"]["reason"] == "ApplyFailed"


def test_without_a_decided_status_there_is_nothing_to_tell():
    assert apply_failed_status.with_refusal(None, formation(), message="no", now=START) is None
