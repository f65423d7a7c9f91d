"""Move completed charts to a memory file, which an import reads again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.graph import export, new_file

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Chart

_CHARTS_PER_PAGE = 50
_NAMES_PER_CALL = 50


@dataclass(frozen=True)
class Archived:
    """The content of an archive; `remaining_names` are entities that are still in the graph too."""

    charts: tuple[str, ...]
    entities: int
    remaining_names: tuple[str, ...]


def archive(client: KnowledgeClient, *, scope: str | None, file: Path) -> Archived:
    """Write completed charts to a new file, and then delete them from the graph.

    A completed chart below one that is still active stays, because its step shows it.

    Raises:
        UsageError: the file exists, or cannot be written.
        Refused: no chart is complete.
    """
    charts = _completed(client, scope)
    if not charts:
        raise errors.Refused("no completed chart to archive")
    names: list[str] = []
    new_file.write(file, _lines_of(client, scope, charts, names))
    left: list[str] = []
    for start in range(0, len(names), _NAMES_PER_CALL):
        left += _delete(client, names[start : start + _NAMES_PER_CALL])
    return Archived(tuple(sorted(charts)), len(names), tuple(left))


def _completed(client: KnowledgeClient, scope: str | None) -> set[str]:
    charts = {chart.id: chart for chart in _all_charts(client, scope)}

    def is_finished(chart: Chart | None, depth: int = 0) -> bool:
        """Return whether a chart and those above it are complete; a cycle never is."""
        if chart is None:
            return True
        if not chart.completed or depth > len(charts):
            return False
        return chart.parent_chart is None or is_finished(charts.get(chart.parent_chart), depth + 1)

    return {chart.id for chart in charts.values() if is_finished(chart)}


def _all_charts(client: KnowledgeClient, scope: str | None) -> Iterator[Chart]:
    cursor: str | None = None
    while True:
        page = client.list_charts(
            scope=scope, completed=True, cursor=cursor, limit=_CHARTS_PER_PAGE
        )
        yield from page.charts
        cursor = page.cursor
        if cursor is None:
            return


def _lines_of(
    client: KnowledgeClient, scope: str | None, charts: set[str], names: list[str]
) -> Iterator[str]:
    """Yield the lines of charts, with all relations of their entities; collect the names."""
    archived: set[str] = set()
    for line in export.lines(client, scope=scope):
        tree = json.loads(line)
        if tree["type"] == "relation":
            if not archived.isdisjoint((tree["from"], tree["to"])):
                yield line
        elif (tree.get("metadata") or {}).get("chartId") in charts:
            archived.add(tree["name"])
            names.append(tree["name"])
            yield line


def _delete(client: KnowledgeClient, names: list[str]) -> list[str]:
    """Delete entities by name; return the names that no entity had."""
    from knowledge_client.models import GraphNamesIn  # noqa: PLC0415 (loads httpx)

    deleted = client.delete_entities(GraphNamesIn(names=tuple(names))).names
    return list(itertools.filterfalse(set(deleted).__contains__, names))
