"""Many uses at once: how often each object is looked at, and that a restart changes none."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

import pytest

from kais_operator.manager import workqueue
from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.cluster.processes import Cluster, Operator, Start, wait_for

pytestmark = pytest.mark.cluster

USES = 100
LOOKS = 3
"""Per object at most, where its children report soon after each other."""
COALESCE_S = 0.5
"""What children report within this time is looked at once."""
WRITES = {"create": 11.2, "patch status": 7.5}
"""Per use at most: ten objects and an Event; its status twice, that of its team and its cells."""
MANY = 2 * workqueue.WORKERS
LONG_BURST = 3 * USES
"""A fast machine decides 100 instances before the oldest of them has waited for a second."""
KINDS = ("blueprintinstances", "formations", "cells", "blueprints", "blueprintrevisions")
CHILDREN = ("deployments", "services", "serviceaccounts", "configmaps")
CELL = {"mode": "Service", "container": {"image": "none:1", "ports": [{"containerPort": 80}]}}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Run a control plane of its own: the instances would burden later tests."""
    with started_control_plane() as plane:
        yield plane


def blueprint() -> dict[str, Any]:
    cells = [{"name": name, "spec": CELL} for name in ("left", "right")]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": "pair"},
        "spec": {"formation": {"cells": cells, "topology": {"type": "full_mesh"}}},
    }


def use(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": f"use-{number}"},
        "spec": {"blueprintRef": {"name": "pair"}},
    }


