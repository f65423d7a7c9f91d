"""The page of exit statuses has those of the code, and the command's page the same ones."""

import re

from e2e.support import documents
from kais import agent_results
from kais.outcomes import Outcome
from kais_cli import exit_status
from kais_cli.exit_status import ExitStatus
from kais_operator import file_check

REFERENCE = documents.ROOT / "docs/reference"
PAGE = (REFERENCE / "exit-statuses.md").read_text()


def test_every_status_of_the_command_is_on_both_pages() -> None:
    expected = {(str(status.value), status.name) for status in ExitStatus}
    for text in (PAGE, (REFERENCE / "cli.md").read_text()):
        assert set(re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", text, re.M)) == expected


def test_every_outcome_has_the_status_of_the_page() -> None:
    listed = re.findall(r"^\| (\d+) \| `[A-Z_]+` \| `(\w+)` \|", PAGE, re.M)
    assert {(str(exit_status.of_outcome(o).value), o.value) for o in Outcome} == set(listed)


def test_statuses_of_the_agent_runtime_are_listed() -> None:
    constants = {value for name, value in vars(agent_results).items() if name.startswith("EXIT_")}
    listed = {int(status) for status in re.findall(r"^\| `kais-agent` \| (\d+) \|", PAGE, re.M)}
    assert listed == constants


def test_statuses_of_the_file_check_are_listed(tmp_path) -> None:
    (tmp_path / "report.txt").touch()
    statuses = {
        file_check.check_paths([path], workspace=str(tmp_path))[0]
        for path in (str(tmp_path / "report.txt"), str(tmp_path / "other.txt"), "/etc/passwd")
    }
    listed = {
        int(status) for status in re.findall(r"^\| `kais-file-check` \| (\d+) \|", PAGE, re.M)
    }
    assert statuses == listed
