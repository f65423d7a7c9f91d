"""Files that a check looks for: one rule, kept by our program and by the shell of any image."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kais import workspace_paths
from kais_operator import file_check

read = Callable[[list[str], Path], tuple[int, str]]


def by_program(paths: list[str], workspace: Path) -> tuple[int, str]:
    return file_check.check_paths(paths, workspace=str(workspace))


def by_shell(shell: str) -> read:
    def look(paths: list[str], workspace: Path) -> tuple[int, str]:
        _, *arguments = workspace_paths.shell_command(paths, workspace=str(workspace))
        process = subprocess.run(
            [*shell.split(), *arguments], capture_output=True, text=True, check=False
        )
        assert process.stderr == ""
        return process.returncode, process.stdout.strip()

    return look


SHELLS = [shell for shell in ("dash", "bash", "busybox sh") if shutil.which(shell.split()[0])]
BOTH = [
    pytest.param(by_program, id="program"),
    *(pytest.param(by_shell(shell), id=shell) for shell in SHELLS),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace beside a secret, with files and links of every kind in it."""
    (tmp_path / "secret").write_text("s")
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer/file").write_text("s")
    root = tmp_path / "workspace"
    shared = root / "shared"
    (shared / "out").mkdir(parents=True)
    (root / "private/lead-0").mkdir(parents=True)
    (root / "private/lead-0/notes").write_text("n")
    (shared / "report.md").write_text("r")
    (shared / "a b").write_text("r")
    (shared / "-n").write_text("r")
    (shared / "to-report").symlink_to("report.md")
    (shared / "to-report-absolute").symlink_to(shared / "report.md")
    (shared / "to-link").symlink_to("to-report")
    (shared / "to-private").symlink_to("../private/lead-0")
    (shared / "to-secret").symlink_to(tmp_path / "secret")
    (shared / "to-link-out").symlink_to("to-secret")
    (shared / "to-outer").symlink_to("../../outer")
    (shared / "to-nothing").symlink_to("nothing")
    (shared / "to-nothing-outside").symlink_to(tmp_path / "nothing/at/all")
    (shared / "circle").symlink_to("circle")
    return root


@pytest.mark.parametrize("look", BOTH)
@pytest.mark.parametrize(
    "path",
    [
        "report.md",
        "./out",
        "a b",
        "-n",
        "out/../report.md",
        "../private/lead-0/notes",
        "to-report",
        "to-report-absolute",
        "to-link",
        "to-private",
        "to-private/notes",
        "/WORKSPACE/shared/report.md",
        "/WORKSPACE",
    ],
)
def test_a_file_inside_is_found(look: read, path: str, workspace: Path) -> None:
    assert look([path.replace("/WORKSPACE", str(workspace))], workspace) == (0, "")


@pytest.mark.parametrize("look", BOTH)
@pytest.mark.parametrize(
    "path", ["nothing", "nothing/in/there", "out/nothing", "to-nothing", "to-private/nothing"]
)
def test_a_file_that_is_not_there_is_missing(look: read, path: str, workspace: Path) -> None:
    assert look(["report.md", path], workspace) == (1, f"missing: {path}")


@pytest.mark.parametrize("look", BOTH)
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/WORKSPACEs/secret",
        "../../secret",
        "nothing/../../../secret",
        "../../nothing",
        "to-secret",
        "to-link-out",
        "to-outer",
        "to-outer/file",
        "to-outer/nothing",
        "to-nothing-outside",
    ],
)
def test_what_leads_out_is_an_error_whatever_is_there(
    look: read, path: str, workspace: Path
) -> None:
    path = path.replace("/WORKSPACE", str(workspace))
    expected = (2, f"not inside the workspace: {path}")
    assert look(["report.md", path, "nothing"], workspace) == expected


@pytest.mark.parametrize("look", BOTH)
def test_all_that_are_missing_are_named_in_one_line(look: read, workspace: Path) -> None:
    assert look(["one", "report.md", "a/two"], workspace) == (1, "missing: one, a/two")


@pytest.mark.parametrize("look", BOTH)
def test_a_link_in_a_circle_is_missing(look: read, workspace: Path) -> None:
    assert look(["circle"], workspace) == (1, "missing: circle")


def test_an_image_without_readlink_says_so(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _, *arguments = workspace_paths.shell_command(["to-report"], workspace=str(workspace))
    process = subprocess.run(
        [shutil.which("dash") or "/bin/sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path / "bin")},
    )
    assert (process.returncode, process.stdout.strip()) == (
        2,
        "to-report is a link, and the image has no readlink",
    )


def test_both_places_look_in_the_folder_that_is_mounted() -> None:
    assert workspace_paths.resolve_path("report.md") == "/workspace/shared/report.md"
    assert (
        workspace_paths.resolve_path("/workspace/private/lead-0/x") == "/workspace/private/lead-0/x"
    )
    assert workspace_paths.resolve_path("../../etc/passwd") is None
