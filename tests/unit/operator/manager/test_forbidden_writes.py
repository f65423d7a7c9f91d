"""A 403 of the API server reaches people: an Event on the object, and an error in the log."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kais_operator import errors, logging_config
from kais_operator.controllers.base import Controller, Observation
from kais_operator.manager import reconciler as manager_reconciler
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import ObjectRef, Plan
from tests.fakes import world as worlds

KEY = ObjectRef("Formation", "demo", "f")
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "demo"}}
MESSAGE = 'configmaps "m" is forbidden: User "kais-operator" cannot create resource "configmaps"'
BODY = {
    "apiVersion": "kais.io/v1",
    "kind": "Formation",
    "metadata": {"name": "f", "namespace": "demo"},
    "spec": {},
}


@pytest.fixture
def fakes() -> worlds.FakeWorld:
    return worlds.fake_world(BODY)


@pytest.fixture
def passes(fakes: worlds.FakeWorld) -> manager_reconciler.Reconciler:
    async def observe(world: Any, ref: ObjectRef) -> Observation | None:
        body = await world.cluster.get(ref)
        return Observation(body, body) if body else None

    def decide(_: Any, now: Any) -> Plan:
        is_there = ObjectRef("ConfigMap", "demo", "m") in fakes.cluster.refs()
        return Plan(() if is_there else (plans.Create(MAP),), status={"phase": "Running"})

    reconciler = Controller("Formation", observe, decide)
    return manager_reconciler.Reconciler(
        fakes.world, {"Formation": reconciler}, OwnWriteFilter(), requeue=lambda _, __: None
    )


async def refused(
    fakes: worlds.FakeWorld,
    passes: manager_reconciler.Reconciler,
    message: str = MESSAGE,
    verb: str = "create",
) -> None:
    fakes.cluster.fail(verb, errors.Forbidden(message))
    with pytest.raises(Backoff):
        await passes(KEY)


def events(fakes: worlds.FakeWorld) -> list[tuple[str, str, str]]:
    return [(e["type"], e["reason"], e["message"]) for e in fakes.cluster.events]


async def test_a_refused_write_is_a_warning_event_with_the_api_servers_message(fakes, passes):
    await refused(fakes, passes)
    assert events(fakes) == [("Warning", "Forbidden", MESSAGE)]
    assert fakes.cluster.events[0]["about"] == KEY


async def test_a_refused_status_is_a_warning_event_too(fakes, passes):
    await refused(fakes, passes, verb="status")
    assert events(fakes) == [("Warning", "Forbidden", MESSAGE)]


async def test_a_refused_write_is_an_error_in_the_log(fakes, passes, caplog):
    with caplog.at_level(logging.INFO):
        await refused(fakes, passes)
    lines = [json.loads(logging_config.JsonFormatter().format(r)) for r in caplog.records]
    (line,) = [line for line in lines if line.get("reason") == "Forbidden"]
    assert line["level"] == "error"
    assert MESSAGE in line["message"]


async def test_a_conflict_is_no_error_in_the_log(fakes, passes, caplog):
    fakes.cluster.fail("create", errors.Conflict("changed"))
    with caplog.at_level(logging.INFO), pytest.raises(Backoff):
        await passes(KEY)
    assert {r.levelno for r in caplog.records} == {logging.INFO}
    assert events(fakes) == []


async def test_a_refusal_that_lasts_is_told_again_after_half_an_hour(fakes, passes):
    await refused(fakes, passes)
    await refused(fakes, passes)
    assert len(events(fakes)) == 1
    fakes.clock.advance(manager_reconciler.FORBIDDEN_EVENT_PERIOD_S)
    await refused(fakes, passes)
    assert len(events(fakes)) == 2


async def test_another_refusal_is_told_at_once(fakes, passes):
    await refused(fakes, passes)
    await refused(fakes, passes, "exceeded quota: none")
    assert [message for _, _, message in events(fakes)] == [MESSAGE, "exceeded quota: none"]


async def test_the_end_of_a_refusal_is_told_once(fakes, passes):
    await refused(fakes, passes)
    await passes(KEY)
    await passes(KEY)
    assert events(fakes)[1:] == [("Normal", "Allowed", f"no longer refused: {MESSAGE}")]


async def test_another_failure_does_not_end_a_refusal(fakes, passes):
    await refused(fakes, passes)
    fakes.cluster.fail("create", errors.ClusterUnavailable("no answer"))
    with pytest.raises(Backoff):
        await passes(KEY)
    await refused(fakes, passes)
    assert len(events(fakes)) == 1
