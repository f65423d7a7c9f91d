"""Costs as the status shows them: rounded numbers, and texts of columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from kais.agent_results import AgentUsage

_DIGITS = 6
"""Digits of costs after the point: a millionth of a dollar."""
_CENTS = 2
_SMALL_COST_DIGITS = 4


class Priced(Protocol):
    """A sum of costs, and whether the price of everything in it is known."""

    @property
    def cost(self) -> Decimal:
        """The cost in US dollars, as far as it is known."""

    @property
    def is_priced(self) -> bool:
        """Whether the price of everything is known."""


def known_cost(usage: Priced | None) -> float | None:
    """Return a cost in US dollars, to a millionth; None if it is unknown."""
    return float(round(usage.cost, _DIGITS)) if usage is not None and usage.is_priced else None


def estimated_cost(usage: AgentUsage | None) -> float | None:
    """Return the part of a cost that is estimated, to a millionth; None if there is none."""
    if usage is None or not usage.is_priced or not usage.estimated_cost:
        return None
    return float(round(usage.estimated_cost, _DIGITS))


def display_usage(usage: AgentUsage | None) -> str | None:
    """Return the cost of a run for a column; an estimate begins with `~`, such as `~$0.0123`."""
    text = display(usage)
    return f"~{text}" if text is not None and estimated_cost(usage) is not None else text


def display(usage: Priced | None) -> str | None:
    """Return a cost for a column, such as `$0.0123`; None without any usage.

    Without a known price it is a question mark, because 0 would be a claim.
    """
    if usage is None:
        return None
    if not usage.is_priced:
        return "?"
    is_small = 0 < usage.cost < 1
    digits = _SMALL_COST_DIGITS if is_small else _CENTS
    amount = format(usage.cost, f".{digits}f")
    return f"<${10**-digits:.{digits}f}" if is_small and not float(amount) else f"${amount}"
