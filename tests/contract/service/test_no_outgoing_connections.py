"""Without an endpoint in its settings the service calls nobody."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from pathlib import Path

import httpx

from tests.contract.service.test_process import serving

# Python's own sockets say where they connect; what uvloop opens is seen among the open files.
LISTEN = """
import sys
def _note(event, arguments):
    if event in ('socket.connect', 'socket.getaddrinfo') and '127.0.0.1' not in str(arguments):
        with open({path!r}, 'a') as noted:
            noted.write(f'{{event}} {{arguments[1:]}}\\n')
sys.addaudithook(_note)
"""

# What the two would see, were it there: a thread that calls out, and the event loop itself.
CALLING = """
import socket
try:
    socket.create_connection(('127.0.0.2', 9), timeout=1)
except OSError:
    pass
"""
LOOPING = """
import asyncio, uvicorn
honest = uvicorn.Server.startup
async def startup(self, sockets=None):
    self.held = await asyncio.open_connection('127.0.0.2', {port})
    await honest(self, sockets)
uvicorn.Server.startup = startup
"""


def test_service_opens_no_connection_of_its_own(tmp_path: Path) -> None:
    noted = tmp_path / "connections"
    script = LISTEN.format(path=str(noted))
    with serving(tmp_path / "knowledge.db", script) as (process, url):
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert client.post("/v1/facts", json={"content": "rain"}).status_code == 201
            assert client.post("/v1/recall", json={"query": "rain"}).json()["facts"]
            assert client.get("/readyz").status_code == 200
            assert peers(process.pid) <= {"127.0.0.1"}
        assert not noted.exists(), noted.read_text()


def test_connection_of_a_thread_would_be_seen(tmp_path: Path) -> None:
    noted = tmp_path / "connections"
    script = LISTEN.format(path=str(noted)) + CALLING
    with serving(tmp_path / "knowledge.db", script):
        assert "socket.connect" in noted.read_text()


def test_connection_of_the_event_loop_would_be_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as elsewhere:
        script = LOOPING.format(port=elsewhere.getsockname()[1])
        with serving(tmp_path / "knowledge.db", script) as (process, _):
            elsewhere.settimeout(30)
            connection, _ = elsewhere.accept()
            with connection:
                assert "127.0.0.2" in peers(process.pid)


def peers(process_id: int) -> set[str]:
    """List whom a process has connections with, by TCP and UDP."""
    own_sockets = set()
    for entry in Path(f"/proc/{process_id}/fd").iterdir():
        # The process may close a file between the list and the read of its link.
        with contextlib.suppress(FileNotFoundError):
            link = str(entry.readlink())
            if link.startswith("socket:["):
                own_sockets.add(link[8:-1])
    results = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        table = Path(f"/proc/{process_id}/net/{kind}")
        rows = table.read_text().splitlines()[1:] if table.exists() else []
        columns = [row.split() for row in rows]
        remote = [
            row[2].split(":")[0] for row in columns if row[9] in own_sockets and row[3] != "0A"
        ]
        results |= {_address(item) for item in remote if int(item, 16)}
    return results


def _address(text: str) -> str:
    """Write an address of /proc, of which each four bytes stand backwards."""
    texts = [bytes.fromhex(text[n : n + 8])[::-1] for n in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(texts)))
