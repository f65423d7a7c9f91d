"""Which cell gets a mission's objective, and whether it can be given now.

A mission waits for its whole formation, not for the entry cell alone: a team that is half there
would begin with another result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kais import scopes, topology
from kais.conditions import ConditionType
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity, service_account
from kais_operator.controllers.cell.decide.cell_identity import Housed, Identity
from kais_operator.controllers.formation.decide import formation as formations
from kais_operator.planning.plan import Body

_NAMED = 5  # cells that a message names; an arbitrary number
REGISTRATION_PATIENCE = timedelta(seconds=30)
"""How long a new cell's registration is waited for before a mission starts without it."""


@dataclass(frozen=True)
class Team:
    """What a mission's reference led to.

    Attributes:
        formation: what the formationRef of the mission, or of the cell that cellRef names, leads
            to; None when it is missing or there is none.
        cells: the cells of that formation, or the one that cellRef names, by object name.
        account: the ServiceAccount of the entry cell, read only when the cell borrows one.
        sharing: scopes of the other cells under that borrowed account.
    """

    formation: Formation | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    account: Body | None = None
    sharing: Sequence[Scope] = ()


@dataclass(frozen=True)
class Entry:
    """The cell that gets the objective, and who it is."""

    cell: Cell
    who: Identity


@dataclass(frozen=True)
class Obstacle:
    """Why a mission cannot start now."""

    reason: Reason
    message: str


def entry_cell(mission: Mission, team: Team) -> Cell | Obstacle:
    """Find the cell that a mission's objective goes to."""
    namespace = mission.metadata.namespace
    if mission.spec.cell_ref is not None:
        found = team.cells.get(mission.spec.cell_ref)
        words = f"Cell/{namespace}/{mission.spec.cell_ref} does not exist; create it"
        return found or Obstacle(Reason.CELL_NOT_FOUND, words)
    if team.formation is None:
        words = f"Formation/{namespace}/{mission.spec.formation_ref} does not exist; create it"
        return Obstacle(Reason.FORMATION_NOT_FOUND, words)
    excess = team.formation.spec.too_many_cells()
    if excess is not None:
        words = f"{team.formation.ref} creates no cells: {excess}"
        return Obstacle(Reason.WAITING_FOR_FORMATION, words)
    wanted = mission.spec.entrypoint.cell if mission.spec.entrypoint else None
    short = topology.entrypoint_cell(team.formation.spec, wanted)
    if short is None:
        return _no_such_entry(team.formation, wanted or "")
    for cell in team.cells.values():
        if cell_identity.short_name(cell) == short:
            return cell
    words = f"{team.formation.ref} has not made its cell {short} yet"
    return Obstacle(Reason.WAITING_FOR_FORMATION, words)


def _no_such_entry(formation: Formation, wanted: str) -> Obstacle:
    known = sorted(topology.routing_of(formation.spec).cell_names())
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return Obstacle(
        Reason.ENTRYPOINT_NOT_FOUND,
        f'entrypoint.cell "{wanted}" names no cell of {formation.ref}; it has '
        f"{', '.join(known[:_NAMED])}{more}",
    )


def find(mission: Mission, team: Team, *, now: datetime) -> Entry | Obstacle:
    """Find the entry cell if the team can be given work now."""
    found = entry_cell(mission, team)
    obstacle = found if isinstance(found, Obstacle) else _not_ready(mission, found, team, now=now)
    if obstacle is not None or isinstance(found, Obstacle):
        return obstacle or Obstacle(Reason.WAITING_FOR_FORMATION, "the cells are not known yet")
    return entry_of(found, team)


def entry_of(cell: Cell, team: Team) -> Entry:
    """Say who the entry cell is, ready or not."""
    return Entry(cell, cell_identity.identity(Housed(cell, team.formation), sharing=team.sharing))


def _not_ready(mission: Mission, cell: Cell, team: Team, *, now: datetime) -> Obstacle | None:
    wanted = [cell.metadata.name]
    if mission.spec.cell_ref is None and team.formation is not None:
        wanted = formations.wanted_names(team.formation)
    waiting = [formations.waits_for(team.cells.get(name), name) for name in wanted]
    trouble = [words for words in waiting if words is not None]
    trouble += _resting(team, wanted)
    if trouble:
        more = f"; and {len(trouble) - _NAMED} more" if len(trouble) > _NAMED else ""
        words = f"waiting for cells: {'; '.join(trouble[:_NAMED])}{more}"
        return Obstacle(Reason.WAITING_FOR_CELLS, words)
    if cell.spec.service_account_name is not None:
        problem = service_account.account_problem(cell, team.account)
        if problem is not None:
            return Obstacle(Reason.ACCOUNT_NOT_ALLOWED, problem)
    return _not_registered(cell, now)


def _resting(team: Team, wanted: Sequence[str]) -> list[str]:
    """Name the service cells that are ready and have no pod: they are woken for a run."""
    cells = [team.cells[name] for name in wanted if name in team.cells]
    said = [(cell, cell.condition(ConditionType.READY)) for cell in cells]
    return [
        f"{cell.metadata.name} is being scaled up"
        for cell, ready in said
        if ready is not None and ready.reason == Reason.SCALED_DOWN
    ]


def _not_registered(cell: Cell, now: datetime) -> Obstacle | None:
    """Wait for a registration that is under way; one that cannot be made stops nothing."""
    said = cell.condition(ConditionType.REGISTERED)
    if said is None or said.status == "True" or said.reason != Reason.NOT_REGISTERED:
        return None
    if now - said.last_transition_time >= REGISTRATION_PATIENCE:
        return None
    words = f"{cell.ref} is being registered with the knowledge service"
    return Obstacle(Reason.WAITING_FOR_CELLS, words)


def run_scope(mission: Mission, team: Team) -> scopes.Scope:
    """Give the scope in which a mission's run works: its formation's, or its lone cell's own.

    Without the team (it may be gone by now) the references say what it is by default.
    """
    realm = mission.metadata.namespace
    if team.formation is not None:
        return cell_identity.formation_scope(team.formation)
    if mission.spec.cell_ref is not None:
        cell = team.cells.get(mission.spec.cell_ref)
        if cell is not None and cell.spec.formation_ref is not None:
            return scopes.Scope(realm, cell_identity.segment(cell.spec.formation_ref))
        return scopes.Scope(realm, None, cell_identity.segment(mission.spec.cell_ref))
    wanted = mission.spec.formation_ref
    return scopes.Scope(realm, cell_identity.segment(wanted) if wanted is not None else None)
