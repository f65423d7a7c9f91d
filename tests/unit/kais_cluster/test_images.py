import io
import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from kais_cluster import errors, images
from kais_cluster.host import cleanup, pause
from kais_cluster.host import images as host_images


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
    said, storage = [], tmp_path / "images"
    (storage / "root/overlay").mkdir(parents=True)
    builder = host_images.BuildahBuilder(storage, said.append)

    def interrupted(folder):
        if folder.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cleanup, "remove_tree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            builder.remove_all()
    assert not storage.exists()
    builder.remove_all()
    assert list(tmp_path.iterdir()) == []
    assert said == [f"removing the images in {storage}"] * 2 + [f"removed the images in {storage}"]
    builder.remove_all()
    assert len(said) == 3


def test_base_image_keeps_nothing_of_this_machine(tmp_path):
    for name in ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list", "var/log/boot.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret.example")
    host_images._remove_machine_details(tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [tmp_path / "etc/apt/sources.list"]
    assert "secret.example" not in left[0].read_text()


def test_checkout_knows_the_version_of_the_distribution():
    source = images.checkout()
    text = (source.root / "pyproject.toml").read_text()
    version = tomllib.loads(text)["project"]["version"]
    client = next(image for image in images.IMAGES if image.name == "client")
    assert source.reference(client) == f"localhost/kais/client:{version}"


def test_installed_package_without_a_checkout_says_so(tmp_path):
    with pytest.raises(errors.MissingTools, match="images and charts need one"):
        images.checkout(tmp_path)


def test_each_image_has_its_dockerfile_in_a_package_or_example():
    for image in images.IMAGES:
        assert Path(image.dockerfile).name == "Dockerfile"
        assert not image.folder or image.dockerfile.startswith(image.folder)
