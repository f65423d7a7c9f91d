"""The official MCP clients of Node, installed from their lock file into `build`."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent


def install() -> Path:
    """Return a folder with the clients; processes that ask at the same time install them once."""
    lock_file = (SOURCES / "package-lock.json").read_bytes()
    folder = ROOT / "build/mcp_clients" / hashlib.sha256(lock_file).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCES / name, folder / name)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
            (folder / "installed").touch()
        shutil.copy(SOURCES / "walk.mjs", folder / "walk.mjs")
    return folder


def run(command: list[str], folder: Path) -> str:
    """Run a program of Node, and return what it wrote."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_json(command: list[str], folder: Path) -> dict[str, object]:
    """Run a program of Node that writes one JSON document."""
    document: dict[str, object] = json.loads(run(command, folder))
    return document
