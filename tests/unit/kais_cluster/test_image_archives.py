import pytest

from kais_cluster import errors, image_archives


class Programs:
    """Programs that keep images: each has those that it is given, and saves them as files."""

    def __init__(self, **images):
        self.images = images
        self.commands = []

    def find(self, name):
        return f"/usr/bin/{name}" if name in self.images else None

    def run(self, command, **options):
        self.commands.append(" ".join(command[:2]))
        program, image = command[0], next(part for part in command[2:] if part.startswith("team/"))
        if image not in self.images[program]:
            raise errors.CommandFailed(f"{program} … ended with 1:\n  no such image: {image}")


def archive_of(image, programs):
    return image_archives.archive_of(image, run=programs.run, find_program=programs.find)


def test_a_file_is_its_own_archive(tmp_path):
    path = tmp_path / "image.tar"
    path.touch()
    with archive_of(str(path), Programs()) as archive:
        assert archive == path


def test_an_image_comes_from_the_first_program_that_has_it():
    programs = Programs(docker=[], podman=["team/agent:1"], buildah=["team/agent:1"])
    with archive_of("team/agent:1", programs) as archive:
        assert archive.name == "image.tar"
    assert programs.commands == ["docker save", "podman save"]


def test_an_image_that_no_program_has_is_named_with_each_answer():
    programs = Programs(docker=[], buildah=[])
    expected = (
        r"there is no image team/agent:1 on this machine, and no file of that name "
        r"\(docker: no such image: team/agent:1; buildah: no such image: team/agent:1\); build it"
        " first, or name a file that `docker save` wrote"
    )
    with (
        pytest.raises(errors.ClusterError, match=expected),
        archive_of("team/agent:1", programs),
    ):
        pass


def test_without_a_program_only_a_file_can_be_loaded():
    with (
        pytest.raises(errors.ClusterError, match="neither docker nor podman nor buildah"),
        archive_of("team/agent:1", Programs()),
    ):
        pass


@pytest.mark.parametrize(
    ("image", "is_latest"),
    [
        ("agent", True),
        ("localhost:5000/agent", True),
        ("team/agent:latest", True),
        ("team/agent:1", False),
        ("localhost:5000/agent:1", False),
    ],
)
def test_a_name_without_a_tag_is_the_latest(image, is_latest):
    assert image_archives.is_latest(image) == is_latest
