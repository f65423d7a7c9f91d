"""The knowledge service as a process, for tests that stop, kill and copy it."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

_START_S = 60.0  # a second on a machine with nothing else to do
ROOT = Path(__file__).parents[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    db: Path, *, arguments: Sequence[str] = ("--auth", "none")
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the service until it answers, or has ended; kill it at the end."""
    port = free_port()
    command = [sys.executable, "-m", "knowledge_service.main", "serve", "--db", str(db)]
    # A file and no pipe: nobody reads while the service runs, and a full pipe would stop it.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *arguments], cwd=ROOT, stderr=log, text=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url)
            yield process, url
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[str], url: str) -> None:
    """Return when the service answers, or has ended."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(httpx.TransportError):
            httpx.get(f"{url}/readyz", timeout=1, trust_env=False)
            return
        time.sleep(0.05)


def errand(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `kais-knowledge` to its end."""
    command = [sys.executable, "-m", "knowledge_service.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False)
