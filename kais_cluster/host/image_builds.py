"""Build container images with buildah, without a registry, in a separate image storage.

The base image replaces the official Python image and is built from Debian packages: Debian's
Python with a virtual environment *at /usr/local*, so that paths match the official image. During a
build, this machine's certificates and pip settings are mounted. No layer contains them or any host
name.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import node_cleanup

SUITE, PYTHON = "bookworm", "3.11"
BASE = f"docker.io/library/python:{PYTHON}-slim-{SUITE}"
BASE_ALIAS = f"docker.io/library/python:{PYTHON}-slim"

_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
_DEFAULT_BYTECODE = {"PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": ""}
"""Python in the image writes its bytecode where it reads it, whatever this machine is set to."""
_PIP_RANKS = {"global": 0, "site": 1, "user": 0, ":env:": 2, "install": 3}
_PIP_KEYS = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "proxy",
    "default-timeout",
    "timeout",
    "retries",
)


@dataclass(frozen=True)
class BuildahBuilder:
    """buildah with a storage that contains only our images."""

    storage: Path
    report: subprocesses.Reporter = subprocesses.print_line

    def has(self, reference: str) -> bool:
        """Return whether an image is in the storage."""
        return bool(self.identity(reference))

    def identity(self, reference: str) -> str:
        """Return the digest of an image's configuration; empty if there is no such image."""
        try:
            text = self._buildah("inspect", "--type", "image", reference)
        except errors.CommandFailed:
            return ""
        return str(json.loads(text)["FromImageID"])

    def make_base(self) -> None:
        """Build the base image unless it exists.

        Raises:
            MissingTools: Root, buildah or debootstrap is missing.
            CommandFailed: debootstrap could not fetch or unpack Debian.
        """
        _require_root()
        if self.has(BASE):
            self.report(f"{BASE} is there")
            return
        debootstrap = subprocesses.require_program("debootstrap", package="debootstrap")
        self.report(f"making {BASE} from Debian packages: about 2 minutes")
        started = time.monotonic()
        scratch = Path(tempfile.mkdtemp(prefix="kais-base-"))
        try:
            root = scratch / "root"
            packages = "--include=python3,python3-venv,ca-certificates"
            mirror = settings.debian_mirror()
            command = [debootstrap, "--variant=minbase", packages, SUITE, root]
            subprocesses.run([*command, *([mirror] if mirror else [])], env=_DEFAULT_BYTECODE)
            python = f"python{PYTHON}"
            subprocesses.run(
                ["chroot", root, python, "-m", "venv", "--system-site-packages", "/usr/local"],
                env=_DEFAULT_BYTECODE,
            )
            script = "import platform; print(platform.python_version())"
            version = subprocesses.run(["chroot", root, python, "-c", script]).strip()
            _remove_machine_details(root)
            _remove_unused_files(root)
            self._commit_base(root, version=version)
        finally:
            node_cleanup.remove_tree(scratch)
        self._buildah("tag", BASE, BASE_ALIAS)
        self.report(f"made {BASE} in {time.monotonic() - started:.0f} s")

    def build(
        self,
        context: Path,
        reference: str,
        dockerfile: Path,
        *,
        arguments: Mapping[str, str] | None = None,
    ) -> str:
        """Build a Dockerfile using only local images, and return the image's identity.

        Raises:
            MissingTools: Root or buildah is missing.
            CommandFailed: A step failed; the message contains the end of its output.
        """
        _require_root()
        started = time.monotonic()
        previous_identity = self.identity(reference)
        with tempfile.TemporaryDirectory(prefix="kais-build-") as scratch:
            pip_conf = Path(scratch) / "pip.conf"
            pip_conf.write_text(pip_settings())
            # A separate path: a mount over /etc/ssl/certs would break the installation of
            # certificates.
            mounts = [
                f"{settings.certificates()}:/run/host-ca.crt:ro",
                f"{pip_conf}:/etc/pip.conf:ro",
            ]
            options = [option for mount in mounts for option in ("--volume", mount)]
            for key, value in (arguments or {}).items():
                options += ["--build-arg", f"{key}={value}"]
            command = ["build", "--pull=never", "--layers", *options, "--file", dockerfile]
            self._buildah(*command, "--tag", reference, context)
        identity = self.identity(reference)
        changed = "unchanged" if identity == previous_identity else "built"
        self.report(f"{changed} {reference} in {time.monotonic() - started:.0f} s")
        return identity

    @contextlib.contextmanager
    def archive(self, reference: str) -> Iterator[Path]:
        """Write an image as a `docker save` archive, which exists during the block."""
        with tempfile.TemporaryDirectory(prefix="kais-image-") as scratch:
            archive = Path(scratch) / "image.tar"
            self._buildah("push", "--quiet", reference, f"docker-archive:{archive}:{reference}")
            yield archive

    def remove_all(self) -> None:
        """Delete the storage with all its images.

        The storage is renamed first: the deletion takes minutes, and an interrupted one must not
        leave a partial storage under the old name.
        """
        trash = self.storage.with_name(f"{self.storage.name}-removed")
        if not self.storage.exists() and not trash.exists():
            return
        self.report(f"removing the images in {self.storage}")
        for folder in (trash, self.storage):
            node_cleanup.unmount_below(folder)
        node_cleanup.remove_tree(trash)
        if self.storage.exists():
            self.storage.rename(trash)
            node_cleanup.remove_tree(trash)
        self.report(f"removed the images in {self.storage}")

    def _commit_base(self, root: Path, *, version: str) -> None:
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, root, "/")
        variables = [*_ENVIRONMENT.items(), ("PYTHON_VERSION", version)]
        options = [option for key, value in variables for option in ("--env", f"{key}={value}")]
        self._buildah("config", *options, "--cmd", '["python3"]', container)
        self._buildah("commit", "--quiet", "--rm", container, BASE)

    def _buildah(self, *arguments: object) -> str:
        buildah = subprocesses.require_program("buildah", package="buildah")
        storage_flags = ["--root", self.storage / "root", "--runroot", self.storage / "run"]
        env = settings.environment()
        defaults = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot"}
        return subprocesses.run(
            [buildah, *storage_flags, *arguments],
            env={key: env.get(key, value) for key, value in defaults.items()},
        )


