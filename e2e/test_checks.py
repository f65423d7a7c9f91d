"""The checks of missions on real pods: in the attempt's pod, and by exec in a running cell."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import tiny_images
from e2e.support.installed import KAIS_NAMESPACE, OPERATOR, Body, Installed, conditions
from e2e.support.tiny_images import BARE, BUSYBOX
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
SHARED = "/workspace/shared"
CATASTROPHE = "(a+)+$"


@pytest.fixture(scope="module")
def images(cluster: Installed) -> None:
    tiny_images.load()


@pytest.fixture
def namespace(cluster: Installed, images: None, request: pytest.FixtureRequest) -> Iterator[str]:
    title = request.node.name.removeprefix("test_").replace("_", "-")
    yield from cluster.fresh_namespace(f"checks-{title[:40].strip('-')}")


def cell(name: str, namespace: str, image: str, *argv: str, mode: str = "Task") -> Body:
    container = {"image": image, "command": list(argv)}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Cell",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"mode": mode, "container": container},
    }


def mission(cell_name: str, namespace: str, *checks: Body, **spec: Any) -> Body:
    completion = {"checks": list(checks), **spec.pop("completion", {})}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "metadata": {"name": cell_name, "namespace": namespace},
        "spec": {
            "cellRef": cell_name,
            "objective": "Do the work that the test asks for",
            "completion": completion,
            **spec,
        },
    }


def shell(name: str, command: str, **spec_fields: Any) -> Body:
    return {"name": name, "type": "command", "command": command, **spec_fields}


def results(body: Body) -> dict[str, tuple[str, str]]:
    checks = body["status"]["checks"]
    return {check["name"]: (check["status"], check.get("message", "")) for check in checks}


def operator_pod(cluster: Installed) -> Body:
    return cluster.list("pod", KAIS_NAMESPACE, OPERATOR)[0]


def restarts(cluster: Installed) -> list[int]:
    """How often each container of the operator's pod was started again."""
    return [
        container_status["restartCount"]
        for container_status in operator_pod(cluster)["status"]["containerStatuses"]
    ]


TASK_SCRIPT = """
mkdir -p /workspace/shared/out
echo "# report" > /workspace/shared/out/report.md
echo '{"total": {"percent": 83.5}}' > /workspace/shared/coverage.json
printf %s "The report is Ready" > /dev/termination-log
"""


def test_checks_of_every_type_see_what_the_work_left(cluster: Installed, namespace: str) -> None:
    cluster.apply(
        cell("work", namespace, BUSYBOX, "sh", "-c", TASK_SCRIPT),
        mission(
            "work", namespace,
            {"name": "files", "type": "fileExists", "paths": ["out/report.md", "coverage.json"]},
            shell("report", "grep -q report /workspace/shared/out/report.md"),
            shell("words", "cat /workspace/shared/out/report.md", successPattern="^# rep"),
            {"name": "covered", "type": "coverage", "command": f"cat {SHARED}/coverage.json",
             "jsonPath": "total.percent", "operator": ">=", "value": 80},
            {"name": "answer", "type": "response", "successPattern": "is ready$"},
            {"name": "old", "type": "natsResponse", "successPattern": "READY"},
        ),
    )  # fmt: skip
    finished_mission = cluster.finished_mission("work", namespace)
    assert finished_mission["status"]["outcome"] == "Succeeded", finished_mission["status"]
    assert {
        name: status for name, (status, _) in results(finished_mission).items()
    } == dict.fromkeys(("files", "report", "words", "covered", "answer", "old"), "Passed")
    assert results(finished_mission)["covered"] == ("Passed", "83.5 >= 80")
    assert finished_mission["status"]["result"] == "The report is Ready"


def test_failed_checks_reach_the_next_attempt_as_feedback(
    cluster: Installed, namespace: str
) -> None:
    script = 'echo -n "$KAIS_FEEDBACK" | head -c 4000 > /dev/termination-log; '
    script += '[ -n "$KAIS_FEEDBACK" ] && echo > /workspace/shared/report.md; true'
    cluster.apply(
        cell("again", namespace, BUSYBOX, "sh", "-c", script),
        mission(
            "again", namespace,
            {"name": "files", "type": "fileExists", "paths": ["report.md"]},
            {"name": "outside", "type": "fileExists", "paths": ["/workspace/shared"]},
            completion={"maxAttempts": 2},
        ),
    )  # fmt: skip
    finished_mission = cluster.finished_mission("again", namespace)
    assert (finished_mission["status"]["outcome"], finished_mission["status"]["attempt"]) == (
        "Succeeded",
        2,
    )
    feedback = "checks failed: files Failed: missing: report.md"
    assert finished_mission["status"]["history"][0]["result"] == feedback
    assert finished_mission["status"]["result"] == feedback, (
        "the next attempt was told in KAIS_FEEDBACK"
    )


