"""A render worker can read neither tokens nor other processes, and reach no network."""

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kais_rendering.worker_handle import RenderProcess
from kais_rendering.worker_pool import RenderPool

TRY = """
import os, socket, sys
from kais_rendering import confinement

token, parent, listener = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("before", open(token).read())
print("confined", confinement.confine())

def refused(what, act):
    try:
        act()
    except OSError as exc:
        print(what, type(exc).__name__)
    else:
        print(what, "went through")

refused("token", lambda: open(token).read())
refused("writing", lambda: open(token + ".new", "w"))
refused("listing", lambda: os.listdir(os.path.dirname(token)))
refused("environment of the parent", lambda: open(f"/proc/{parent}/environ").read())
refused("files of the parent", lambda: open(f"/proc/{parent}/root{token}").read())
refused("network", lambda: socket.create_connection(("127.0.0.1", listener)))
refused("signal", lambda: os.kill(int(parent), 0))
import decimal, wave
print("imports", decimal.__name__, wave.__name__)
print("itself", open("/proc/self/statm").read() != "")
"""


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("secret")
    return file


def test_what_a_confined_process_tries_is_refused_and_its_imports_go_on(token: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        arguments = [str(token), str(os.getpid()), port]
        command = [sys.executable, "-c", TRY, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == [
        "before secret",
        "confined True",
        "token PermissionError",
        "writing PermissionError",
        "listing PermissionError",
        "environment of the parent PermissionError",
        "files of the parent PermissionError",
        "network PermissionError",
        "signal PermissionError",
        "imports decimal wave",
        "itself True",
    ]


async def test_every_render_worker_is_confined_before_its_first_request() -> None:
    worker = await RenderProcess.start(memory_mib=64)
    await worker.ready()
    await worker.kill()
    assert worker.is_confined


async def test_a_kernel_that_cannot_confine_is_named_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = RenderPool(workers=1)
    worker = await RenderProcess.start(memory_mib=64)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            pool._note_confinement(worker)
    await worker.kill()
    assert caplog.text.count("the kernel has no Landlock") == 1
