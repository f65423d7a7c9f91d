"""Ctrl-C ends a command with its status, wherever it is pressed."""

import asyncio
import signal

import pytest

from kais_cli import app, entry_points
from kais_cli.cluster.blocking_portal import BlockingPortal
from kais_cli.exit_status import ExitStatus
from kais_cli.interrupts import Interrupts


@pytest.fixture
def recorded():
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts = Interrupts()
    interrupts.record()
    yield interrupts
    signal.signal(signal.SIGINT, handler)


def test_ctrl_c_is_recorded_and_raised(recorded):
    assert not recorded.has_happened()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert recorded.has_happened()


def test_a_process_that_ignores_the_signal_still_does():
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Interrupts().record()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_an_error_of_a_library_after_ctrl_c_is_no_unexpected_error(terminal, cluster, monkeypatch):
    def fail(*arguments, **options):
        terminal.is_interrupted = True
        raise RuntimeError("SchemaError: KeyboardInterrupt: ")

    monkeypatch.setattr(cluster, "list", fail)
    assert terminal.run("mission", "list") == ExitStatus.INTERRUPTED
    assert terminal.err == ""


def test_ctrl_c_while_modules_are_loaded_has_the_status_of_an_interrupt(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "main", interrupt)
    monkeypatch.setattr("sys.argv", ["kais", "mission", "list"])
    assert entry_points.main() == ExitStatus.INTERRUPTED


def test_a_task_is_cancelled_without_waiting():
    async def start():
        return asyncio.get_running_loop().create_task(asyncio.Event().wait())

    async def has_ended():
        await asyncio.wait([task])
        return task.cancelled()

    portal = BlockingPortal()
    task = portal.run(start())
    portal.cancel(task)
    assert portal.run(has_ended())
    portal.close()
