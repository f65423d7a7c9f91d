"""Topologies: which cells of a formation may talk to which.

Cells have short names (`lead-0`). Cells without a route may not connect to any other. A topology is
kept as a rule over cell templates: its size depends on the templates, not on the number of cells,
and the peers of one cell are computed when needed.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kais import names
from kais.resources.formation import FormationSpec, Route, Topology, TopologyType

TemplateRoutes = Mapping[str, tuple[str, ...]]
Pairs = Iterator[tuple[str, str]]
_PROBLEMS = 100  # arbitrary: more than a person reads at a time
_LISTED = 20  # templates that a problem lists before it only counts; an arbitrary number


class RouteRule(StrEnum):
    """How the peers of a cell follow from the templates."""

    ALL = "all"
    RING = "ring"
    ROUTES = "routes"


@dataclass(frozen=True)
class Routing:
    """The routes of a formation, as a rule over cell templates.

    Attributes:
        rule: `all`: every other cell. `ring`: the next and the previous cell in the order of
            `cells`. `routes`: the cells of the templates that `routes` names.
        cells: Template names with their replicas, in the order of the spec.
        routes: For each template, the templates whose cells it may talk to; only for `routes`.
    """

    rule: RouteRule
    cells: tuple[tuple[str, int], ...]
    routes: TemplateRoutes = field(default_factory=dict)

    def cell_names(self) -> list[str]:
        """Return all short cell names, in the order of the templates."""
        return [cell for name, count in self.cells for cell in _replicas(name, count)]

    def peers(self, cell: str) -> tuple[str, ...]:
        """Return the peers of a cell, sorted; empty for an unknown cell."""
        template, _, index = cell.rpartition("-")
        if not _is_index(index) or int(index) >= dict(self.cells).get(template, 0):
            return ()
        if self.rule is RouteRule.RING:
            everyone = self.cell_names()
            return _neighbours(everyone, everyone.index(cell))
        return tuple(peer for peer in self._targets(template) if peer != cell)

    def table(self) -> dict[str, tuple[str, ...]]:
        """Return the peers of every cell, sorted; in a full mesh their number is quadratic."""
        everyone = self.cell_names()
        if self.rule is RouteRule.RING:
            peers = {cell: _neighbours(everyone, at) for at, cell in enumerate(everyone)}
            return {cell: peers[cell] for cell in sorted(everyone)}
        targets = {template: self._targets(template) for template, _ in self.cells}
        return {
            cell: tuple(peer for peer in targets[cell.rpartition("-")[0]] if peer != cell)
            for cell in sorted(everyone)
        }

    def target_templates(self, template: str) -> tuple[str, ...]:
        """Return the templates whose cells those of `template` may talk to; unused for a ring."""
        if self.rule is RouteRule.ALL:
            return tuple(name for name, _ in self.cells)
        return self.routes.get(template, ())

    def _targets(self, template: str) -> list[str]:
        counts = dict(self.cells)
        targets = self.target_templates(template)
        return sorted(cell for name in targets for cell in _replicas(name, counts[name]))


@dataclass(frozen=True)
class Routes:
    """The routes between all cells, and the problems of the topology.

    Attributes:
        allowed: For every cell its targets, sorted; cells without targets have an empty tuple.
        problems: Names that are not cell templates, each with its location. If there are any, the
            routes contain only the valid part and must not be distributed.
    """

    allowed: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]


def routes(spec: FormationSpec) -> Routes:
    """Return the targets of every cell; in a full mesh their number is quadratic."""
    return Routes(allowed=routing_of(spec).table(), problems=problems(spec))


def routing_of(spec: FormationSpec) -> Routing:
    """Return a formation's topology as a rule; ignores names that are not templates."""
    cells = tuple((template.name, template.replicas) for template in spec.cells)
    match spec.topology.type:
        case TopologyType.FULL_MESH:
            return Routing(RouteRule.ALL, cells)
        case TopologyType.RING:
            return Routing(RouteRule.RING, cells)
    return Routing(RouteRule.ROUTES, cells, _template_routes(spec.topology, dict(cells)))


