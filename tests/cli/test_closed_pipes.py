"""Readers of a pipe that go away, as `head` does: the command ends without a message."""

import io

import pytest

from kais_cli import app
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

NAME = "doctor-x2k4f"


class ClosedPipe(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.fixture
def followed(cluster):
    cluster.put(objects.instance(mission=NAME))
    cluster.put(objects.mission(phase="Running"))
    cluster.script = [objects.mission(phase="Running", attempt=1), objects.ended()]


FOLLOWING = [("mission", "watch", NAME), ("mission", "wait", NAME), ("instance", "wait", NAME)]


@pytest.mark.parametrize("arguments", FOLLOWING, ids=" ".join)
def test_the_progress_of_a_run_has_no_reader_any_more(terminal, followed, arguments):
    stderr = io.StringIO()
    environment = terminal.environment(stdout=ClosedPipe(), stderr=stderr)
    assert app.main(arguments, environment) == ExitStatus.READER_GONE
    assert stderr.getvalue() == ""


def test_progress_on_stderr_has_no_reader_any_more(terminal, followed):
    environment = terminal.environment(stdout=io.StringIO(), stderr=ClosedPipe())
    assert app.main((*FOLLOWING[0], "-o", "json"), environment) == ExitStatus.READER_GONE


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("mission", "show", "nurse"), ExitStatus.FAILED),
        (("mission", "shwo"), ExitStatus.USAGE),
        (("mission", "list"), ExitStatus.READER_GONE),  # it notes that there is none
    ],
)
def test_an_error_without_a_reader_has_its_exit_status(terminal, arguments, status):
    environment = terminal.environment(stdout=io.StringIO(), stderr=ClosedPipe())
    assert app.main(arguments, environment) == status
