"""What our images are made of: hashed packages, no index, no root."""

from pathlib import Path

import pytest

from kais_cluster import images

ROOT = Path(__file__).parents[3]
DOCKERFILES = [image.dockerfile for image in images.IMAGES]
OURS = [path for path in DOCKERFILES if "bring-your-own-image" not in path]
"""Those with our package in them; the other example shows an image that knows nothing of kais."""


def instructions(path: str) -> list[str]:
    text = (ROOT / path).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("path", OURS)
def test_image_is_built_on_the_one_base_in_two_stages(path: str) -> None:
    bases = [line for line in instructions(path) if line.startswith("FROM ")]

    assert bases == ["FROM python:3.11-slim-bookworm AS build", "FROM python:3.11-slim-bookworm"]


@pytest.mark.parametrize("path", OURS)
def test_every_package_is_checked_by_its_hash_and_nothing_is_resolved_anew(path: str) -> None:
    installs = [line for line in instructions(path) if " pip install" in line]

    requirements, wheel = installs
    assert "--require-hashes --no-deps -r /build/requirements.txt" in requirements
    assert "--no-deps /build/kais-*.whl" in wheel


@pytest.mark.parametrize("path", DOCKERFILES)
def test_no_layer_names_an_index_or_a_host(path: str) -> None:
    text = "\n".join(instructions(path))

    assert "://" not in text
    assert "index" not in text
    assert "trusted-host" not in text


@pytest.mark.parametrize("path", DOCKERFILES)
def test_last_stage_runs_nothing_and_is_not_root(path: str) -> None:
    lines = instructions(path)
    last = lines[lines.index("FROM python:3.11-slim-bookworm") :]

    assert not [line for line in last if line.startswith("RUN ")]
    assert "USER 65532:65532" in last
    assert last[-1].startswith(("ENTRYPOINT [", "CMD ["))


def test_programs_of_the_images_are_those_of_the_distribution() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()

    for path, program in zip(DOCKERFILES, ("kais-operator", "kais-knowledge"), strict=False):
        assert f'ENTRYPOINT ["{program}"]' in instructions(path)
        assert f"\n{program} = " in pyproject
