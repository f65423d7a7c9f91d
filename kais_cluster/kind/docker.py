"""Docker on this machine: whether it answers, and our images built with it.

With Docker, the base image comes from its registry. Without it, `host.image_builds` builds one.
"""

import contextlib
import functools
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kais_cluster import errors, subprocesses

_ANSWER_S = 5.0


class CommandRunner(Protocol):
    """Runs a program to its end and returns its output, as `subprocesses.run` does."""

    def __call__(
        self,
        argv: subprocesses.Argv,
        *,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """Run the program.

        Raises:
            CommandFailed: It ended with an error or took too long.
        """


def answers(run: CommandRunner = subprocesses.run) -> bool:
    """Return whether a Docker daemon answers within five seconds."""
    try:
        command = ["docker", "info", "--format", "{{.ServerVersion}}"]
        return bool(run(command, timeout_s=_ANSWER_S).strip())
    except errors.CommandFailed:
        return False


@functools.cache
def is_available() -> bool:
    """Return whether Docker answers; asks it once per process."""
    return subprocesses.find_program("docker") is not None and answers()


@dataclass(frozen=True)
class DockerBuilder:
    """Builds images in the storage of the Docker daemon."""

    report: subprocesses.Reporter = subprocesses.print_line
    run: CommandRunner = subprocesses.run

    def make_base(self) -> None:
        """Do nothing: Docker pulls the official Python image during a build."""

    def build(
        self,
        context: Path,
        reference: str,
        dockerfile: Path,
        *,
        arguments: Mapping[str, str] | None = None,
    ) -> str:
        """Build a Dockerfile and return the image's identity.

        Raises:
            CommandFailed: A step failed; the message contains the end of its output.
        """
        started = time.monotonic()
        previous_identity = self.identity(reference)
        command: list[object] = ["docker", "build", "--quiet", "--file", dockerfile]
        for key, value in (arguments or {}).items():
            command += ["--build-arg", f"{key}={value}"]
        self.run([*command, "--tag", reference, context])
        identity = self.identity(reference)
        changed = "unchanged" if identity == previous_identity else "built"
        self.report(f"{changed} {reference} in {time.monotonic() - started:.0f} s")
        return identity

    def identity(self, reference: str) -> str:
        """Return the digest of an image's configuration; empty if there is no such image."""
        try:
            return self.run(
                ["docker", "image", "inspect", "--format", "{{.Id}}", reference]
            ).strip()
        except errors.CommandFailed:
            return ""

    @contextlib.contextmanager
    def archive(self, reference: str) -> Iterator[Path]:
        """Write an image as a `docker save` archive, which exists during the block."""
        with tempfile.TemporaryDirectory(prefix="kais-image-") as scratch:
            archive = Path(scratch) / "image.tar"
            self.run(["docker", "save", "--output", archive, reference])
            yield archive

    def remove(self, reference: str) -> None:
        """Delete one image; ignores a missing one."""
        if self.identity(reference):
            self.run(["docker", "image", "rm", "--force", reference])
