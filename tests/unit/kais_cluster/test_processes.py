import os
import time

import pytest

from kais_cluster import errors, settings
from kais_cluster.host import processes

SLEEP = "/bin/sleep"


@pytest.fixture
def table(tmp_path):
    for name in ("pids", "logs"):
        (tmp_path / name).mkdir()
    table = processes.Processes(tmp_path)
    yield table
    table.stop(table.names(), grace_s=0.1)


def start(table, *arguments, program=SLEEP):
    table.start(program, arguments, env=settings.environment())


def test_started_process_is_known_by_its_file_name(table):
    start(table, 60)
    assert table.names() == ["sleep"]
    assert processes.start_time(table.pid("sleep"))


def test_stopped_process_is_gone_and_forgotten(table):
    start(table, 60)
    pid = table.pid("sleep")
    table.stop(["sleep"])
    assert processes.start_time(pid) == ""
    assert table.names() == []


def test_process_that_ignores_a_request_is_killed(table):
    start(table, "-c", "trap '' TERM; while :; do /bin/sleep 0.1; done", program="/bin/sh")
    pid = table.pid("sh")
    table.stop(["sh"], grace_s=0.2)
    assert processes.start_time(pid) == ""


def test_process_that_ended_by_itself_is_not_running_even_as_a_zombie(table):
    start(table, 0)
    deadline = time.monotonic() + 60
    while table.pid("sleep") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert table.pid("sleep") is None


def test_pid_that_another_program_has_now_is_not_ours(table):
    (table.directory / "pids" / "etcd").write_text(f"{os.getpid()} 1\n")
    assert table.pid("etcd") is None
    table.stop(["etcd"])  # and so this test goes on
    assert table.names() == []


def test_record_cut_short_by_a_crash_counts_as_ended(table):
    (table.directory / "pids" / "etcd").write_text("12")
    assert table.pid("etcd") is None


def test_wait_tells_which_process_ended_and_the_end_of_its_log(table):
    start(table, "-c", "echo port is taken; exit 1", program="/bin/sh")
    with pytest.raises(errors.StartFailed) as caught:
        table.wait_for("sh", "answer", lambda: False, deadline=time.monotonic() + 60)
    assert "sh ended while waiting for answer; the end of " in str(caught.value)
    assert "port is taken" in str(caught.value)


def test_wait_ends_at_its_deadline(table):
    start(table, 60)
    with pytest.raises(errors.StartFailed, match="no answer in time"):
        table.wait_for("sleep", "answer", lambda: False, deadline=time.monotonic())
