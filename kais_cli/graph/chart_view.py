"""Formats structural tension charts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kais_cli.views import table_layout

if TYPE_CHECKING:
    from knowledge_client.models import Chart


def format_charts(charts: Iterable[Chart]) -> str:
    """Format charts as a table, with the next step of each."""
    rows = [
        (
            chart.id,
            chart.phase,
            f"{chart.progress:.0%}",
            _format_date(chart.due_date),
            chart.next_step,
            chart.desired_outcome,
        )
        for chart in charts
    ]
    headers = ("ID", "PHASE", "PROGRESS", "DUE (UTC)", "NEXT STEP", "DESIRED OUTCOME")
    return table_layout.format_table(headers, rows) if rows else ""


def format_chart(chart: Chart) -> str:
    """Format a chart with its reality and its steps."""
    due = _format_date(chart.due_date) or "at no date"
    head = [
        f"{chart.id}  {chart.phase}, {chart.progress:.0%} complete, due {due}",
        f"desired outcome: {table_layout.format_cell(chart.desired_outcome)}",
        *(f"current reality: {table_layout.format_cell(text)}" for text in chart.current_reality),
    ]
    if chart.parent_chart:
        head.append(f"below: {table_layout.format_cell(chart.parent_step)} of {chart.parent_chart}")
    rows = [
        (
            step.name,
            "yes" if step.completed else "no",
            _format_date(step.due_date),
            step.chart,
            step.title,
        )
        for step in chart.action_steps
    ]
    headers = ("STEP", "COMPLETE", "DUE (UTC)", "CHART", "TITLE")
    table = f"\n{table_layout.format_table(headers, rows)}" if rows else ""
    return "\n".join(head) + "\n" + table


def _format_date(at: datetime | None) -> str | None:
    return f"{at.astimezone(UTC):%Y-%m-%d}" if at else None
