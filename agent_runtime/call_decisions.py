"""`python -m agent_runtime.call_decisions FOLDER JSON`: calls of a Task that wait for a person.

The operator runs it in the container of the attempt. It stores the decisions in JSON, a list of
calls with an outcome, and prints the calls of the attempt as JSON. It starts every few seconds, so
it imports little. The operator reads the last 256 KiB of the output.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_runtime import approval_rows
from kais.approvals import MAX_APPROVALS, CallApproval

MAX_BYTES: Final = 192 * 1024
_BUSY_S: Final = 10


def main() -> int:
    """Store the decisions of the command line, and print the calls."""
    folder, text = sys.argv[1:]
    calls = exchange(Path(folder) / approval_rows.STATE_FILE, json.loads(text))
    sys.stdout.buffer.write(serialize(calls))
    return 0


def serialize(calls: Sequence[CallApproval]) -> bytes:
    """Return the latest decided calls without their arguments, then the oldest waiting ones.

    Waiting calls that do not fit follow when earlier ones are decided.
    """
    decided = [replace(call, arguments="") for call in calls if call.outcome is not None]
    waiting = [replace(call, reason="") for call in calls if call.outcome is None]
    shown = [*decided[-MAX_APPROVALS:], *waiting[:MAX_APPROVALS]]
    texts = [
        json.dumps(call.dump(), ensure_ascii=False).encode("utf-8", "replace") for call in shown
    ]
    while len(text := b"[" + b",".join(texts) + b"]") > MAX_BYTES:
        texts.pop()
    return text


def exchange(file: Path, decisions: list[Mapping[str, Any]]) -> list[CallApproval]:
    """Store decisions about the calls in a file, and return the calls, oldest first.

    The first decision about a call counts. One with another hash than the call is ignored.
    """
    if not file.exists():
        return []  # the attempt has not begun to work
    with closing(sqlite3.connect(file, isolation_level=None, timeout=_BUSY_S)) as connection:
        if not approval_rows.exists(connection):
            return []
        for record in decisions:
            decided = CallApproval.load({**record, "arguments": "", "expires_at": ""})
            stored = approval_rows.find(connection, decided.call)
            if stored is not None and stored.sha256 == decided.sha256:
                approval_rows.end(connection, decided)
        return approval_rows.all_calls(connection)


if __name__ == "__main__":
    sys.exit(main())
