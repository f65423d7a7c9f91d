"""Draw a formation's topology: a tree if it is one, and always a list of routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kais import names
from kais import topology as topologies
from kais.resources.formation import Formation, FormationSpec, TopologyType

_MATRIX = 12  # cells; a wider matrix is unreadable


def topology(formation: Formation) -> str:
    """Draw the topology; problems, such as a hub that is not a cell, come first."""
    computed = _routes(formation.spec)
    lines = [f"{problem}" for problem in computed.problems]
    lines += [_headline(formation.spec), ""]
    lines += _diagram(formation.spec, computed.allowed) if computed.allowed else []
    return "\n".join(lines) + "\n"


def routes(formation: Formation) -> dict[str, Any]:
    """Return the topology as a JSON tree: every cell with its allowed targets."""
    computed = _routes(formation.spec)
    return {
        "type": str(formation.spec.topology.type),
        "routes": {cell: list(targets) for cell, targets in computed.allowed.items()},
        "problems": list(computed.problems),
    }


def _routes(spec: FormationSpec) -> topologies.Routes:
    """Return the routes, unless the formation has too many cells."""
    excess = spec.too_many_cells()
    return topologies.routes(spec) if excess is None else topologies.Routes({}, (excess,))


def _headline(spec: FormationSpec) -> str:
    descriptions = {
        TopologyType.FULL_MESH: "every cell may talk to every other",
        TopologyType.STAR: f"{spec.topology.hub} in the centre; all other cells talk to it only",
        TopologyType.HIERARCHY: f"{spec.topology.root} at the top, up and down only",
        TopologyType.RING: "each cell talks to the next one and the one before",
        TopologyType.STIGMERGY: "no cell talks to another; they leave marks on a blackboard",
        TopologyType.CUSTOM: "only the routes that are named",
    }
    return f"{spec.topology.type}, {spec.cell_count} cells: {descriptions[spec.topology.type]}"


def _diagram(spec: FormationSpec, allowed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    match spec.topology.type:
        case TopologyType.STAR | TopologyType.HIERARCHY:
            top = spec.topology.hub or spec.topology.root or ""
            roots = [cell for cell in allowed if topologies.template_of(spec, cell) == top]
            yield from _tree(roots, allowed)
        case TopologyType.RING:
            cells = [
                names.short_cell_name(template.name, i)
                for template in spec.cells
                for i in range(template.replicas)
            ]
            yield " ── ".join([*cells, cells[0]]) if len(cells) > 1 else cells[0]
        case TopologyType.FULL_MESH if len(allowed) > _MATRIX:
            for template in spec.cells:
                last = names.short_cell_name(template.name, template.replicas - 1)
                first = names.short_cell_name(template.name, 0)
                yield first if first == last else f"{first} to {last}"
        case _:
            yield from (_matrix(allowed) if len(allowed) <= _MATRIX else _route_list(allowed))


def _tree(roots: Sequence[str], allowed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a tree with each cell once, below the first cell that reaches it."""
    drawn = set(roots)
    children: dict[str, list[str]] = {}
    queue = list(roots)
    for cell in queue:  # grows during the iteration: breadth first, so that levels stay levels
        children[cell] = [target for target in allowed.get(cell, ()) if target not in drawn]
        drawn.update(children[cell])
        queue += children[cell]
    for root in roots:
        yield root
        yield from _branches(root, children, "")
    for cell in allowed:
        if cell not in drawn:
            yield f"{cell} (no peers)"


def _branches(cell: str, children: Mapping[str, Sequence[str]], prefix: str) -> Iterator[str]:
    targets = children.get(cell, ())
    for number, child in enumerate(targets):
        is_last = number == len(targets) - 1
        yield f"{prefix}{'└── ' if is_last else '├── '}{child}"
        yield from _branches(child, children, prefix + ("    " if is_last else "│   "))


def _matrix(allowed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    cells = list(allowed)
    width = max(len(cell) for cell in cells)
    numbers = [str(i + 1) for i in range(len(cells))]
    wide = len(numbers[-1])
    yield f"{'':{width}}    {'  '.join(n.rjust(wide) for n in numbers)}"
    for i, cell in enumerate(cells):
        marks = ["·" if t == cell else "●" if t in allowed[cell] else " " for t in cells]
        line = "  ".join(mark.rjust(wide) for mark in marks)
        yield f"{cell:{width}} {numbers[i].rjust(2)} {line}".rstrip()
    yield ""
    yield "● may talk to the cell of that number"


def _route_list(allowed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for cell, targets in allowed.items():
        yield f"{cell} → {', '.join(targets) or 'nobody'}"
