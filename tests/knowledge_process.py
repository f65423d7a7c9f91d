"""The knowledge service as a process, for tests that stop, kill and copy it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx

from kais_cluster.host import ports

_START_S = 60.0  # a second on a machine with nothing else to do
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Served:
    """A service that runs, or has ended; iterates as its process and its address."""

    process: subprocess.Popen[str]
    url: str
    log: IO[bytes]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.process, self.url))

    def said(self) -> str:
        """What it has written to its log so far."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode()  # the service shares the position


@contextmanager
def serving(
    db: Path,
    script: str = "",
    *,
    arguments: Sequence[str] = ("--auth", "none"),
    is_ready: bool = False,
) -> Iterator[Served]:
    """Run the service, after a script that may break it, until it answers or ends; then kill it.

    With `is_ready`, wait until it is ready: before that, it answers requests with 503.
    """
    (port,) = ports.free_ports(1)
    argv = ["kais-knowledge", "serve", "--db", str(db), "--port", str(port), *arguments]
    program = f"import sys\n{script}\nsys.argv = {argv!r}\n"
    program += "from knowledge_service.main import main\nmain()\n"
    # A file and no pipe: nobody reads while the service runs, and a full pipe would stop it.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=log, text=True)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, is_ready=is_ready)
            yield Served(process, url, log)
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[str], url: str, *, is_ready: bool) -> None:
    """Return when the service answers, perhaps that it is ready, or has ended."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(httpx.TransportError):
            answer = httpx.get(f"{url}/readyz", timeout=1, trust_env=False)
            if answer.is_success or not is_ready:
                return
        time.sleep(0.05)


def errand(
    *arguments: object, stdin: bytes | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `kais-knowledge` to its end, with further variables."""
    command = [sys.executable, "-m", "knowledge_service.main", *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | (environment or {}),  # noqa: TID251 - a process of its own
        input=stdin,
        capture_output=True,
        check=False,
        timeout=_START_S,
    )
