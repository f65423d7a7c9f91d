"""Find and run programs of this machine, and report their errors.

`PATH` is used only for the machine's tools (go, openssl, ip, buildah). kubectl and helm are called
by path from the cached binaries, never from `PATH`.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kais_cluster import errors, settings

Reporter = Callable[[str], None]
"""Called with one line of progress for the user."""

Argv = Sequence[object]
"""A program and its arguments; each is converted with `str`."""

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not in every user's PATH
_TAIL_LINES = 15  # enough to show the reason, short enough to read


def print_line(line: str) -> None:
    """Write a line of progress to standard output and flush it, also for a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def search_path(*first: Path) -> str:
    """Return PATH with the folders `first` before it, and the system folders that it lacks after.

    No folder appears twice, so a shell can set its PATH to the result again and again.
    """
    inherited = settings.environment().get("PATH", "").split(":")
    folders = [*map(str, first), *filter(None, inherited), *_SBIN]
    return ":".join(dict.fromkeys(folders))


def find_program(name: str) -> str | None:
    """Return the path of a program; None if there is none."""
    return shutil.which(name, path=search_path())


def find_go() -> str | None:
    """Return the path of the Go command, including the default folder of its archive."""
    return find_program("go") or shutil.which("go", path="/usr/local/go/bin")


def require_program(name: str, *, package: str) -> str:
    """Return the path of a program.

    Raises:
        MissingTools: The program is not installed; the message names the Debian package.
    """
    if path := find_program(name):
        return path
    raise errors.MissingTools(f"{name} not found; install it with: apt-get install {package}")


def run(
    argv: Argv,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout_s: float | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    `env` is added to the environment. Standard input is empty by default.

    Raises:
        CommandFailed: It ended with an error or took too long; with the end of its output.
    """
    command = " ".join(str(part) for part in argv[:4])
    try:
        process = subprocess.run(
            [str(part) for part in argv],
            env=settings.environment() | {"PATH": search_path()} | dict(env or {}),
            cwd=cwd,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as exc:
        raise errors.CommandFailed(f"{command} … did not end within {timeout_s:g} s") from exc
    except OSError as exc:
        raise errors.CommandFailed(f"{command} … could not start: {exc}") from exc
    if process.returncode != 0:
        output = last_lines((process.stdout + "\n" + process.stderr).strip())
        raise errors.CommandFailed(f"{command} … ended with {process.returncode}:\n{output}")
    return process.stdout


def last_lines(text: str, count: int = _TAIL_LINES) -> str:
    """Return the last lines of a text, indented."""
    return "\n".join("  " + line for line in text.splitlines()[-count:])
