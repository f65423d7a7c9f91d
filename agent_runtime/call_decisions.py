"""`python -m agent_runtime.call_decisions FOLDER JSON`: calls of a Task that wait for a person.

The operator runs it in the container of the attempt. It stores the decisions in JSON, a list of
calls with an outcome, and prints the calls of the attempt as JSON. It starts every few seconds, so
it imports little.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_runtime import approval_rows
from kais.approvals import MAX_APPROVALS, CallApproval

_BUSY_S: Final = 10


def main() -> int:
    """Store the decisions of the command line, and print the calls."""
    folder, text = sys.argv[1:]
    calls = exchange(Path(folder) / approval_rows.STATE_FILE, json.loads(text))
    sys.stdout.write(json.dumps([call.dump() for call in calls]))
    return 0


def exchange(file: Path, decisions: list[Mapping[str, Any]]) -> list[CallApproval]:
    """Store decisions about the calls in a file, and return the calls, oldest first.

    The first decision about a call counts. One with another hash than the call is ignored.
    """
    if not file.exists():
        return []  # the attempt has not begun to work
    with closing(sqlite3.connect(file, isolation_level=None, timeout=_BUSY_S)) as connection:
        for record in decisions:
            decided = CallApproval.load({**record, "arguments": "", "expires_at": ""})
            stored = approval_rows.find(connection, decided.call)
            if stored is not None and stored.sha256 == decided.sha256:
                approval_rows.end(connection, decided)
        calls = approval_rows.all_calls(connection)[-MAX_APPROVALS:]
    return [replace(call, reason="") if call.outcome is None else call for call in calls]


if __name__ == "__main__":
    sys.exit(main())
