"""An object that another version stored, and that is not valid, hides no other one."""

import pytest

from kais_cli.exit_status import ExitStatus
from tests.cli import objects

WARNING = (
    "warning: Mission/demo/stored is not valid: spec.completion.maxAttempts: input should be"
    " greater than or equal to 1, got 0; `kais mission show stored -n demo -o yaml` shows it as it"
    " is stored\n"
)


@pytest.fixture(autouse=True)
def stored(cluster):
    """A valid mission, and one that is not."""
    invalid = objects.mission("stored")
    invalid["spec"]["completion"] = {"maxAttempts": 0}
    call = {
        "call": "ab12", "tool": "shell", "sha256": "0" * 64, "attempt": 1,
        "requestedAt": objects.AT, "expiresAt": "2030-01-01T00:12:00Z",
    }  # fmt: skip
    for body in (invalid, objects.mission(phase="Running", attempt=1, approvals=[call])):
        cluster.put(body)


@pytest.mark.parametrize("options", [(), ("-o", "wide"), ("-A",), ("-w",)], ids=" ".join)
def test_a_list_has_its_name_and_says_what_is_wrong(terminal, options):
    assert terminal.run("mission", "list", *options) == ExitStatus.SUCCEEDED
    assert [line.removeprefix("demo ").split()[0] for line in terminal.out.splitlines()[1:]] == [
        "doctor-x2k4f",
        "stored",
    ]
    assert terminal.err == WARNING


def test_calls_that_wait_for_approval_are_listed_and_approved(terminal):
    assert terminal.run("approvals", "list") == ExitStatus.SUCCEEDED
    assert "ab12" in terminal.out
    assert terminal.err == WARNING
    assert terminal.run("approvals", "approve", "ab12") == ExitStatus.SUCCEEDED


def test_a_formation_is_shown_without_the_cell_of_another_one(terminal, cluster):
    cluster.put(objects.made("Formation", "team", objects.TEMPLATE["formation"]))
    for formation, cell in (("team", "team-cell"), ("other", "other-cell")):
        cluster.put(objects.made("Cell", cell, {"formationRef": formation, "budget": 3}))
    assert terminal.run("formation", "show", "team") == ExitStatus.SUCCEEDED
    assert "Cell/demo/team-cell is not valid" in terminal.err
    assert "other-cell" not in terminal.err


def test_a_blueprint_is_compared_without_an_instance_of_another_one(terminal, cluster, tmp_path):
    file = tmp_path / "doctor.yaml"
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())
    terminal.run("blueprint", "show", "doctor", "-o", "json")
    file.write_text(terminal.out)
    invalid = objects.instance("stored")
    invalid["spec"] = {"blueprintRef": {"name": "nurse"}, "parameters": 3}
    cluster.put(invalid)
    assert terminal.run("blueprint", "diff", "doctor", "-f", str(file)) == ExitStatus.SUCCEEDED
    assert terminal.err == ""
