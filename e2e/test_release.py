"""The commands of docs/how-to/release.md with real programs: publish, verify, and render."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.support import documents
from e2e.support.waiting import wait_until
from kais_cluster import image_catalog, providers, settings
from kais_cluster.host import component_builds
from scripts import release

pytestmark = pytest.mark.e2e
PAGE = documents.ROOT / "docs/how-to/release.md"
VERSION = image_catalog.checkout().version


@dataclass(frozen=True)
class Publisher:
    """A person with a registry of their own, who types what the page says."""

    registry: str
    folder: Path
    environment: dict[str, str]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def typed(self, section: str) -> subprocess.CompletedProcess[str]:
        """Run the commands of a section, at this registry, which has no TLS."""
        text = re.sub(r"registry\.example", self.registry, commands(section))
        base = "debian" if providers.choose().name == "host" else "registry"
        options = f"operator charts --base {base} --plain-http"
        text = re.sub(
            r"make release (.+) KEY=cosign.key",
            rf"make -C {documents.ROOT} release \1 KEY=$PWD/cosign.key RELEASE='{options}'",
            text,
        )
        text = re.sub("helm upgrade --install (.+)", r"helm template \1 --plain-http", text)
        return self.run(text)


def commands(section: str) -> str:
    """The commands of a section of the page that this test runs."""
    text = PAGE.read_text()
    start = text.index(f"\n## {section}\n")
    end = text.find("\n## ", start + 1)
    blocks = [
        block.text
        for block in documents.blocks(PAGE)
        if block.run_by.startswith("e2e/test_release.py") and block.text in text[start:end]
    ]
    assert blocks, section
    return "".join(blocks)


@pytest.fixture(scope="module")
def programs() -> Path:
    component_builds.build(component_builds.by_name(release.TOOLS), settings.binaries_dir())
    return settings.binaries_dir()


@pytest.fixture(scope="module")
def registry(programs: Path) -> Iterator[str]:
    """A registry on this machine alone, in memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    process = subprocess.Popen(
        [programs / "crane", "registry", "serve", "--address", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(address), bool, description="registry that answers")
        yield address
    finally:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def publisher(programs: Path, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    folder = tmp_path_factory.mktemp("publisher")
    environment = os.environ | {
        "DOCKER_CONFIG": str(folder / "docker"),
        "PYTHONPATH": str(documents.ROOT),
        "REGISTRY_PASSWORD": "any",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    it = Publisher(registry, folder, environment)
    published = it.typed("Publish from your machine")
    assert published.returncode == 0, published.stdout + published.stderr
    return it


def test_what_is_published_is_verified_by_its_key_and_by_no_other(publisher: Publisher) -> None:
    verified = publisher.typed("Verify")
    assert verified.returncode == 0, verified.stderr

    shutil.move(publisher.folder / "cosign.pub", publisher.folder / "first.pub")
    shutil.move(publisher.folder / "cosign.key", publisher.folder / "first.key")
    generated = publisher.run("COSIGN_PASSWORD=another cosign generate-key-pair")
    assert generated.returncode == 0, generated.stderr
    try:
        for command in re.findall(r"^cosign verify.*?(?= >|$)", commands("Verify"), re.MULTILINE):
            refused = publisher.run(command.replace("registry.example", publisher.registry))
            assert refused.returncode != 0, command
            assert "accepted signatures do not match threshold" in refused.stderr
    finally:
        shutil.move(publisher.folder / "first.pub", publisher.folder / "cosign.pub")


def test_the_sbom_lists_the_packages_of_python_and_of_debian(publisher: Publisher) -> None:
    packages = dict(
        line.split(" ", 1) for line in publisher.typed("Verify").stdout.splitlines() if " " in line
    )
    assert packages[f"{publisher.registry}/kais/operator"].startswith(f"{VERSION} linux/")
    assert packages["kais"] == VERSION
    assert re.fullmatch(r"[0-9.]+", packages["kopf"])
    assert packages["libc6"]


def test_the_charts_of_the_registry_install_its_images(publisher: Publisher) -> None:
    rendered = publisher.typed("Install it")
    assert rendered.returncode == 0, rendered.stderr
    images = set(re.findall(r"^ *image: \"?([^\"\n]+)", rendered.stdout, re.MULTILINE))
    assert images == {
        f"{publisher.registry}/kais/{name}:{VERSION}" for name in ("operator", "knowledge")
    }
    assert "localhost/kais" not in rendered.stdout
