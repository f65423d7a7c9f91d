"""Build container images with buildah in a separate image storage, without a registry by default.

The base image replaces the official Python image and is built from Debian packages: Debian's
Python with a virtual environment *at /usr/local*, so that paths match the official image. During a
build, this machine's certificates and pip settings are mounted. No layer contains them or any host
name. A release may pull the official image instead, and pushes its images to a registry.
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
    pulls_base: bool = False
    """Whether the base image comes from its registry. Then no build needs root."""

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
        """Build the base image unless it exists or is pulled.

        Raises:
            MissingTools: Root, buildah or debootstrap is missing.
            CommandFailed: debootstrap could not fetch or unpack Debian.
        """
        if self.pulls_base:
            return
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
        started = time.monotonic()
        previous_identity = self.identity(reference)
        self._build(context, dockerfile, ["--tag", reference], arguments or {})
        identity = self.identity(reference)
        changed = "unchanged" if identity == previous_identity else "built"
        self.report(f"{changed} {reference} in {time.monotonic() - started:.0f} s")
        return identity

    def build_index(
        self,
        context: Path,
        reference: str,
        dockerfile: Path,
        *,
        platforms: Sequence[str] = (),
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        """Build a Dockerfile for each platform, and an index of the images.

        Without `platforms`, the index contains one image for the platform of this machine.

        Raises:
            MissingTools: Root or buildah is missing.
            CommandFailed: A step failed; the message contains the end of its output.
        """
        started = time.monotonic()
        with contextlib.suppress(errors.CommandFailed):  # there is no earlier index
            self._buildah("manifest", "rm", reference)
        options = ["--manifest", reference]
        if platforms:
            options += ["--platform", ",".join(platforms)]
        self._build(context, dockerfile, options, arguments or {})
        self.report(f"built {reference} in {time.monotonic() - started:.0f} s")

    def push_index(self, reference: str, *, plain_http: bool = False) -> str:
        """Push an index with its images to the registry in its name, and return its digest.

        Raises:
            CommandFailed: The registry refused the push, or cannot be reached.
        """
        with tempfile.TemporaryDirectory(prefix="kais-push-") as scratch:
            digest_file = Path(scratch) / "digest"
            verify_tls = str(not plain_http).lower()
            command = ["manifest", "push", "--all", f"--tls-verify={verify_tls}"]
            command += ["--digestfile", str(digest_file), reference, f"docker://{reference}"]
            self._buildah(*command)
            return digest_file.read_text().strip()

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

    def _build(
        self,
        context: Path,
        dockerfile: Path,
        options: Sequence[str],
        arguments: Mapping[str, str],
    ) -> None:
        command: list[object] = ["build", "--layers", "--file", dockerfile, *options]
        for key, value in arguments.items():
            command += ["--build-arg", f"{key}={value}"]
        if self.pulls_base:
            self._buildah(*command, "--pull", context)
            return
        _require_root()
        with tempfile.TemporaryDirectory(prefix="kais-build-") as scratch:
            pip_conf = Path(scratch) / "pip.conf"
            pip_conf.write_text(pip_settings())
            # A separate path: a mount over /etc/ssl/certs would break the installation of
            # certificates.
            mounts = [
                f"{settings.certificates()}:/run/host-ca.crt:ro",
                f"{pip_conf}:/etc/pip.conf:ro",
            ]
            command += [option for mount in mounts for option in ("--volume", mount)]
            self._buildah(*command, "--pull=never", context)

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
    """Remove what slim images lack, too: documentation except licences, translations, old files.

    Python's own tests and help pages go as well, and the bytecode of pip.
    """
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_symlink() or (path.is_file() and path.name != "copyright"):
            path.unlink()
    for name in ("man", "info", "locale", "lintian"):
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    library = f"lib/python{PYTHON}"
    for name in (f"{library}/test", f"{library}/pydoc_data", "share/zoneinfo/right"):
        shutil.rmtree(root / "usr" / name, ignore_errors=True)
    for backup in (root / "var/cache/debconf").glob("*-old"):
        backup.unlink()
    for folder in list((root / "usr/local").rglob("__pycache__")):
        shutil.rmtree(folder)
