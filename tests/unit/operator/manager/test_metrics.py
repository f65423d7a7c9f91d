"""The operator's metrics: which there are, and that no name which a user chooses is in a label."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from kais.outcomes import Outcome
from kais_operator import errors
from kais_operator.informer import watch_targets
from kais_operator.knowledge.client import MonitoredKnowledge
from kais_operator.manager import leader_election_loop, reconcile_requests
from kais_operator.manager.metrics import Metrics
from kais_operator.manager.workqueue import Schedule
from kais_operator.planning.plan import ObjectRef
from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering.worker_pool import RenderPool
from knowledge_client import errors as knowledge_errors
from knowledge_client import models
from tests.fakes import world as worlds

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
KINDS = {
    *watch_targets.KINDS,
    *watch_targets.CHILD_KINDS,
    watch_targets.HEARTBEAT_KIND,
    reconcile_requests.REALM,
    reconcile_requests.OUTBOX,
}
BOUNDS = {
    "kind": KINDS,
    "operation": {"compile", "render", "find"},
    "outcome": {*Outcome, "opened"},
    "verb": {"get", "list"},
    "resource": {"pods", "cells"},
    "version": {"0.1.0"},
    "direction": {"input", "output"},
    "le": None,
}
"""What each label may say; a histogram's own bounds are fixed. Results depend on the metric."""
RESULTS = {
    "kais_reconcile": {"ok", "retry", "error"},
    "kais_renders": {"ok", "time", "memory", "worker", "unavailable"},
    "kais_extractions": {"accepted", "failed"},
}


