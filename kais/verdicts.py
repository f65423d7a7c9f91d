"""The typed verdict of a cell that reviews the work of another one.

    {"verdict": "approve" | "reject", "reasons": "…"}

The agent runtime asks its model for this form, and the operator reads it. Anything else is no
approval, whatever it says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

FORM = '{"verdict": "approve" or "reject", "reasons": "…"}'
_VERDICTS = {"approve": True, "reject": False}
_MAX_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class AgentVerdict:
    """The decision of a reviewer, and its reasons."""

    is_approval: bool
    reasons: str


def parse(text: str) -> AgentVerdict:
    """Read a verdict: one JSON object with exactly these two fields, and with reasons.

    Raises:
        ValueError: The text is not a verdict; the message says why.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(f"it is not JSON: {text.strip()[:_MAX_SHOWN_CHARACTERS]!r}") from exc
    if not isinstance(value, dict) or set(value) != {"verdict", "reasons"}:
        raise ValueError(f"it is not of the form {FORM}")
    verdict, reasons = value["verdict"], value["reasons"]
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        raise ValueError('its verdict is neither "approve" nor "reject"')
    if not isinstance(reasons, str) or not reasons.strip():
        raise ValueError("it has no reasons")
    return AgentVerdict(_VERDICTS[verdict], reasons.strip())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a field twice")
    return value
