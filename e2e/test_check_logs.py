"""Checks that print much before their verdict, on real pods: the end of a log decides."""

from collections.abc import Iterator

import pytest

from e2e.support import tiny_images
from e2e.support.installed import Body, Installed
from e2e.support.tiny_images import BUSYBOX
from e2e.test_checks import cell, mission, ready, results, shell

pytestmark = pytest.mark.e2e
LINES = "yes \"$(head -c 199 /dev/zero | tr '\\0' x)\" | head -n {count}"
ONE_MIB_OUTPUT = LINES.format(count=5000)
HUGE_OUTPUT = LINES.format(count=90_000)  # 17.2 MiB


@pytest.fixture(scope="module")
def images(cluster: Installed) -> None:
    tiny_images.load()


@pytest.fixture
def namespace(cluster: Installed, images: None, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from cluster.fresh_namespace("check-logs")


def verdicts_at_the_end() -> list[Body]:
    covered = f'{ONE_MIB_OUTPUT}; echo \'{{"total": {{"percent": 83.5}}}}\''
    return [
        shell("good", f"{ONE_MIB_OUTPUT}; echo verdict: good", successPattern="verdict: good$"),
        shell("bad", f"{ONE_MIB_OUTPUT}; echo verdict: bad", failPattern="verdict: bad$"),
        {"name": "covered", "type": "coverage", "command": covered, "jsonPath": "total.percent",
         "operator": ">=", "value": 80},
        shell("endless", f"{HUGE_OUTPUT}; echo verdict: good", successPattern="verdict: good$"),
    ]  # fmt: skip


def statuses(body: Body) -> dict[str, str]:
    return {name: status for name, (status, _) in results(body).items()}


EXPECTED = {"good": "Passed", "bad": "Failed", "covered": "Passed", "endless": "Error"}
TOO_LONG = "its log is longer than 16 MiB; print less"


def test_the_last_line_of_much_output_judges_a_task(cluster: Installed, namespace: str) -> None:
    cluster.apply(
        cell("work", namespace, BUSYBOX, "true"),
        mission("work", namespace, *verdicts_at_the_end(), completion={"maxAttempts": 1}),
    )
    finished_mission = cluster.finished_mission("work", namespace)
    check_results = results(finished_mission)
    # The kubelet looks every ten seconds whether a log is to be rotated, and gives what is left.
    assert check_results.pop("endless") in {("Error", TOO_LONG), ("Passed", "")}, finished_mission[
        "status"
    ]
    assert {name: status for name, (status, _) in check_results.items()} == {
        name: status for name, status in EXPECTED.items() if name != "endless"
    }
    assert check_results["covered"][1] == "83.5 >= 80"


def test_the_last_line_of_much_output_judges_a_running_cell(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(cell("serve", namespace, BUSYBOX, "sleep", "100000", mode="Service"))
    ready(cluster, "serve", namespace)
    cluster.apply(
        mission("serve", namespace, *verdicts_at_the_end(), completion={"maxAttempts": 1})
    )
    finished_mission = cluster.finished_mission("serve", namespace)
    assert statuses(finished_mission) == EXPECTED, finished_mission["status"]
    assert results(finished_mission)["covered"][1] == "83.5 >= 80"
    assert results(finished_mission)["endless"][1] == "it printed more than 16 MiB and was stopped"
