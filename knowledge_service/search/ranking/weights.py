"""The learned weights of the ranking features, and the file that holds them.

`python -m bench.recall weights` makes the file. `WEIGHT_NAMES` lists what it must contain: weights
of additive features (0 or more), and natural logarithms of factors (names with the prefix `x_`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

FORMAT = 5
"""The version of the format. Raise it when a feature is added, removed or computed differently."""
ADDITIVE_NAMES = (
    "context.previous", "context.second_previous", "context.next", "context.second_next",
    "context.answer", "context.second_answer", "context.run", "context.observation",
    "word_vectors",
)  # fmt: skip
FACTOR_NAMES = (
    "x_phrase", "x_date", "x_when", "x_wanted.talk", "x_wanted.fact", "x_speaker.own",
    "x_speaker.other", "x_short",
)  # fmt: skip
WEIGHT_NAMES = (*ADDITIVE_NAMES, *FACTOR_NAMES)
# Wider than any fit needs; a weight beyond them is a mistake in the file.
_MAX_WEIGHT, _MAX_LOG_FACTOR = 3.0, 1.0
_SHIPPED_FILE = "weights.json"
_MAX_BYTES = 65_536


class InvalidWeights(ValueError):
    """The file of the weights is missing, damaged, or made for another version."""


@dataclass(frozen=True)
class Weights:
    """The weights by name, the factors (no longer as logarithms), and the digest of the file."""

    additive: Mapping[str, float]
    factors: Mapping[str, float]
    digest: str


def parse(data: bytes) -> Weights:
    """Read the weights from the bytes of their file.

    Raises:
        InvalidWeights: the bytes are not a file of weights of this version.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidWeights(f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidWeights("is not a JSON object")
    if document.get("format") != FORMAT:
        raise InvalidWeights(
            f"has format {document.get('format')!r}, and this version reads format {FORMAT}"
        )
    values = document.get("weights")
    if not isinstance(values, dict):
        raise InvalidWeights("has no object `weights`")
    if document.get("sha256") != digest_of(values):
        raise InvalidWeights("is damaged: `sha256` does not match `weights`")
    _check(values)
    return Weights(
        additive={name: float(values[name]) for name in ADDITIVE_NAMES},
        factors={name: math.exp(values[name]) for name in FACTOR_NAMES},
        digest=document["sha256"],
    )


def _check(values: Mapping[str, Any]) -> None:
    missing = [name for name in WEIGHT_NAMES if name not in values]
    unknown = [name for name in values if name not in WEIGHT_NAMES]
    if missing or unknown:
        differences = [f"lacks `{name}`" for name in missing]
        differences += [f"has the unknown `{name}`" for name in unknown]
        raise InvalidWeights(", ".join(differences))
    for name, value in values.items():
        low, high = (
            (0.0, _MAX_WEIGHT) if name in ADDITIVE_NAMES else (-_MAX_LOG_FACTOR, _MAX_LOG_FACTOR)
        )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and low <= value <= high):
            raise InvalidWeights(f"`{name}` is {value!r}, not a number from {low} to {high}")


def digest_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the weights, whatever their order and spacing in the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def render(values: Mapping[str, float]) -> bytes:
    """Return the bytes of a file with these weights."""
    document = {
        "format": FORMAT,
        "sha256": digest_of(values),
        "weights": {name: values[name] for name in WEIGHT_NAMES},
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def read(path: Path) -> Weights:
    """Read a file of weights.

    Raises:
        InvalidWeights: the file is missing, damaged, or made for another version.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidWeights(f"cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise InvalidWeights(f"is larger than {_MAX_BYTES} bytes")
    return parse(data)


SHIPPED = parse((resources.files(__package__) / _SHIPPED_FILE).read_bytes())
"""The weights of the package."""