def read(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Give each sample's value by its name and its labels' values."""
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in families(metrics.render().decode())
        for sample in family.samples
    }


def full() -> Metrics:
    """Metrics that have met everything, for many objects."""
    metrics = Metrics()
    metrics.export_queue(lambda: 3.0, lambda: 0.5)
    metrics.export_requests({("get", "pods"): 1, ("list", "cells"): 2})
    for kind in (*watch_targets.KINDS, *watch_targets.CHILD_KINDS):
        metrics.export_watch_age(kind, lambda: 1.0)
    queue_kinds = (*watch_targets.KINDS, reconcile_requests.REALM, reconcile_requests.OUTBOX)
    for number, kind, result in product(range(200), queue_kinds, RESULTS["kais_reconcile"]):
        key = ObjectRef(kind, f"ns-{number}", f"object-{number}")
        metrics.record_reconcile(key, result=result, seconds=0.1)
    for operation, result in product(("compile", "render", "find"), RESULTS["kais_renders"]):
        metrics.record_render(operation, result, 0.1)
    for outcome in (*Outcome, "opened"):
        metrics.record_run(outcome, 30.0)
    for result in RESULTS["kais_extractions"]:
        metrics.record_extraction(result)
    return metrics


def test_labels_are_bounded_however_many_objects_there_are():
    for family in families(full().render().decode()):
        for sample in family.samples:
            for label, value in sample.labels.items():
                metric = family.name.removesuffix("_created")
                allowed = RESULTS[metric] if label == "result" else BOUNDS[label]
                assert allowed is None or value in allowed, (sample.name, label)


NAMES = {
    "kais_reconcile_total",
    "kais_reconcile_duration_seconds_count",
    "kais_queue_depth",
    "kais_queue_oldest_age_seconds",
    "kais_watch_last_event_age_seconds",
    "kais_renders_total",
    "kais_render_seconds_count",
    "kais_mission_seconds_count",
    "kais_runs_total",
    "kais_extractions_total",
    "kais_model_tokens_total",
    "kais_model_cost_usd_total",
    "kais_agent_turns_total",
    "kais_agent_tool_calls_total",
    "kais_api_requests_total",
    "kais_loop_lag_seconds",
    "kais_build_info",
}


def test_the_age_of_the_heartbeat_is_exported_beside_those_of_the_kinds():
    metrics = Metrics()
    unused: Any = None
    dependencies: Any = SimpleNamespace(metrics=metrics)
    leader_election_loop.ElectionLoop(unused, dependencies)
    assert read(metrics)["kais_watch_last_event_age_seconds", watch_targets.HEARTBEAT_KIND] == -1


def test_every_metric_that_is_promised_is_told():
    assert {name for name, _ in read(full())} >= NAMES


def test_every_metric_is_documented():
    text = REFERENCE.read_text()
    documented = set(re.findall(r"`(kais_[a-z_]+)`", text))
    assert {name.removesuffix("_count") for name in NAMES} <= documented


def test_the_queue_tells_how_late_its_latest_key_is():
    schedule: Schedule[str] = Schedule()
    assert schedule.oldest_age_s(5) == 0
    schedule.add("later", at=20)
    assert schedule.oldest_age_s(5) == 0
    schedule.add("due", at=2)
    assert schedule.oldest_age_s(5) == 3
    assert schedule.pop_due(5) == "due"
    assert schedule.oldest_age_s(5) == 0, "what runs does not wait"


async def test_renders_are_counted_by_what_came_of_them_and_answers_from_memory_are_not():
    metrics = Metrics()
    renderer = WorkerRenderer(RenderPool(workers=1, limit_s=0.5), count=metrics.record_render)
    await renderer.start()
    try:
        assert await renderer.find("b+", "abbc", ignore_case=False, namespace="n")
        for _ in range(2):
            await renderer.compile({"formation": {"cells": []}}, namespace="n")
        with pytest.raises(errors.RenderingFailed):
            await renderer.find("(a+)+$", "a" * 40 + "b", ignore_case=False, namespace="n")
    finally:
        await renderer.close()
    counted = read(metrics)
    assert counted["kais_renders_total", "find ok"] == 1
    assert counted["kais_renders_total", "compile ok"] == 1
    assert counted["kais_renders_total", "find time"] == 1
    assert counted["kais_render_seconds_count", "find"] == 2
    assert counted["kais_render_seconds_sum", "find"] >= 0.5, "the one that was ended counts"
    assert counted["kais_render_seconds_count", "compile"] == 1


async def test_runs_are_counted_by_outcome_and_extractions_by_whether_they_were_taken():
    fakes = worlds.fake_world()
    metrics = Metrics()
    store = MonitoredKnowledge(
        fakes.knowledge,
        fakes.world.sync_state,
        fakes.clock,
        count_run=metrics.record_run,
        count_extraction=metrics.record_extraction,
    )
    opened = models.RunIn(namespace="demo", scope="realm:demo/formation:f")
    await store.put_run("r1", opened)
    await store.put_run("r1", opened.model_copy(update={"outcome": "TimedOut"}))
    await store.start_extraction(models.ExtractionIn(run_id="r1"))
    fakes.knowledge.away = True
    with pytest.raises(knowledge_errors.KnowledgeUnavailable):
        await store.put_run("r2", opened)
    with pytest.raises(knowledge_errors.KnowledgeUnavailable):
        await store.start_extraction(models.ExtractionIn(run_id="r1"))
    counted = {k: v for k, v in read(metrics).items() if k[0].endswith("_total") and v}
    assert counted == {
        ("kais_runs_total", "opened"): 1,
        ("kais_runs_total", "TimedOut"): 1,
        ("kais_extractions_total", "accepted"): 1,
        ("kais_extractions_total", "failed"): 1,
    }


async def test_usage_of_models_is_counted_once_a_run_has_ended():
    fakes = worlds.fake_world()
    metrics = Metrics()
    store = MonitoredKnowledge(
        fakes.knowledge, fakes.world.sync_state, fakes.clock, count_usage=metrics.record_usage
    )
    used = {"inputTokens": 900, "outputTokens": 60, "turns": 4, "toolCalls": 3}
    run = models.RunIn(namespace="demo", scope="realm:demo", counters=used, cost=0.25)
    await store.put_run("r1", run)
    assert read(metrics)["kais_agent_turns_total", ""] == 0
    await store.put_run("r1", run.model_copy(update={"outcome": "Succeeded"}))
    await store.put_run("r2", run.model_copy(update={"outcome": "Failed", "cost": None}))
    counted = read(metrics)
    assert counted["kais_model_tokens_total", "input"] == 1800
    assert counted["kais_model_tokens_total", "output"] == 120
    assert counted["kais_model_cost_usd_total", ""] == 0.25
    assert counted["kais_agent_turns_total", ""] == 8
    assert counted["kais_agent_tool_calls_total", ""] == 6


async def test_missions_are_timed_from_their_start_to_their_end():
    fakes = worlds.fake_world()
    metrics = Metrics()
    store = MonitoredKnowledge(
        fakes.knowledge, fakes.world.sync_state, fakes.clock, count_run=metrics.record_run
    )
    now = fakes.clock.now()
    run = models.RunIn(namespace="demo", scope="realm:demo/formation:f", started_at=now)
    ended = {"outcome": "Succeeded", "finished_at": now + timedelta(seconds=90)}
    await store.put_run("r1", run)
    await store.put_run("r1", run.model_copy(update=ended))
    never = models.RunIn(namespace="demo", scope="realm:demo", outcome="InfrastructureFailed")
    await store.put_run("r2", never)
    counted = read(metrics)
    assert counted["kais_mission_seconds_count", "Succeeded"] == 1
    assert counted["kais_mission_seconds_sum", "Succeeded"] == 90
    assert ("kais_mission_seconds_count", "opened") not in counted
    assert ("kais_mission_seconds_count", "InfrastructureFailed") not in counted


def test_the_store_takes_no_outcome_that_is_no_label():
    assert set(get_args(models.RunOutcome)) == {str(outcome) for outcome in Outcome}