def pip_settings(listing: str | None = None) -> str:
    """Return a pip.conf with the index settings of this machine.

    `listing` replaces the output of `pip config list`.
    """
    ranked: dict[str, tuple[int, str]] = {}
    for line in (_pip_config() if listing is None else listing).splitlines():
        source, _, rest = line.partition(".")
        key, _, value = rest.partition("=")
        rank = _PIP_RANKS.get(source, -1)
        if key in _PIP_KEYS and rank >= ranked.get(key, (-1, ""))[0]:
            ranked[key] = (rank, value.strip("'\"").replace("\\n", "\n    "))
    lines = ["[global]", "cert = /run/host-ca.crt", "disable-pip-version-check = true"]
    lines += ["root-user-action = ignore"]
    lines += [f"{key} = {value}" for key, (_, value) in ranked.items()]
    return "\n".join(lines) + "\n"


def _pip_config() -> str:
    """Return the configuration of the first Python with pip, which uv's environments lack."""
    candidates: Sequence[str | None] = (
        sys.executable,
        subprocesses.find_program("python3"),
        "/usr/bin/python3",
    )
    for python in filter(None, candidates):
        process = subprocess.run(
            [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
        )
        if process.returncode == 0:
            return process.stdout
    return settings.pip_variables()


def _remove_machine_details(root: Path) -> None:
    """Remove what debootstrap copied from this machine, and its downloads, including the mirror."""
    (root / "etc/apt/sources.list").write_text("")
    for name in ("etc/hostname", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)
    for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "var/log/*.log"):
        for path in root.glob(pattern):
            if path.is_file():
                path.unlink()


def _require_root() -> None:
    if os.geteuid() != 0:
        raise errors.MissingTools("building images needs root: run it as root")


def _remove_unused_files(root: Path) -> None:
    """Remove documentation except licences, translations and pip's bytecode, as slim images do."""
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_symlink() or (path.is_file() and path.name != "copyright"):
            path.unlink()
    for name in ("man", "info", "locale", "lintian"):
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    for folder in list((root / "usr/local").rglob("__pycache__")):
        shutil.rmtree(folder)
