"""Quantities of Kubernetes, parsed only to compare them: `500m` is a half, `1Ki` is 1024.

The CRDs have validated their form. Quantities are written as their author spelt them.
"""

from __future__ import annotations

_FACTORS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
    "Ei": 2.0**60,
}  # fmt: skip


def amount(quantity: int | str) -> float:
    """Return the numeric value of a quantity."""
    text = str(quantity)
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    return float(digits) * _FACTORS.get(suffix, 1.0)


def is_equal(left: int | str, right: int | str) -> bool:
    """Whether two quantities have the same value: the API server stores `0.5` as `500m`."""
    left_amount, right_amount = amount(left), amount(right)
    return abs(left_amount - right_amount) <= 1e-9 * max(abs(left_amount), abs(right_amount))


def at_most(limit: int | str, request: str) -> str:
    """Return the request, or the limit if that is less."""
    return request if amount(limit) >= amount(request) else str(limit)
