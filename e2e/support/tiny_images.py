"""Two images as users bring them: busybox, and one static program without shell or anything.

Both are written as `docker save` archives here, so no registry is needed: the program is compiled
by the machine's C compiler, busybox is the machine's own or Debian's `busybox-static`.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kais_cluster import operations

BUSYBOX = "localhost/kais-e2e/busybox:1"
BARE = "localhost/kais-e2e/bare:1"
APPLETS = (
    "sh", "cat", "echo", "true", "false", "sleep", "test", "[", "ls", "mkdir", "grep", "head", "tr",
    "yes", "env", "printf", "dd", "seq", "rm",
)  # fmt: skip
PROGRAM = Path(__file__).with_name("bare.c")


def load() -> None:
    """Build both images and load them into the cluster that is up."""
    with tempfile.TemporaryDirectory(prefix="kais-e2e-images-") as folder:
        root = Path(folder)
        compiled = root / "bare"
        compiler = os.environ.get("CC", "cc")
        _run([compiler, "-static", "-Os", "-o", str(compiled), str(PROGRAM)])
        _write(root / "bare.tar", BARE, {"bare": compiled.read_bytes()}, links={}, entry="/bare")
        links = {f"bin/{applet}": "busybox" for applet in APPLETS}
        files = {"bin/busybox": _busybox(root).read_bytes()}
        _write(root / "busybox.tar", BUSYBOX, files, links=links, entry="/bin/sh")
        operations.load_image(root / "bare.tar", name=BARE)
        operations.load_image(root / "busybox.tar", name=BUSYBOX)


def _busybox(root: Path) -> Path:
    host_busybox = shutil.which("busybox")
    if host_busybox:
        return Path(host_busybox)
    apt = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "busybox-static"]
    _run(apt, cwd=root)
    _run(["dpkg", "-x", str(next(root.glob("busybox-static*.deb"))), str(root / "deb")])
    return root / "deb/bin/busybox"


def _run(command: list[str], cwd: Path | None = None) -> None:
    completed = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise AssertionError(f"{' '.join(command)}: {completed.stdout}{completed.stderr}")


def _write(
    archive: Path, image: str, files: Mapping[str, bytes], *, links: Mapping[str, str], entry: str
) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, data in files.items():
            _add(tar, name, data, mode=0o755)
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
            tar.addfile(info)
    config = {
        "architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"),
        "os": "linux",
        "config": {"Entrypoint": [entry], "Env": ["PATH=/bin"]},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"],
        },
    }
    config_bytes = json.dumps(config).encode()
    name = hashlib.sha256(config_bytes).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": [image], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, name, config_bytes)
        _add(tar, "layer.tar", layer.getvalue())
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