def test_checks_that_hang_print_without_end_or_have_slow_patterns_are_errors_and_harm_nobody(
    cluster: Installed, namespace: str
) -> None:
    restarts_before = restarts(cluster)
    # The kubelet looks every ten seconds whether a log is to be rotated; what it puts aside is not
    # read, so the last word comes after that.
    excessive_output = "yes 0123456789 | head -c 100000000; sleep 12; echo abcdef"
    cluster.apply(
        cell("bad", namespace, BUSYBOX, "true"),
        mission(
            "bad", namespace,
            shell("hangs", "sleep 1000", timeoutSeconds=8),
            shell("floods", excessive_output, failPattern="^fine$", successPattern="abcdef"),
            shell("slow", f"echo {'a' * 40}!", failPattern=CATASTROPHE),
            shell("broken", "true", failPattern="("),
            {"name": "escape", "type": "fileExists", "paths": ["../../etc/passwd"]},
            completion={"maxAttempts": 1},
        ),
        cell("good", namespace, BUSYBOX, "true"),
        {**mission("good", namespace, shell("ok", "true"))},
    )  # fmt: skip
    good = cluster.finished_mission("good", namespace)
    assert good["status"]["outcome"] == "Succeeded"
    finished_mission = cluster.finished_mission("bad", namespace)
    check_results = results(finished_mission)
    assert finished_mission["status"]["outcome"] == "Failed"
    assert check_results["hangs"] == ("Error", "it did not end within 8 s")
    assert check_results["floods"] == ("Passed", "")
    assert check_results["slow"][0] == "Error"
    assert "its pattern is too slow" in check_results["slow"][1]
    assert check_results["broken"][0] == "Error"
    assert check_results["escape"] == (
        "Error",
        "the files could not be looked for: not inside the workspace: ../../etc/passwd",
    )
    assert restarts(cluster) == restarts_before


def test_what_users_write_arrives_letter_for_letter(cluster: Installed, namespace: str) -> None:
    text = "say $(CELL_NAME) and $$(X) and ${X}"
    script = 'printf %s "$KAIS_OBJECTIVE" > /dev/termination-log'
    cluster.apply(
        cell("letters", namespace, BUSYBOX, "sh", "-c", script),
        mission(
            "letters", namespace,
            {"name": "argv", "type": "command", "argv": ["echo", "$(CELL_NAME) $$(X)"],
             "successPattern": r"^\$\(CELL_NAME\) \$\$\(X\)$"},
            objective=text,
        ),
    )  # fmt: skip
    finished_mission = cluster.finished_mission("letters", namespace)
    assert finished_mission["status"]["result"] == text
    assert results(finished_mission) == {"argv": ("Passed", "")}


