"""Lists in queries: one bound value, which `json_each` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def json_list(values: Sequence[Any]) -> str:
    """Return numbers, texts, or lists of these as a JSON array."""
    return _encode(values).decode()
