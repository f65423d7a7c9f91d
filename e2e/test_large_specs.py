"""What a process can be given, on real pods: the longest that fits, and a spec in a file."""

from collections.abc import Iterator

import pytest

from e2e.support import tiny_images
from e2e.support.installed import Installed
from e2e.support.tiny_images import BUSYBOX
from e2e.test_checks import cell, mission

pytestmark = pytest.mark.e2e
LONGEST = 131_072 - len("KAIS_OBJECTIVE=") - 1
"""Bytes of a variable's value that the kernel takes, besides its name and the zero at its end."""


@pytest.fixture(scope="module")
def images(cluster: Installed) -> None:
    tiny_images.load()


@pytest.fixture
def namespace(cluster: Installed, images: None) -> Iterator[str]:
    yield from cluster.fresh_namespace("large-specs")


def test_the_longest_objective_reaches_its_task_and_a_longer_one_is_named(
    cluster: Installed, namespace: str
) -> None:
    count = 'printf %s "$KAIS_OBJECTIVE" | wc -c > /dev/termination-log'
    wide = "🛟" * (LONGEST // 4)  # the CRD counts characters, the kernel bytes
    longest = wide + "x" * (LONGEST % 4)
    cluster.apply(
        cell("work", namespace, BUSYBOX, "sh", "-c", count),
    )
    longer = mission("work", namespace, objective=f"{longest}x", startDeadline="5s")
    longer["metadata"]["name"] = "longer"
    cluster.apply(mission("work", namespace, objective=longest))
    cluster.apply(longer)
    finished_mission = cluster.finished_mission("work", namespace)
    assert finished_mission["status"]["outcome"] == "Succeeded", finished_mission["status"]
    assert finished_mission["status"]["result"].strip() == str(LONGEST)
    refused = cluster.finished_mission("longer", namespace)
    assert refused["status"]["outcome"] == "InfrastructureFailed"
    assert "spec.objective takes 131073 bytes" in refused["status"]["message"]


def test_a_spec_too_large_for_a_variable_is_read_from_its_file(
    cluster: Installed, namespace: str
) -> None:
    script = 'test -z "$CELL_SPEC" && wc -c < "$KAIS_CELL_SPEC_FILE" > /dev/termination-log'
    large = cell("work", namespace, BUSYBOX, "sh", "-c", script)
    large["spec"]["container"]["env"] = [{"name": f"V{i}", "value": "x" * 60_000} for i in range(3)]
    cluster.apply(large, mission("work", namespace))
    finished_mission = cluster.finished_mission("work", namespace)
    assert finished_mission["status"]["outcome"] == "Succeeded", finished_mission["status"]
    assert int(finished_mission["status"]["result"]) > 180_000