def problems(spec: FormationSpec) -> tuple[str, ...]:
    """Return the names in a topology that are not cell templates, each with its location.

    Returns at most `_PROBLEMS`: a spec has room for 20,000.
    """
    unknown_names = _problems(spec.topology, [template.name for template in spec.cells])
    return tuple(itertools.islice(unknown_names, _PROBLEMS))


def default_entrypoint(spec: FormationSpec) -> str:
    """Return the template that gets the objective by default: root, hub or the first one."""
    templates = {template.name for template in spec.cells}
    for candidate in (spec.topology.root, spec.topology.hub):
        if candidate in templates and candidate is not None:
            return candidate
    return spec.cells[0].name


def entrypoint_cell(spec: FormationSpec, cell: str | None) -> str | None:
    """Return the short name of the cell that gets the objective; None if there is no such cell.

    `cell` is a short cell name, or the name of a template, which means its first replica.
    """
    target = cell if cell is not None else default_entrypoint(spec)
    for template in spec.cells:
        if target == template.name:
            return names.short_cell_name(template.name, 0)
    return target if template_of(spec, target) is not None else None


def template_of(spec: FormationSpec, short_name: str) -> str | None:
    """Return the template of a cell by its short name; None if there is no such cell."""
    template, _, index = short_name.rpartition("-")
    for candidate in spec.cells:
        is_replica = _is_index(index) and int(index) < candidate.replicas
        if candidate.name == template and is_replica:
            return template
    return None


def _template_routes(topology: Topology, templates: Mapping[str, int]) -> TemplateRoutes:
    targets: dict[str, set[str]] = {}
    for source, target in _pairs(topology, templates):
        if source in templates and target in templates:
            targets.setdefault(source, set()).add(target)
    return {source: tuple(sorted(targets[source])) for source in sorted(targets)}


def _pairs(topology: Topology, templates: Iterable[str]) -> Pairs:
    match topology.type:
        case TopologyType.HIERARCHY if topology.routes:
            return _both_directions(_declared_pairs(topology.routes))
        case TopologyType.HIERARCHY:
            return _both_directions((topology.root or "", template) for template in templates)
        case TopologyType.STAR:
            return _both_directions((topology.hub or "", template) for template in templates)
        case TopologyType.CUSTOM:
            return _declared_pairs(topology.routes or [])
    return iter(())


def _both_directions(pairs: Iterable[tuple[str, str]]) -> Pairs:
    for source, target in pairs:
        yield source, target
        yield target, source


def _declared_pairs(declared: Iterable[Route]) -> Pairs:
    for route in declared:
        for target in route.to:
            yield route.from_, target


def _replicas(template: str, count: int) -> Iterator[str]:
    return (names.short_cell_name(template, index) for index in range(count))


def _neighbours(everyone: Sequence[str], at: int) -> tuple[str, ...]:
    around = {everyone[at - 1], everyone[(at + 1) % len(everyone)]}
    return tuple(sorted(around - {everyone[at]}))


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and str(int(text)) == text


def _problems(topology: Topology, templates: list[str]) -> Iterator[str]:
    references = [("topology.root", topology.root), ("topology.hub", topology.hub)]
    for i, route in enumerate(topology.routes or []):
        references.append((f"topology.routes[{i}].from", route.from_))
        references.extend((f"topology.routes[{i}].to[{j}]", to) for j, to in enumerate(route.to))
    if topology.broadcast is not None:
        senders = enumerate(topology.broadcast.from_)
        references.extend((f"topology.broadcast.from[{i}]", name) for i, name in senders)
    available = ", ".join(templates[:_LISTED])
    available += f" and {len(templates) - _LISTED} more" if len(templates) > _LISTED else ""
    declared = frozenset(templates)
    for path, name in references:
        if name is not None and name not in declared:
            yield f'{path}: "{name}" is not a cell of this formation; it has {available}'
