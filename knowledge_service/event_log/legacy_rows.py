"""`row.kept` events: rows of tables from before the log was complete enough for a replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from knowledge_service.domain.fact_text import rendering

TYPE = "row.kept"


def encode(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a row as the part of an event."""
    encoded = {
        name: {"hex": value.hex()} if isinstance(value, bytes) else value
        for name, value in row.items()
        if value is not None
    }
    return {"table": table, "row": encoded}


def decode(part: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the row in a part of an event."""
    return {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in part["row"].items()
    }


def index_text(part: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return scope, number and text of a fact's row for the index; None for another row."""
    if part["table"] != "fact":
        return None
    row = part["row"]
    values = {name: json.loads(row.get(name) or "null") for name in ("tags", "data")}
    return row["scope_no"], row["fact_no"], rendering(row | values)
