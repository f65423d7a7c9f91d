import io
import json
import re
import tarfile
import tomllib
from pathlib import Path

import pytest

from kais_cluster import errors, image_catalog
from kais_cluster.host import image_builds as host_images
from kais_cluster.host import node_cleanup, pause


def test_pip_settings_of_the_nearer_place_win():
    listing = "\n".join(
        [
            "global.index-url='https://far.example/simple'",
            ":env:.index-url='https://near.example/simple'",
            "global.cert='/some/where.crt'",
        ]
    )
    assert host_images.pip_settings(listing).splitlines() == [
        "[global]",
        "cert = /run/host-ca.crt",
        "disable-pip-version-check = true",
        "root-user-action = ignore",
        "index-url = https://near.example/simple",
    ]


def test_pip_setting_of_several_lines_is_indented():
    text = host_images.pip_settings(r"global.extra-index-url='https://a\nhttps://b'")
    assert text.endswith("extra-index-url = https://a\n    https://b\n")


def test_pause_image_is_an_archive_with_one_program(tmp_path):
    (tmp_path / "pause").write_bytes(b"program")
    pause.write_archive(tmp_path / "pause", tmp_path / "pause.tar")
    with tarfile.open(tmp_path / "pause.tar") as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        layer = archive.extractfile(manifest["Layers"][0]).read()
    assert manifest["RepoTags"] == [pause.IMAGE]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert files.extractfile("pause").read() == b"program"
        assert files.getmember("pause").mode == 0o755


def test_image_storage_whose_removal_was_interrupted_is_none(tmp_path, monkeypatch):
    messages, storage = [], tmp_path / "images"
    (storage / "root/overlay").mkdir(parents=True)
    builder = host_images.BuildahBuilder(storage, messages.append)

    def interrupted(folder):
        if folder.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(node_cleanup, "remove_tree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            builder.remove_all()
    assert not storage.exists()
    builder.remove_all()
    assert list(tmp_path.iterdir()) == []
    assert messages == [f"removing the images in {storage}"] * 2 + [
        f"removed the images in {storage}"
    ]
    builder.remove_all()
    assert len(messages) == 3


def test_base_image_keeps_licences_and_nothing_else_that_no_program_reads(tmp_path):
    for name in (
        "usr/share/doc/bash/copyright",
        "usr/share/doc/bash/README",
        "usr/share/man/man1/bash.1",
        "usr/share/locale/de/bash.mo",
        "usr/local/lib/pip/__pycache__/pip.cpython-311.pyc",
        "usr/lib/python3.11/test/regrtest.py",
        "usr/lib/python3.11/pydoc_data/topics.py",
        "usr/share/zoneinfo/right/UTC",
        "var/cache/debconf/templates.dat-old",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (tmp_path / "usr/share/doc/sh").symlink_to("bash")
    host_images._remove_unused_files(tmp_path)
    remaining_paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert remaining_paths == [tmp_path / "usr/share/doc/bash/copyright"]


def test_base_image_keeps_nothing_of_this_machine(tmp_path):
    for name in ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list", "var/log/boot.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret.example")
    host_images._remove_machine_details(tmp_path)
    remaining_paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert remaining_paths == [tmp_path / "etc/apt/sources.list"]
    assert "secret.example" not in remaining_paths[0].read_text()


def test_checkout_knows_the_version_of_the_distribution():
    source = image_catalog.checkout()
    text = (source.root / "pyproject.toml").read_text()
    version = tomllib.loads(text)["project"]["version"]
    client = next(image for image in image_catalog.IMAGES if image.name == "client")
    assert source.reference(client) == f"localhost/kais/client:{version}"


def test_installed_package_without_a_checkout_says_so(tmp_path):
    with pytest.raises(errors.MissingTools, match="images and charts need one"):
        image_catalog.checkout(tmp_path)


def test_each_image_has_its_dockerfile_in_a_package_or_example():
    source = image_catalog.checkout()
    for image in image_catalog.IMAGES:
        text = (source.root / image.dockerfile).read_text()
        assert Path(image.dockerfile).name == "Dockerfile"
        if image.name != "bring-your-own-image":
            assert f"docker build -f {image.dockerfile} ." in text


def test_the_build_context_holds_what_the_dockerfiles_copy_and_nothing_else_of_the_checkout():
    source = image_catalog.checkout()
    entries = image_catalog.context_entries(source)
    pyproject = tomllib.loads((source.root / "pyproject.toml").read_text())
    for package in pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert package.partition("/")[0] in entries
    assert set(pyproject["project"]["license-files"]) == {"LICENSE", "NOTICE"} <= set(entries)
    for image in image_catalog.IMAGES:
        text = (source.root / image.dockerfile).read_text()
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.MULTILINE):
            for path in line.split():
                assert path == "." or any(Path(path).is_relative_to(name) for name in entries)
    with image_catalog.context(source) as folder:
        assert {path.name for path in folder.iterdir()} == {
            *(name.partition("/")[0] for name in entries),
            ".dockerignore",
        }
        assert not list(folder.rglob("__pycache__"))


def test_images_are_built_with_the_uv_of_the_makefile():
    source = image_catalog.checkout()
    makefile = (source.root / "Makefile").read_text()
    version = re.search(r"^UV_VERSION := (.+)$", makefile, flags=re.MULTILINE)
    assert version
    for image in image_catalog.IMAGES:
        text = (source.root / image.dockerfile).read_text()
        assert set(re.findall(r"uv==(\S+)", text)) <= {version[1]}
