"""What the environment says to the tests, read here and nowhere else.

`make soak` sets these for its long runs; without them the short ones are run.
"""

from __future__ import annotations

import os


def soak_rounds(short: int) -> int:
    """Tell how often a process is killed: the service under writers, the operator at work."""
    return int(os.environ.get("KAIS_SOAK_ROUNDS", short))


def power_cuts() -> int:
    """Tell how often the power goes under the store."""
    return int(os.environ.get("KAIS_POWER_CUTS", "150"))


def isolation_cases() -> int:
    """Tell how many questions are asked with and without other tenants."""
    return int(os.environ.get("KAIS_ISOLATION_CASES", "10000"))


def soak_part() -> int:
    """Tell which part of a soak this is; each part makes its cases from seeds of its own."""
    return int(os.environ.get("KAIS_SOAK_PART", "0"))


def route_examples() -> int:
    """Tell how many requests are made up for each operation of the service."""
    return int(os.environ.get("KAIS_ROUTE_EXAMPLES", "15"))
