"""What a mission's look reads from the API server although memory has it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kais import labels
from kais_operator.controllers.mission.observe import mission as observing
from kais_operator.informer.cache import Cache
from kais_operator.informer.read_through_cluster import CachedCluster
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import world as worlds

MISSION = ObjectRef("Mission", "demo", "m")
JOB = ObjectRef("Job", "demo", "m-a1")


def body(kind: str, name: str, **changed: Any) -> Body:
    version = "batch/v1" if kind == "Job" else "kais.io/v1"
    metadata = {"name": name, "namespace": "demo", **changed.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **changed}


@pytest.mark.parametrize(
    ("begun_ago", "completions"),
    [(timedelta(minutes=1), 0), (timedelta(minutes=11), 1)],
    ids=["within its time memory is enough", "when its time is over the Job is read now"],
)
async def test_a_watch_that_is_late_ends_no_mission(begun_ago: timedelta, completions: int):
    fakes = worlds.fake_world()
    started = (fakes.clock.now() - begun_ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {"objective": "o", "formationRef": "f", "completion": {"timeout": "10m"}}
    fakes.cluster.put(body("Mission", "m", spec=spec))
    owner = {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "name": "m",
        "uid": fakes.cluster.read(MISSION)["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "labels": {labels.MANAGED_BY: labels.MANAGER, labels.MISSION: "m"},
        "creationTimestamp": started,
        "ownerReferences": [owner],
    }
    fakes.cluster.put(body("Job", "m-a1", metadata=metadata, spec={}, status={}))
    cache = Cache(labelled=["Job", "Pod"])
    for kind in ("Mission", "Job", "Pod", "Formation", "KnowledgeScope"):
        cache.complete_list(kind, None, uids=set(), version="0")
    for ref in (MISSION, JOB):
        cache.put(fakes.cluster.read(ref), is_confirmed=True)
    fakes.cluster.set_status(JOB, {"succeeded": 1})  # and no watch tells of it
    cluster = CachedCluster(fakes.cluster, cache, clock=fakes.clock)
    late = replace(fakes.world, cluster=cluster)
    observation = await observing.observe_mission(late, MISSION)
    assert observation is not None
    (job,) = observation.observed.jobs
    assert job["status"].get("succeeded", 0) == completions
