"""A server with the protocol of S3 that checks signatures and rights: moto, in its own environment.

Its libraries pin older versions of some of ours, so they are not in the project's lock file;
`requirements.txt` pins them with hashes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from kais_cluster.host import ports

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUCKET = "copies"
_ACTIONS_WITHOUT_KEY = "4"
"""The requests of `account.py`; from then on the server checks every signature."""
_START_S = 120.0


@dataclass(frozen=True)
class S3Server:
    """A server that runs, and the key of the user who may use the bucket."""

    url: str
    key_id: str
    secret: str

    def variables(self) -> dict[str, str]:
        """The environment of a client, as the keys of a Secret."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }


@contextmanager
def running() -> Iterator[S3Server]:
    """Run the server with a bucket and a user until the block ends."""
    python = _python()
    (port,) = ports.free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryFile() as log:
        environment = os.environ | {  # noqa: TID251 - a process of its own
            "INITIAL_NO_AUTH_ACTION_COUNT": _ACTIONS_WITHOUT_KEY
        }
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            _wait(process, url)
            created = subprocess.run(
                [python, HERE / "account.py", url, BUCKET],
                capture_output=True,
                text=True,
                check=False,
            )
            assert created.returncode == 0, created.stderr
            key = json.loads(created.stdout)
            yield S3Server(url, key["id"], key["secret"])
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        assert process.poll() is None, "the S3 server ended"
        try:
            httpx.get(f"{url}/moto-api/data.json", timeout=5, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the S3 server does not answer")


def _python() -> Path:
    """Return the Python of the server's environment, which the first test creates."""
    requirements = HERE / "requirements.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = ROOT / "build" / f"s3-server-{digest}"
    folder.parent.mkdir(exist_ok=True)
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([uv, "venv", "--quiet", folder], check=True)
            command = [uv, "pip", "sync", "--quiet", "--require-hashes", requirements]
            subprocess.run([*command, "--python", folder / "bin/python"], check=True)
            (folder / "complete").touch()
    return folder / "bin/python"