def is_applied(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Applied" and c["status"] == "True" for c in conditions)


def looks(operator: Operator, kind: str) -> float:
    return operator.metric(f'kais_reconcile_total{{kind="{kind}"')


def requests(operator: Operator, verb: str) -> float:
    """Count the requests with a verb; labels are exported in the order of their names."""
    lines = operator.ask("/metrics")[1].splitlines()
    counts = [line for line in lines if line.startswith("kais_api_requests_total{")]
    assert counts, "the operator counts its requests"
    verbs = [line for line in counts if f'verb="{verb}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in verbs)


Changes = dict[tuple[str, str], list[float]]
"""The seconds at which the API server accepted changes of an object, by its resource and name."""


def accepted_changes(plane: ControlPlane, namespace: str) -> Changes:
    """Read from the audit log what was created and changed in a namespace, by anybody."""
    changes: Changes = defaultdict(list)
    for text in plane.audit_log.read_text().splitlines(keepends=True):
        if not text.endswith("\n"):
            continue  # half written
        entry = json.loads(text)
        ref = entry.get("objectRef", {})
        is_change = entry["verb"] in {"create", "update", "patch"} and "name" in ref
        if (
            is_change
            and ref.get("namespace") == namespace
            and entry["responseStatus"]["code"] < 300
        ):
            at = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
            changes[ref["resource"], ref["name"]].append(at)
    return changes


def looks_due(changes: Changes, parts: Iterable[Collection[tuple[str, str]]]) -> int:
    """Count how often objects may be looked at, each given by itself and its children.

    On a busy machine the changes of children arrive one by one. Those that are further than
    COALESCE_S apart are looked at one by one, however many they are.
    """
    due = 0
    for names in parts:
        groups, end = 0, 0.0
        for at in sorted(at for name in names for at in changes[name]):
            if at > end:
                groups, end = groups + 1, at + COALESCE_S
        due += max(LOOKS, groups)
    return due


def create_blueprint(cluster: Cluster) -> None:
    cluster.apply(blueprint())
    wait_for(
        lambda: cluster.status("blueprints", "pair").get("servedRevision"), subject="a revision"
    )


def create_instances(cluster: Cluster, count: int = USES) -> None:
    cluster.apply(*(use(number) for number in range(count)))


def is_all_applied(cluster: Cluster, count: int = USES) -> bool:
    counts = {"cells": 2 * count, "blueprintinstances": count, "formations": count}
    return all(sum(map(is_applied, cluster.items(kind))) == n for kind, n in counts.items())


def wait_quiet(operator: Operator) -> None:
    """Wait until no look was taken for four seconds."""
    initial_seconds = -1.0
    while (now := operator.metric("kais_reconcile_total")) != initial_seconds:
        initial_seconds = now
        time.sleep(4)


def test_a_burst_takes_few_looks_and_a_restart_writes_nothing(
    control_plane: ControlPlane, cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    create_blueprint(cluster)
    create_instances(cluster)
    wait_for(lambda: is_all_applied(cluster), subject="everything is applied", within_s=240)
    taken = {kind: looks(operator, kind) for kind in ("BlueprintInstance", "Formation", "Cell")}
    changes = accepted_changes(control_plane, cluster.namespace)
    uses = [f"use-{number}" for number in range(USES)]
    cells = {name: (f"{name}-left-0", f"{name}-right-0") for name in uses}
    due = {
        "BlueprintInstance": [
            [("blueprintinstances", name), ("formations", name)] for name in uses
        ],
        "Formation": [
            [("formations", name), *(("cells", cell) for cell in cells[name])] for name in uses
        ],
        "Cell": [
            [(kind, cell) for kind in ("cells", "serviceaccounts", "services", "deployments")]
            for name in uses
            for cell in cells[name]
        ],
    }
    at_most = {kind: looks_due(changes, parts) for kind, parts in due.items()}
    assert not {kind: (taken[kind], at_most[kind]) for kind in due if taken[kind] > at_most[kind]}
    assert len(cluster.items("deployments")) == len(cluster.items("services")) == 2 * USES

    # The last numbers are told half a minute after the first, at the latest.
    wait_for(
        lambda: cluster.status("blueprints", "pair").get("usageCount") == USES,
        subject="the Blueprint counts them all",
    )
    wait_quiet(operator)
    assert requests(operator, "create") <= WRITES["create"] * USES
    assert requests(operator, "patch status") <= WRITES["patch status"] * USES
    settled = cluster.bodies(*KINDS, *CHILDREN)
    assert operator.end() == 0
    restarted_operator = start(name="again")
    restarted_operator.wait_ready()
    wait_for(
        lambda: restarted_operator.metric("kais_reconcile_total") >= 4 * USES,
        subject="all was looked at again",
    )
    wait_quiet(restarted_operator)
    now = cluster.bodies(*KINDS, *CHILDREN)
    assert now.keys() == settled.keys()
    changed = {name: (settled[name], now[name]) for name in now if settled[name] != now[name]}
    assert not changed
    assert [
        requests(restarted_operator, verb) for verb in ("create", "delete", "patch status")
    ] == [
        0,
        0,
        0,
    ]


def instances_without_event(cluster: Cluster) -> set[str]:
    """Return the instances that have a status, and lack the Event of the same reconcile."""
    reported = {
        event["involvedObject"]["name"]
        for event in cluster.items("events")
        if event["involvedObject"]["kind"] == "BlueprintInstance"
    }
    named = {
        body["metadata"]["name"]
        for body in cluster.items("blueprintinstances")
        if body.get("status")
    }
    return named - reported


@pytest.fixture
def holding(cluster: Cluster, start: Start) -> tuple[Operator, set[str]]:
    """Start a burst; return the operator in the middle of it, and instances whose Events wait.

    All instances are there when it starts: one that keeps pace with their creation holds nothing.
    More instances than it has workers wait: the others may be about to write their Event.
    """
    first = start()
    first.wait_ready()
    create_blueprint(cluster)
    assert first.end() == 0
    create_instances(cluster, LONG_BURST)
    operator = start(name="burst")
    held = wait_for(
        lambda: some if len(some := instances_without_event(cluster)) > MANY else None,
        subject="instances whose Events wait",
        within_s=60,
    )
    return operator, held


def test_the_operator_after_one_that_was_killed_in_a_burst_writes_what_that_one_held(
    cluster: Cluster, start: Start, holding: tuple[Operator, set[str]]
) -> None:
    wait_for(lambda: cluster.items("cells"), subject="cells", within_s=60)
    holding[0].kill()
    assert [body for body in cluster.items("cells") if not body.get("status")]
    start(name="again").wait_ready()
    wait_for(
        lambda: is_all_applied(cluster, LONG_BURST),
        subject="everything is applied",
        within_s=480,
    )


def test_an_operator_that_is_asked_to_stop_in_a_burst_writes_the_events_that_it_held(
    cluster: Cluster, holding: tuple[Operator, set[str]]
) -> None:
    operator, held = holding
    assert operator.end() == 0
    written = held - instances_without_event(cluster)
    assert len(written) > workqueue.WORKERS, f"{len(written)} of {len(held)}"
