"""The knowledge service as a process, for tests that stop, kill and copy it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    process = subprocess.Popen(
        [*command, "--port", str(port), *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(trust_env=False, timeout=1) as client:  # one: each reads certificates
            end = time.monotonic() + _START_S
            while time.monotonic() < end and process.poll() is None:
                try:
                    client.get(f"{url}/readyz")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
        yield process, url
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def errand(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `kais-knowledge` to its end."""
    command = [sys.executable, "-m", "knowledge_service.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False)
