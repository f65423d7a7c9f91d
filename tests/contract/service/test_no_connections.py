"""Without an endpoint in its settings the service calls nobody."""

from __future__ import annotations

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


def peers(process_id: int) -> set[str]:
    """List whom a process has TCP connections with."""
    links = [str(entry.readlink()) for entry in Path(f"/proc/{process_id}/fd").iterdir()]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = Path(f"/proc/{process_id}/net/tcp").read_text().splitlines()[1:]
    columns = [row.split() for row in rows]
    remote = [row[2].split(":")[0] for row in columns if row[9] in own and row[3] != "0A"]
    return {".".join(str(int(each[n : n + 2], 16)) for n in (6, 4, 2, 0)) for each in remote}
