"""The files with the peers of cells: `topology.json` and, if it is small enough, `routes.json`.

`topology.json` is the rule: which cells may talk to which, by cell template. It grows with the
number of templates. `routes.json` lists the peers of every cell, for clients that expect that. In
a full mesh it grows with the square of the number of cells, so its size is computed first.
"""

import json
from collections.abc import Iterator
from typing import Any

from kais.topology import RouteRule, Routing

VERSION = 1
"""Version of `topology.json`; a reader that does not know the version allows no connection."""


BLACKBOARD_FOLDER = ".blackboard"
"""Folder in the workspace of the team with a file for each mark."""


def rule_text(routing: Routing, *, decay_minutes: float | None = None) -> str:
    """Return the content of `topology.json`; `decay_minutes` is None without a blackboard."""
    document: dict[str, Any] = {
        "version": VERSION,
        "rule": str(routing.rule),
        "cells": [{"name": name, "replicas": count} for name, count in routing.cells],
    }
    if routing.rule is RouteRule.ROUTES:
        document["routes"] = {source: list(to) for source, to in routing.routes.items()}
    if decay_minutes is not None:
        document["blackboard"] = {"decayMinutes": decay_minutes}
    return json.dumps(document)


def parse_decay(document: Any) -> float | None:
    """Read after how many minutes marks expire; None without a blackboard."""
    try:
        minutes = float(document["blackboard"]["decayMinutes"])
    except (KeyError, TypeError, ValueError):
        return None
    return minutes if 0 <= minutes < float("inf") else None


def parse_rule(document: Any) -> Routing | None:
    """Read the content of `topology.json`; None if it has another version or form."""
    try:
        if document["version"] != VERSION:
            return None
        routes = {str(name): tuple(map(str, to)) for name, to in document.get("routes", {}).items()}
        cells = tuple((str(cell["name"]), int(cell["replicas"])) for cell in document["cells"])
        return Routing(RouteRule(document["rule"]), cells, routes)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def lists_text(routing: Routing, *, limit: int) -> str | None:
    """Return the content of `routes.json`; None if it exceeds `limit` characters."""
    if lists_size(routing) > limit:
        return None
    return json.dumps(routing.table())


def lists_size(routing: Routing) -> int:
    """Compute the number of characters of `routes.json` from the lengths of the names."""
    cells = routing.cell_names()
    keys = sum(len(f'"{cell}": ') for cell in cells)
    return _enclosed(keys + sum(_list_sizes(routing)), len(cells))


def _list_sizes(routing: Routing) -> Iterator[int]:
    """Yield the number of characters of each cell's list of peers."""
    if routing.rule is RouteRule.RING:
        yield from (len(json.dumps(peers)) for peers in routing.table().values())
        return
    counts = dict(routing.cells)
    characters = {
        name: sum(len(f'"{name}-{index}"') for index in range(count))
        for name, count in routing.cells
    }
    for name, count in routing.cells:
        targets = routing.target_templates(name)
        length = sum(characters[target] for target in targets)
        peers = sum(counts[target] for target in targets)
        for index in range(count):
            if name in targets:
                yield _enclosed(length - len(f'"{name}-{index}"'), peers - 1)
            else:
                yield _enclosed(length, peers)


def _enclosed(characters: int, items: int) -> int:
    """Add the characters of brackets and commas to those of a list's items."""
    return characters + len("[]") + len(", ") * max(items - 1, 0)
