"""Formats the usage of a run's models in one line."""

from __future__ import annotations

from kais.resources.mission import MissionStatus


def format_usage(status: MissionStatus) -> str:
    """Format turns, tool calls, tokens and cost, such as `4 turns, 3 tool calls, …, $0.01`."""
    turns, calls = status.turns or 0, status.tool_calls or 0
    parts = [
        f"{turns} {'turn' if turns == 1 else 'turns'}",
        f"{calls} tool {'call' if calls == 1 else 'calls'}",
    ]
    if status.tokens is not None:
        parts.append(f"{status.tokens.input:,} tokens in, {status.tokens.output:,} out")
    cost = status.display.cost if status.display is not None else None
    parts.append("cost unknown" if cost in (None, "?") else str(cost))
    if status.estimated_cost:
        parts[-1] += f" (${status.estimated_cost:.4f} of it estimated)"
    return ", ".join(parts)
