"""Objects at rest: the operator writes none of them, however busy others keep it."""

import time
from collections.abc import Iterator

import pytest

from e2e.support import audit, manifests
from e2e.support.installed import Installed
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
REST_S = 120
QUIET_S = 10
KINDS = "blueprints,blueprintinstances,formations,cells,missions,knowledgescopes"


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("at-rest")


def test_objects_at_rest_are_not_written_for_two_minutes_while_others_are_at_work(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.blueprint("calm", namespace))
    completed = cluster.kais("blueprint", "use", "calm", "-n", namespace, "--name", "used")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    cluster.finished_mission("used", namespace)
    wait_until(
        lambda: (cluster.get("blueprint", "calm", namespace) or {}).get("status", {}),
        lambda status: status.get("succeeded") == 1 and status.get("running") == 0,
        description="statistics of the Blueprint",
    )
    begin = wait_for_rest(cluster, namespace)
    time.sleep(REST_S)
    assert writes(cluster, namespace, offset=begin) == []


def wait_for_rest(cluster: Installed, namespace: str) -> int:
    """Wait until nothing was written for a while; return the size of the audit log then."""
    while True:
        begin = audit.size(cluster)
        time.sleep(QUIET_S)
        if not writes(cluster, namespace, offset=begin):
            return audit.size(cluster)


def writes(cluster: Installed, namespace: str, *, offset: int) -> list[str]:
    """List what was written of the namespace's objects and of those that all tests share."""
    objects = cluster.list(KINDS, namespace)
    entries = audit.read_entries(cluster, offset=offset)
    return audit.writes_about(
        entries, namespace, uids={body["metadata"]["uid"] for body in objects}
    )
