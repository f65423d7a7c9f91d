"""The pause image: one static program, written as a `docker save` archive in pure Python."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

IMAGE = "localhost/kais/pause:1"


def write_archive(
    binary: Path, archive: Path, *, image: str = IMAGE, program: str = "pause"
) -> None:
    """Write the archive of an image that contains one static program in its root."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, program, binary.read_bytes(), mode=0o755)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"),
            "os": "linux",
            "config": {"Entrypoint": [f"/{program}"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [image], "Layers": ["layer.tar"]}]
    new = archive.with_suffix(".new")
    with tarfile.open(new, "w") as tar:
        _add(tar, config_name, config)
        _add(tar, "layer.tar", layer.getvalue())
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    new.replace(archive)


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
