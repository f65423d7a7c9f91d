"""Topologies: which cells of a formation may talk to which.

Answers with short cell names (`lead-0`). Who is not named may talk to nobody: missing routes deny.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kais import names
from kais.resources.formation import FormationSpec, Route, Topology, TopologyType

Pairs = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Routes:
    """Whom each cell may talk to, and what is wrong with the topology.

    Attributes:
        allowed: For every cell its targets, sorted; cells without targets have an empty tuple.
        problems: Names that no cell template bears, each with where it stands. With problems the
            routes hold what could still be understood; nobody should be given them.
    """

    allowed: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]


def routes(spec: FormationSpec) -> Routes:
    """Work out a formation's routes from its topology."""
    cells = {
        template.name: [names.short_cell_name(template.name, i) for i in range(template.replicas)]
        for template in spec.cells
    }
    everyone = [cell for replicas in cells.values() for cell in replicas]
    allowed: dict[str, set[str]] = {cell: set() for cell in everyone}
    for source, target in _pairs(spec.topology, cells):
        if source != target:
            allowed[source].add(target)
    return Routes(
        allowed={cell: tuple(sorted(allowed[cell])) for cell in sorted(allowed)},
        problems=tuple(_problems(spec.topology, cells)),
    )


def default_entrypoint(spec: FormationSpec) -> str:
    """Name the template that gets the objective when the mission names none: root, hub or first."""
    known = {template.name for template in spec.cells}
    for named in (spec.topology.root, spec.topology.hub):
        if named in known and named is not None:
            return named
    return spec.cells[0].name


def entrypoint_cell(spec: FormationSpec, cell: str | None) -> str | None:
    """Give the short name of the cell that gets the objective, None when there is no such cell.

    `cell` may be a template's name, which means its first replica, or a short cell name.
    """
    wanted = cell if cell is not None else default_entrypoint(spec)
    for template in spec.cells:
        if wanted == template.name:
            return names.short_cell_name(template.name, 0)
        short = (names.short_cell_name(template.name, i) for i in range(template.replicas))
        if wanted in short:
            return wanted
    return None


def template_of(spec: FormationSpec, short_name: str) -> str | None:
    """Name the template of a cell by its short name, None when there is no such cell."""
    template, _, index = short_name.rpartition("-")
    for candidate in spec.cells:
        is_index = index.isdecimal() and str(int(index)) == index
        if candidate.name == template and is_index and int(index) < candidate.replicas:
            return template
    return None


def _pairs(topology: Topology, cells: dict[str, list[str]]) -> Pairs:
    everyone = [cell for replicas in cells.values() for cell in replicas]
    match topology.type:
        case TopologyType.FULL_MESH:
            return _both_ways(everyone, everyone)
        case TopologyType.RING:
            return _next_and_previous(everyone)
        case TopologyType.HIERARCHY if topology.routes:
            return _returned(_named(topology.routes, cells))
        case TopologyType.HIERARCHY | TopologyType.STAR:
            is_star = topology.type is TopologyType.STAR
            middle = topology.hub if is_star else topology.root
            return _both_ways(cells.get(middle or "", []), everyone)
        case TopologyType.CUSTOM:
            return _named(topology.routes or [], cells)
        case TopologyType.STIGMERGY:
            return iter(())


def _next_and_previous(everyone: list[str]) -> Pairs:
    return _returned(zip(everyone, everyone[1:] + everyone[:1], strict=True))


def _returned(pairs: Iterable[tuple[str, str]]) -> Pairs:
    for source, target in pairs:
        yield source, target
        yield target, source


def _both_ways(middle: Iterable[str], everyone: Iterable[str]) -> Pairs:
    around = list(everyone)
    return _returned((centre, cell) for centre in middle for cell in around)


def _named(wanted: Iterable[Route], cells: dict[str, list[str]]) -> Pairs:
    for route in wanted:
        for target_name in route.to:
            for source in cells.get(route.from_, []):
                for target in cells.get(target_name, []):
                    yield source, target


def _problems(topology: Topology, cells: dict[str, list[str]]) -> Iterator[str]:
    named = [("topology.root", topology.root), ("topology.hub", topology.hub)]
    for i, route in enumerate(topology.routes or []):
        named.append((f"topology.routes[{i}].from", route.from_))
        named.extend((f"topology.routes[{i}].to[{j}]", to) for j, to in enumerate(route.to))
    if topology.broadcast is not None:
        senders = enumerate(topology.broadcast.from_)
        named.extend((f"topology.broadcast.from[{i}]", name) for i, name in senders)
    known = ", ".join(cells)
    for path, name in named:
        if name is not None and name not in cells:
            yield f'{path}: "{name}" is no cell of this formation; it has {known}'
