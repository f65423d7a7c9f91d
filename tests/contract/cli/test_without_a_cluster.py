"""The commands of the page on the service without a cluster, typed as they stand."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.support import documents
from kais_cluster.host import ports

PAGE = documents.ROOT / "docs/how-to/knowledge-without-a-cluster.md"


def test_commands_of_the_page_work_as_they_stand(tmp_path):
    (port,) = ports.free_ports(1)
    script = "".join(block.text for block in documents.blocks(PAGE) if block.language == "sh")
    script = script.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    environment = {
        **os.environ,  # noqa: TID251 - a shell of its own
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - as above
        "KAIS_PORT": str(port),
        "NO_COLOR": "1",
    }
    shell = "set -eumo pipefail; trap 'kill $(jobs -p) 2> trap.log || true' EXIT"
    process = subprocess.run(
        ["bash", "-c", f"{shell}; {script}"],
        cwd=tmp_path, env=environment, text=True, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
    assert "The pilot boat has no radio on Sundays." in process.stdout
    assert "words of the question (" in process.stdout
    assert "takes its place" in process.stdout
    tables = process.stdout.split("RANK")[1:]
    for known in ("Barnacles cover the north pier.", "Nobody has scraped it for a decade."):
        assert any(known in table for table in tables), f"recall does not find: {known}"
    assert "1 fact stored" in process.stderr or "facts stored, 0 existing" in process.stderr
    assert "0 facts stored, " in process.stderr
    assert "events: no problems found" in process.stderr
