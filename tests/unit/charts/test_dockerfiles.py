"""What our images are made of: hashed packages, no index, no root."""

from pathlib import Path

import pytest

from kais_cluster import image_catalog

ROOT = Path(__file__).parents[3]
DOCKERFILES = [image.dockerfile for image in image_catalog.IMAGES]
OWN_DOCKERFILES = [path for path in DOCKERFILES if "bring-your-own-" not in path]
"""All but the examples of images that know nothing of kais."""
PACKAGED_DOCKERFILES = [path for path in OWN_DOCKERFILES if "model_server" not in path]
"""Those with our package in them; the scripted model server is none of its modules."""


def instructions(path: str) -> list[str]:
    text = (ROOT / path).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def installs_of_image(path: str) -> list[str]:
    """The instructions that install into the folder that the image gets."""
    return [line for line in instructions(path) if "/opt/kais/bin/python -m pip install" in line]


@pytest.mark.parametrize("path", OWN_DOCKERFILES)
def test_every_stage_of_an_image_is_built_on_the_one_base(path: str) -> None:
    bases = [line for line in instructions(path) if line.startswith("FROM ")]

    assert bases[0] == "FROM python:3.11-slim-bookworm AS tools"
    assert bases[-1] == "FROM python:3.11-slim-bookworm"
    assert {line.rpartition(" AS ")[0] for line in bases[1:-1]} == {"FROM tools"}


@pytest.mark.parametrize("path", OWN_DOCKERFILES)
def test_last_stage_gets_what_the_build_stage_installed_and_no_tools(path: str) -> None:
    lines = instructions(path)
    last = lines[lines.index("FROM python:3.11-slim-bookworm") :]

    copied = [line for line in last if line.startswith("COPY --from=")]
    assert copied == ["COPY --from=build /opt/kais /opt/kais"]


def test_the_model_server_installs_nothing_but_checked_packages() -> None:
    (install,) = installs_of_image("tests/model_server/Dockerfile")

    assert "--require-hashes --no-deps -r /requirements.txt" in install


def test_the_image_of_minds_contains_bytecode_of_what_it_imports_and_no_other_program() -> None:
    build = instructions("agent_runtime/Dockerfile")

    assert [line for line in build if "python -B -m agent_runtime.image_files" in line]


@pytest.mark.parametrize("path", PACKAGED_DOCKERFILES)
def test_every_package_is_checked_by_its_hash_and_nothing_is_resolved_anew(path: str) -> None:
    requirements, wheel = installs_of_image(path)

    assert "--require-hashes --no-deps -r /requirements.txt" in requirements
    assert "--no-deps /wheels/kais-*.whl" in wheel


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
