"""Objects that nest far deeper than a decoder follows, which the API server accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

DEPTH = 2_000
"""The API server accepts 10,000."""


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "kais.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def blueprint(name: str = "hello", *, parameter: Any = "x") -> dict[str, Any]:
    container = {"image": "greeter:1", "env": [{"name": "A", "value": parameter}]}
    cell = {"name": "lead", "spec": {"mode": "Task", "container": container}}
    mission = {"objective": "greet", "entrypoint": {"cell": "lead"}}
    return _object("Blueprint", name, {"formation": {"cells": [cell]}, "mission": mission})


def instance(name: str, **spec: Any) -> dict[str, Any]:
    return _object("BlueprintInstance", name, {"blueprintRef": {"name": "hello"}, **spec})


def create(cluster: Cluster, body: dict[str, Any]) -> None:
    """Create an object; the string "DEEP" in it becomes a tree of `DEPTH` levels."""
    deep = '{"a":' * DEPTH + "1" + "}" * DEPTH
    text = json.dumps(body).replace('"DEEP"', deep)
    path = f"/apis/kais.io/v1/namespaces/{cluster.namespace}/{body['kind'].lower()}s"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=text)


def is_served(cluster: Cluster, name: str, kind: str = "blueprintinstances") -> bool:
    """Return whether an object has a status with a condition; a list would be too deep here."""
    path = "jsonpath={.status.conditions}"
    return bool(cluster.kubectl("get", kind, name, "-o", path))


def test_an_object_that_nests_too_deeply_stops_no_other(cluster: Cluster, start: Start) -> None:
    operator = start()
    operator.wait_ready()
    create(cluster, blueprint())
    create(cluster, instance("deep", parameters={"tree": "DEEP"}))
    create(cluster, blueprint("deep-blueprint", parameter="DEEP"))
    create(cluster, instance("first"))
    wait_for(lambda: is_served(cluster, "first"), subject="another instance is served")
    for name in ("BlueprintInstance/{}/deep", "Blueprint/{}/deep-blueprint"):
        ref = name.format(cluster.namespace)
        wait_for(
            lambda ref=ref: f"{ref} nests deeper than" in operator.log.read_text(),
            subject=f"a warning about {ref}",
        )
    create(cluster, blueprint("later"))
    wait_for(
        lambda: is_served(cluster, "later", "blueprints"), subject="another Blueprint is served"
    )
    operator.end()
    restarted = start(name="restarted")
    restarted.wait_ready()
    create(cluster, instance("second"))
    wait_for(lambda: is_served(cluster, "second"), subject="an instance is served after a restart")
    cluster.kubectl("delete", "blueprintinstance", "deep")
    create(cluster, instance("deep"))
    wait_for(lambda: is_served(cluster, "deep"), subject="its successor is served")
    log = restarted.log.read_text()
    assert log.count(f"BlueprintInstance/{cluster.namespace}/deep nests deeper than") == 1
    assert "kopf's watches ended" not in operator.log.read_text() + log
