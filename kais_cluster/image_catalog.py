"""Our images: how each is built, and how it is loaded into a cluster.

The Dockerfiles are built from the root of a checkout, and anyone can do that with `docker build`.
Here each build gets a copy of what `.dockerignore` admits. The times of its files are constant, so
that equal content makes equal layers. Images can be built only from a checkout.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kais_cluster import errors, providers, settings, subprocesses
from kais_cluster.host.image_builds import BuildahBuilder
from kais_cluster.kind import docker
from kais_cluster.kind.docker import DockerBuilder

_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc")
_FIXED_MTIME = 1_600_000_000  # seconds; constant, so that equal contexts make equal layers


@dataclass(frozen=True)
class Image:
    """One of our images."""

    name: str
    dockerfile: str


IMAGES = (
    Image("operator", "operator/Dockerfile"),
    Image("knowledge", "knowledge_service/Dockerfile"),
    Image("client", "knowledge_client/Dockerfile"),
    Image("agent", "agent_runtime/Dockerfile"),
    Image("model-server", "tests/model_server/Dockerfile"),
    Image("namespace-doctor", "examples/namespace-doctor/Dockerfile"),
    Image("code-review-team", "examples/code-review-team/Dockerfile"),
    Image("incident-team", "examples/incident-team/Dockerfile"),
    Image("bring-your-own-image", "examples/bring-your-own-image/Dockerfile"),
    Image("bring-your-own-agent", "examples/bring-your-own-agent/Dockerfile"),
)


@dataclass(frozen=True)
class Checkout:
    """A checkout of our repository, from which images and charts are made."""

    root: Path

    @property
    def version(self) -> str:
        """Return the version of the distribution."""
        text = (self.root / "pyproject.toml").read_text()
        return str(tomllib.loads(text)["project"]["version"])

    def reference(self, image: Image) -> str:
        """Return the full name of an image at this version."""
        return f"localhost/kais/{image.name}:{self.version}"


@dataclass(frozen=True)
class Built:
    """An image in our storage."""

    reference: str
    identity: str
    """Digest of its configuration: equal when nothing in it changed."""


def checkout(start: Path | None = None) -> Checkout:
    """Return the checkout that this package belongs to.

    Raises:
        MissingTools: The package was installed without a checkout.
    """
    root = start or Path(__file__).resolve().parent.parent
    if not (root / "uv.lock").exists():
        raise errors.MissingTools(f"no checkout of kais in {root}: images and charts need one")
    return Checkout(root)


class ImageBuilder(Protocol):
    """Builds images: buildah with our storage, or Docker."""

    def make_base(self) -> None:
        """Build the base image, unless it exists or can be pulled."""

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
            CommandFailed: A step failed.
        """

    def identity(self, reference: str) -> str:
        """Return the digest of an image's configuration; empty if there is no such image."""

    def archive(self, reference: str) -> contextlib.AbstractContextManager[Path]:
        """Write an image as a `docker save` archive, which exists during the block."""


def builder_for(
    provider: providers.Provider, *, report: subprocesses.Reporter = subprocesses.print_line
) -> ImageBuilder:
    """Return the image builder for a cluster: Docker for kind, otherwise buildah."""
    if provider.name == "kind":
        return DockerBuilder(report)
    return BuildahBuilder(settings.images_dir(), report)


def build_all(
    source: Checkout,
    provider: providers.Provider,
    *,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> list[Built]:
    """Build the base image and our images; unchanged parts come from the layer cache.

    Raises:
        MissingTools: A required program or permission is missing.
        CommandFailed: A step failed; the message contains the end of its output.
    """
    builder = builder_for(provider, report=report)
    builder.make_base()
    built = []
    with context(source) as prepared:
        for image in IMAGES:
            reference = source.reference(image)
            arguments = {"VERSION": source.version}
            dockerfile = prepared / image.dockerfile
            identity = builder.build(prepared, reference, dockerfile, arguments=arguments)
            built.append(Built(reference, identity))
    return built


def load_all(
    source: Checkout,
    provider: providers.Provider,
    *,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> list[str]:
    """Load our images into a cluster; return those whose content was new.

    Raises:
        ClusterError: The cluster does not accept images, or an image is not built.
    """
    builder = builder_for(provider, report=report)
    loaded = []
    for image in IMAGES:
        reference = source.reference(image)
        identity = builder.identity(reference)
        if not identity:
            raise errors.ClusterError(f"{reference} is not built: run `make images` first")
        record = _record(provider, image)
        if record.exists() and record.read_text() == identity:
            continue
        with builder.archive(reference) as archive:
            provider.load_image(archive, name=reference)
        record.parent.mkdir(exist_ok=True)
        record.write_text(identity)
        report(f"loaded {reference}")
        loaded.append(reference)
    return loaded


def remove_all(*, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Delete our image storage, and our images in Docker if it is available."""
    if docker.is_available():
        for image in IMAGES:
            DockerBuilder(report).remove(checkout().reference(image))
    BuildahBuilder(settings.images_dir(), report).remove_all()


@contextlib.contextmanager
def context(source: Checkout) -> Iterator[Path]:
    """Copy what `.dockerignore` admits to a temporary folder, which is the build context."""
    with tempfile.TemporaryDirectory(prefix="kais-context-") as folder:
        root = Path(folder)
        for name in context_entries(source):
            path = source.root / name
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, root / name, ignore=_NOT_COPIED)
            else:
                shutil.copy(path, root / name)
        shutil.copy(source.root / ".dockerignore", root)
        _normalize_file_metadata(root)
        yield root


def context_entries(source: Checkout) -> list[str]:
    """Return the files and folders of the checkout that `.dockerignore` admits."""
    lines = (source.root / ".dockerignore").read_text().splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def _record(provider: providers.Provider, image: Image) -> Path:
    """Return the path where a cluster's directory records the loaded content of an image."""
    return provider.kubeconfig.parent / "images" / image.name


def _normalize_file_metadata(root: Path) -> None:
    """Make files readable by any user, and equal for the layer cache if their content is equal."""
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.utime(path, (_FIXED_MTIME, _FIXED_MTIME))
    root.chmod(0o755)
