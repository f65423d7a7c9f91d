"""An operator that is killed again and again at random moments: nothing happens twice, or never.

KAIS_SOAK_ROUNDS says how often. Nobody runs pods here: a stand-in for the kubelet ends them, and
tells the store of the trouble that each attempt met, as its program would.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_client import KnowledgeClient, models
from tests import settings
from tests.cluster.conftest import ControlPlane
from tests.cluster.kubelet import Ending, Kubelet, environment
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

ROUNDS = settings.soak_rounds(10)
SEED = 20261122
ALIVE_S = (0.3, 4.0)
"""An operator needs about two seconds to lead: some die before they do."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def blueprint() -> dict[str, Any]:
    cell = {"name": "lead", "spec": {"mode": "Task", "container": {"image": "greeter:1"}}}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": "soaked"},
        "spec": {
            "formation": {"cells": [cell]},
            "mission": {
                "objective": "survive",
                "entrypoint": {"cell": "lead"},
                "completion": {"maxAttempts": 2},
            },
        },
    }


def use(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": f"u{number}"},
        "spec": {"blueprintRef": {"name": "soaked"}},
    }


def outcome_of(number: int) -> str:
    """Every fifth use fails twice, hence for good; every third one fails once."""
    return "Failed" if number % 5 == 4 else "Succeeded"


def attempts_of(number: int) -> int:
    return 2 if number % 5 == 4 or number % 3 == 2 else 1


def trouble_of(number: int) -> str:
    """Give words of which no two are alike to somebody who leaves numbers out."""
    return f"NoRouteTo{LETTERS[number // 26 % 26].upper()}{LETTERS[number % 26]}"


def ending(store_url: str, dice: random.Random, pod: dict[str, Any]) -> Ending:
    """Do what an attempt's program does: meet a trouble twice, tell it, and end."""
    env = environment(pod)
    number, attempt = int(env["KAIS_MISSION"][1:]), int(env["KAIS_ATTEMPT"])
    trouble = trouble_of(number)
    met = tuple(
        models.EpisodeIn(
            attempt=attempt, type="error", content=f"{trouble} {time}", error_signature=trouble
        )
        for time in ("once", "again")
    )
    with KnowledgeClient(store_url) as store:
        store.add_episodes(models.EpisodesIn(run_id=env["KAIS_RUN_ID"], episodes=met))
    time.sleep(dice.random() / 2)
    failed = outcome_of(number) == "Failed" or attempt < attempts_of(number)
    return (1, "no route") if failed else (0, "survived")


def test_nothing_is_doubled_or_lost_when_the_operator_is_killed_at_random_moments(
    cluster: Cluster, start: Start, store_url: str, control_plane: ControlPlane
) -> None:
    dice = random.Random(SEED)  # noqa: S311 (moments, not secrets)
    cluster.apply(blueprint())
    other_random = random.Random(SEED + 1)  # noqa: S311 (moments, not secrets)
    with Kubelet(cluster, lambda pod: ending(store_url, other_random, pod)) as kubelet:
        for number in range(ROUNDS):
            operator = start(name=f"round-{number}")
            cluster.apply(use(number))
            time.sleep(dice.uniform(*ALIVE_S))
            operator.kill()
            cluster.kubectl("delete", "lease", "kais-operator", "--ignore-not-found")
        start(name="last").wait_ready()
        wait_for(
            lambda: len(ended(cluster)) == ROUNDS or kubelet.problem,
            subject=f"all uses have ended; ended: {sorted(ended(cluster))}",
            within_s=60 + ROUNDS,
        )
    assert kubelet.problem is None
    assert ended(cluster) == {f"u{n}": outcome_of(n) for n in range(ROUNDS)}
    assert jobs_made(control_plane, cluster.namespace) == Counter(
        f"u{n}-a{attempt}" for n in range(ROUNDS) for attempt in range(1, attempts_of(n) + 1)
    )
    wait_for(lambda: not_open(store_url, cluster), subject="every run is closed")
    check_ledger(store_url, cluster)
    check_facts(store_url, cluster)


def ended(cluster: Cluster) -> dict[str, str]:
    result = {i["metadata"]["name"]: i.get("status") or {} for i in cluster.items("bpi")}
    return {name: status["outcome"] for name, status in result.items() if status.get("outcome")}


def jobs_made(control_plane: ControlPlane, namespace: str) -> Counter[str]:
    """Count the Jobs that the API server took, by name, from its audit log."""
    counts: Counter[str] = Counter()
    for file in control_plane.audit_log.parent.glob("audit*.log"):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            object_ref = entry.get("objectRef") or {}
            if (object_ref.get("resource"), object_ref.get("namespace")) != ("jobs", namespace):
                continue
            code = (entry.get("responseStatus") or {}).get("code")
            if code == 201 and not object_ref.get("subresource"):
                counts[object_ref["name"]] += 1
    return counts


def runs(store_url: str, namespace: str) -> list[models.Run]:
    matching_runs: list[models.Run] = []
    cursor = None
    with KnowledgeClient(store_url) as store:
        while True:
            page = store.list_runs(namespace=namespace, cursor=cursor, limit=100)
            matching_runs += page.runs
            cursor = page.cursor
            if cursor is None:
                return matching_runs


def not_open(store_url: str, cluster: Cluster) -> bool:
    return all(run.outcome is not None for run in runs(store_url, cluster.namespace))


def check_ledger(store_url: str, cluster: Cluster) -> None:
    """One run for each use, under the id that its use shows, with its outcome."""
    expected_counts = Counter(
        (use["status"]["runId"], use["status"]["outcome"]) for use in cluster.items("bpi")
    )
    assert (
        Counter((r.run_id, r.outcome) for r in runs(store_url, cluster.namespace))
        == expected_counts
    )
    failed = sum(outcome_of(n) == "Failed" for n in range(ROUNDS))
    with KnowledgeClient(store_url) as store:
        stats_in = models.StatsIn(
            blueprints=(models.BlueprintName(namespace=cluster.namespace, name="soaked"),)
        )
        (blueprint_stats,) = store.stats_batch(stats_in).blueprints
    counted = (
        blueprint_stats.uses,
        blueprint_stats.running,
        blueprint_stats.succeeded,
        blueprint_stats.failed,
        blueprint_stats.excluded,
    )
    assert counted == (ROUNDS, 0, ROUNDS - failed, failed, 0)


def check_facts(store_url: str, cluster: Cluster) -> None:
    """Every trouble was met twice in each attempt, and is known once."""
    expected_troubles = {trouble_of(n) for n in range(ROUNDS)}
    wait_for(
        lambda: set(troubles(store_url, cluster)) == expected_troubles,
        subject=f"every run's trouble is known; known: {sorted(troubles(store_url, cluster))}",
    )
    assert set(troubles(store_url, cluster).values()) == {1}


def troubles(store_url: str, cluster: Cluster) -> Counter[str]:
    """Count the facts of each trouble, wherever runs of the namespace have left them."""
    counted: Counter[str] = Counter()
    scopes = {run.scope for run in runs(store_url, cluster.namespace)}
    with KnowledgeClient(store_url) as store:
        contents = [content for scope in scopes for content in contents_of(store, scope)]
    for number in range(ROUNDS):
        trouble = trouble_of(number)
        counted[trouble] += sum(trouble in content for content in contents)
    return +counted


def contents_of(store: KnowledgeClient, scope: str) -> Iterator[str]:
    cursor = None
    while True:
        page = store.list_facts(scope=scope, cursor=cursor, limit=100)
        yield from (fact.content for fact in page.facts)
        cursor = page.cursor
        if cursor is None:
            return
