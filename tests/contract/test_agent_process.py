"""`kais-agent` as a process: its exit status, its termination message, and what a kill leaves."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kais import agent_results
from kais.agent_results import AgentResult, FailureClass
from tests.agent_attempts import PRICES, cell_spec
from tests.model_server import serving
from tests.model_server.serving import Running

ANSWER = "rules:\n  - {name: answer, reply: {text: Done., usage: {input: 10, output: 2}}}"
ENDLESS = "rules:\n  - {name: endless, reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}}"
FLOOD = """
rules:
  - name: flood
    reply: {text: abcdefghijklmnop, repeat: 256, chunk_size: 4096, endless: true}
"""
_PATIENCE_S = 60


class Pod:
    """The folders of a pod, and the process in it."""

    def __init__(self, folder: Path, server: Running) -> None:
        self.folder = folder
        self.server = server
        for name in ("workspace/shared", "workspace/private/critic-0"):
            (folder / name).mkdir(parents=True)
        (folder / "termination-log").touch()

    def start(self, **changes: str) -> subprocess.Popen[str]:
        """Start the process with the environment of a cell."""
        environment = {
            "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",
            "CELL_NAME": "critic-0",
            "CELL_NAMESPACE": "demo",
            "CELL_SPEC": json.dumps(cell_spec(mind={"baseUrl": f"{self.server.url}/v1"})),
            "KAIS_OBJECTIVE": "Review the change.",
            "KAIS_ATTEMPT": "1",
            "KAIS_AGENT_STATE": str(self.folder / "state"),
            "KAIS_WORKSPACE": str(self.folder / "workspace"),
            "KAIS_TERMINATION_FILE": str(self.folder / "termination-log"),
            "KAIS_PRICES": PRICES,
            **changes,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "agent_runtime"],
            env=environment,
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, **changes: str) -> tuple[int, str]:
        """Run the process to its end."""
        process = self.start(**changes)
        _, errors = process.communicate(timeout=_PATIENCE_S)
        return process.returncode, errors

    @property
    def result(self) -> AgentResult:
        """The termination message."""
        parsed = agent_results.parse((self.folder / "termination-log").read_text())
        assert parsed is not None
        return parsed


@pytest.fixture
def pod(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pod]:
    with serving.running(request.param) as server:
        yield Pod(tmp_path, server)


def wait_for_call(pod: Pod, process: subprocess.Popen[str]) -> None:
    """Wait until the first call has arrived at the model."""
    assert pod.server.server.journal.has_calls.wait(_PATIENCE_S), process.poll()


@pytest.mark.parametrize("pod", [ANSWER], indirect=True)
def test_an_answer_is_exit_status_0(pod: Pod) -> None:
    status, log = pod.run()
    assert status == 0, log
    assert pod.result.answer == "Done."
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert messages == [
        "attempt 1 with model house, 0 facts, 0 tools",
        "answered: 1 turns, 0 tool calls, 10 tokens in, 2 out, $0.00003",
    ]


@pytest.mark.parametrize("pod", [ANSWER], indirect=True)
def test_an_invalid_setting_is_exit_status_78_and_the_result_names_it(pod: Pod) -> None:
    status, log = pod.run(KAIS_MAX_COST="much")
    assert status == 78
    assert log.startswith("error: KAIS_MAX_COST is 'much'")
    assert pod.result.failure is not None
    assert pod.result.failure.reason is FailureClass.INVALID_CONFIGURATION
    status, log = pod.run(KAIS_ATTEMPT="first")
    assert status == 78
    assert pod.result.failure is not None
    assert "KAIS_ATTEMPT is 'first'" in pod.result.failure.message


@pytest.mark.parametrize(
    "pod", ["rules:\n  - {name: denied, reply: {status: 401, text: wrong key}}"], indirect=True
)
def test_a_failure_that_would_repeat_is_exit_status_1(pod: Pod) -> None:
    status, _ = pod.run()
    assert status == 1
    assert pod.result.failure is not None
    assert pod.result.failure.reason is FailureClass.MODEL_UNAUTHORIZED


@pytest.mark.parametrize("pod", [FLOOD], indirect=True)
def test_an_endless_answer_ends_the_attempt(pod: Pod) -> None:
    status, _ = pod.run()
    assert status == 1
    assert pod.result.failure is not None
    assert pod.result.failure.message == "an answer of the model exceeds 1048576 bytes"


@pytest.mark.parametrize("pod", [ENDLESS], indirect=True)
def test_a_stopped_pod_is_interrupted_and_counts_its_open_call(pod: Pod) -> None:
    process = pod.start()
    wait_for_call(pod, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 75
    result = pod.result
    assert result.failure is not None
    assert result.failure.reason is FailureClass.INTERRUPTED
    assert result.failure.message == "the pod was stopped while the mind worked"
    assert result.usage.estimated_cost == result.usage.cost > 0


@pytest.mark.parametrize("pod", [ENDLESS], indirect=True)
def test_a_killed_process_leaves_its_reservation_to_the_next_one(pod: Pod) -> None:
    process = pod.start()
    wait_for_call(pod, process)
    process.kill()
    process.communicate(timeout=_PATIENCE_S)
    rows = (
        sqlite3.connect(pod.folder / "state/ledger.db")
        .execute("SELECT state, cost > 0 FROM call")
        .fetchall()
    )
    assert rows == [("open", 1)]
    report = pod.result
    assert report.usage.estimated_cost == report.usage.cost > 0, "the kubelet reads this report"
    assert (report.answer, report.failure) == ("", None)
    status, _ = pod.run(KAIS_MAX_COST="0.05")
    assert status == 1
    assert pod.result.failure is not None
    assert pod.result.failure.reason is FailureClass.BUDGET
    assert len(pod.server.calls) == 1