def test_an_image_without_a_shell_is_checked_by_argv_and_says_so_otherwise(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(
        cell("bare", namespace, BARE, "/bare", "work", "done"),
        mission(
            "bare", namespace,
            {"name": "files", "type": "fileExists", "paths": ["report.md"]},
            {"name": "argv", "type": "command", "argv": ["/bare", "say", "fine"],
             "successPattern": "^fine$"},
            {"name": "fails", "type": "command", "argv": ["/bare", "exit", "3"]},
            shell("shell", "true"),
            completion={"maxAttempts": 1},
        ),
    )  # fmt: skip
    finished_mission = cluster.finished_mission("bare", namespace)
    assert results(finished_mission) == {
        "files": ("Passed", ""),
        "argv": ("Passed", ""),
        "fails": ("Failed", "exit code 3"),
        "shell": (
            "Error",
            "the cell's image has no shell (sh) to run command with; give argv",
        ),
    }
    assert finished_mission["status"]["result"] == "done"


def ready(cluster: Installed, name: str, namespace: str) -> None:
    wait_until(
        lambda: conditions(cluster.get("cell", name, namespace)),
        lambda cell_conditions: cell_conditions.get("Ready", {}).get("status") == "True",
        description=f"ready cell {name}",
    )


def test_a_busybox_cell_that_keeps_running_is_checked_inside(
    cluster: Installed, namespace: str
) -> None:
    serve = "cd /workspace/shared; echo hi > here; ln -s /etc/passwd out; exec sleep 100000"
    cluster.apply(cell("serve", namespace, BUSYBOX, "sh", "-c", serve, mode="Service"))
    ready(cluster, "serve", namespace)
    # The kubelet looks every ten seconds whether a log is to be rotated; what it puts aside is not
    # read, so the last word comes after that.
    excessive_output = "yes 0123456789 | head -c 100000000; sleep 12; echo abcdef"
    cluster.apply(
        mission(
            "serve", namespace,
            shell("passes", "grep -q hi /workspace/shared/here"),
            shell("out", "echo warn >&2; echo fine", successPattern="^fine$", failPattern="warn"),
            {"name": "files", "type": "fileExists", "paths": ["/workspace/shared/here", "here"]},
            {"name": "covered", "type": "coverage", "command": "echo '{\"n\": 3}'", "jsonPath": "n",
             "operator": "==", "value": 3},
            completion={"maxAttempts": 1},
        ),
        {
            **mission(
                "serve", namespace,
                shell("fails", "echo no >&2; exit 4"),
                shell("hangs", "sleep 1000", timeoutSeconds=3),
                shell("floods", excessive_output),
                {"name": "missing", "type": "fileExists", "paths": ["there"]},
                {"name": "outside", "type": "fileExists", "paths": ["/etc/passwd"]},
                {"name": "linked", "type": "fileExists", "paths": ["out"]},
                completion={"maxAttempts": 1},
            ),
            "metadata": {"name": "serve-badly", "namespace": namespace},
        },
    )  # fmt: skip
    good = cluster.finished_mission("serve", namespace)
    assert results(good) == {
        "passes": ("Passed", ""),
        "out": ("Passed", ""),
        "files": ("Passed", ""),
        "covered": ("Passed", "3 == 3"),
    }
    assert good["status"]["outcome"] == "Succeeded"
    bad = results(cluster.finished_mission("serve-badly", namespace))
    assert bad["fails"] == ("Failed", "exit code 4: no")
    assert bad["hangs"] == ("Error", "it did not end within 3 s")
    assert bad["floods"] == ("Error", "it printed more than 16 MiB and was stopped")
    assert bad["missing"] == ("Failed", "missing: there")
    assert bad["outside"] == (
        "Error",
        "the files could not be looked for: not inside the workspace: /etc/passwd",
    )
    assert bad["linked"] == (
        "Error",
        "the files could not be looked for: not inside the workspace: out",
    )
    assert cluster.list("job", namespace) == []


def test_a_running_cell_without_a_shell_is_checked_by_argv(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(cell("quiet", namespace, BARE, "/bare", "serve", mode="Service"))
    ready(cluster, "quiet", namespace)
    cluster.apply(
        mission(
            "quiet", namespace,
            {"name": "argv", "type": "command", "argv": ["/bare", "say", "$(X)"],
             "successPattern": r"^\$\(X\)$"},
            shell("shell", "true"),
            {"name": "files", "type": "fileExists", "paths": ["/bare"]},
            completion={"maxAttempts": 1},
        ),
    )  # fmt: skip
    assert results(cluster.finished_mission("quiet", namespace)) == {
        "argv": ("Passed", ""),
        "shell": ("Error", "the cell's image has no shell (sh) to run command with; give argv"),
        "files": (
            "Error",
            "the cell's image has no shell (sh) to look for files with; use mode: Task",
        ),
    }


def test_a_mission_of_a_running_cell_without_checks_says_what_is_missing(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(cell("mute", namespace, BARE, "/bare", "serve", mode="Service"))
    ready(cluster, "mute", namespace)
    cluster.apply(mission("mute", namespace))
    mission_conditions = wait_until(
        lambda: conditions(cluster.get("mission", "mute", namespace)),
        lambda mission_conditions: (
            mission_conditions.get("Started", {}).get("reason") == "NotYetSupported"
        ),
        description="words about what is missing",
    )
    message = mission_conditions["Started"]["message"]
    assert "keeps running without container.a2a, so it gets no objective" in message
    assert "set container.a2a, use command, coverage or fileExists checks, or mode: Task" in message


def test_what_can_mean_nothing_is_refused_at_apply(cluster: Installed, namespace: str) -> None:
    check_of_two_kinds = {"name": "a", "type": "command", "command": "true", "argv": ["true"]}
    apply_result = cluster.kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(mission("x", namespace, check_of_two_kinds)),
        check=False,
    )
    assert "a command or coverage check needs exactly one of command and argv" in apply_result
