"""The files that tell a cell its peers: `topology.json` and, where they are small, `routes.json`.

`topology.json` is the rule: who may talk to whom by cell template. It grows with the templates.
`routes.json` lists the peers of every cell, for clients that expect that. In a full mesh it grows
with the square of the cells, so its size is computed before anything of it is made.
"""

import json
from collections.abc import Iterator
from typing import Any

from kais.topology import RouteRule, Routing

VERSION = 1
"""Version of `topology.json`; a reader that does not know the version allows no connection."""


def rule_text(routing: Routing) -> str:
    """Write the rule as `topology.json` holds it."""
    document: dict[str, Any] = {
        "version": VERSION,
        "rule": str(routing.rule),
        "cells": [{"name": name, "replicas": count} for name, count in routing.cells],
    }
    if routing.rule is RouteRule.ROUTES:
        document["routes"] = {source: list(to) for source, to in routing.routes.items()}
    return json.dumps(document)


def lists_text(routing: Routing, *, limit: int) -> str | None:
    """Write the peers of every cell as `routes.json` holds them; None above `limit` characters."""
    if lists_size(routing) > limit:
        return None
    return json.dumps(routing.table())


def lists_size(routing: Routing) -> int:
    """Return the characters of `routes.json` from the lengths of the names, without making it."""
    cells = routing.cell_names()
    keys = sum(len(f'"{cell}": ') for cell in cells)
    return _enclosed(keys + sum(_list_sizes(routing)), len(cells))


def _list_sizes(routing: Routing) -> Iterator[int]:
    """Return the characters of each cell's list of peers."""
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
    """Add brackets and commas to the characters of a list's items."""
    return characters + len("[]") + len(", ") * max(items - 1, 0)
