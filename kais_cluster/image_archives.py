"""Find an image on this machine, in the storage of Docker, Podman or buildah, as an archive."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kais_cluster import errors, subprocesses
from kais_cluster.kind.docker import CommandRunner

_SAVE_COMMANDS = {
    "docker": ("docker", "save", "--output", "{archive}", "{image}"),
    "podman": ("podman", "save", "--quiet", "--output", "{archive}", "{image}"),
    "buildah": ("buildah", "push", "--quiet", "{image}", "docker-archive:{archive}:{image}"),
}
"""How each program writes an image as a `docker save` archive."""


@contextlib.contextmanager
def archive_of(
    image: str,
    *,
    run: CommandRunner = subprocesses.run,
    find_program: Callable[[str], str | None] = subprocesses.find_program,
) -> Iterator[Path]:
    """Yield the archive of an image; `image` is a file, or a name in the storage of a program.

    Raises:
        ClusterError: No program on this machine has the image; the message says what each answered.
    """
    path = Path(image)
    if path.is_file():
        yield path
        return
    answers = []
    with tempfile.TemporaryDirectory(prefix="kais-image-") as folder:
        archive = Path(folder) / "image.tar"
        for program, command in _SAVE_COMMANDS.items():
            if find_program(program) is None:
                continue
            try:
                run([part.format(archive=archive, image=image) for part in command])
            except errors.CommandFailed as exc:
                answers.append(f"{program}: {subprocesses.last_lines(str(exc), 1).strip()}")
                archive.unlink(missing_ok=True)
                continue
            yield archive
            return
    raise errors.ClusterError(_missing(image, answers))


def is_latest(image: str) -> bool:
    """Return whether an image has the tag `latest`, perhaps because its name has no tag."""
    if Path(image).is_file():
        return False
    return (image.rpartition("/")[2].partition(":")[2] or "latest") == "latest"


def _missing(image: str, answers: list[str]) -> str:
    text = f"there is no image {image} on this machine, and no file of that name"
    if not answers:
        programs = "neither docker nor podman nor buildah is installed"
        return f"{text}: {programs}; name a file that `docker save` wrote"
    return f"{text} ({'; '.join(answers)}); build it first, or name a file that `docker save` wrote"
