"""Find the cell that gets a mission's objective, and decide whether the mission can start.

A mission waits for its whole formation and not only for the entry cell, because an incomplete team
would start with another result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kais import topology
from kais.conditions import ConditionType
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity, service_account
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity, CellInFormation
from kais_operator.controllers.formation.decide import formation as formations
from kais_operator.planning.plan import Body

_MAX_CELLS_NAMED = 5  # cells that a message names; an arbitrary number
REGISTRATION_TIMEOUT = timedelta(seconds=30)
"""How long a mission waits for the registration of a new cell before it starts without it."""


@dataclass(frozen=True)
class MissionTeam:
    """The objects that a mission's reference leads to.

    Attributes:
        formation: the formation in formationRef of the mission, or of the cell in cellRef; None
            when it is missing or there is no reference.
        cells: the cells of that formation, or the cell in cellRef, by object name.
        account: the ServiceAccount of the entry cell; read only when the cell borrows one.
        members: all cells of the formation of a cell in cellRef, if they share a budget
            or a person has decided about a tool call.
        sharing: scopes of the other cells that use this borrowed account.
    """

    formation: Formation | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    account: Body | None = None
    members: Mapping[str, Cell] = field(default_factory=dict)
    sharing: Sequence[Scope] = ()


@dataclass(frozen=True)
class Entrypoint:
    """The cell that gets the objective, with its identity."""

    cell: Cell
    identity: CellIdentity


@dataclass(frozen=True)
class NotReady:
    """Why a mission cannot start now."""

    reason: Reason
    message: str


def entrypoint_cell(mission: Mission, team: MissionTeam) -> Cell | NotReady:
    """Find the cell that gets a mission's objective."""
    namespace = mission.metadata.namespace
    if mission.spec.cell_ref is not None:
        named_cell = team.cells.get(mission.spec.cell_ref)
        message = f"Cell/{namespace}/{mission.spec.cell_ref} does not exist; create it"
        return named_cell or NotReady(Reason.CELL_NOT_FOUND, message)
    if team.formation is None:
        message = f"Formation/{namespace}/{mission.spec.formation_ref} does not exist; create it"
        return NotReady(Reason.FORMATION_NOT_FOUND, message)
    excess = team.formation.spec.too_many_cells()
    if excess is not None:
        message = f"{team.formation.ref} creates no cells: {excess}"
        return NotReady(Reason.WAITING_FOR_FORMATION, message)
    cell_name = mission.spec.entrypoint.cell if mission.spec.entrypoint else None
    short = topology.entrypoint_cell(team.formation.spec, cell_name)
    if short is None:
        return _entrypoint_not_found(team.formation, cell_name or "")
    for cell in team.cells.values():
        if cell_identity.short_name(cell) == short:
            return cell
    message = f"{team.formation.ref} has not made its cell {short} yet"
    return NotReady(Reason.WAITING_FOR_FORMATION, message)


def _entrypoint_not_found(formation: Formation, name: str) -> NotReady:
    cell_names = sorted(topology.routing_of(formation.spec).cell_names())
    suffix = (
        f" and {len(cell_names) - _MAX_CELLS_NAMED} more"
        if len(cell_names) > _MAX_CELLS_NAMED
        else ""
    )
    return NotReady(
        Reason.ENTRYPOINT_NOT_FOUND,
        f'entrypoint.cell "{name}" names no cell of {formation.ref}; it has '
        f"{', '.join(cell_names[:_MAX_CELLS_NAMED])}{suffix}",
    )


def find_entrypoint(mission: Mission, team: MissionTeam, *, now: datetime) -> Entrypoint | NotReady:
    """Find the entry cell if the whole team is ready for work; else return the obstacle."""
    cell = entrypoint_cell(mission, team)
    obstacle = cell if isinstance(cell, NotReady) else _not_ready(mission, cell, team, now=now)
    if obstacle is not None or isinstance(cell, NotReady):
        return obstacle or NotReady(Reason.WAITING_FOR_FORMATION, "the cells are not known yet")
    return entrypoint_of(cell, team)


def entrypoint_of(cell: Cell, team: MissionTeam) -> Entrypoint:
    """Return the entry cell with its identity, ready or not."""
    return Entrypoint(
        cell, cell_identity.identity(CellInFormation(cell, team.formation), sharing=team.sharing)
    )


def _not_ready(
    mission: Mission, cell: Cell, team: MissionTeam, *, now: datetime
) -> NotReady | None:
    names = [cell.metadata.name]
    if mission.spec.cell_ref is None and team.formation is not None:
        names = formations.desired_names(team.formation)
    waiting = [formations.not_ready_message(team.cells.get(name), name) for name in names]
    messages = [message for message in waiting if message is not None]
    messages += _scaled_down(team, names)
    if messages:
        suffix = (
            f"; and {len(messages) - _MAX_CELLS_NAMED} more"
            if len(messages) > _MAX_CELLS_NAMED
            else ""
        )
        message = f"waiting for cells: {'; '.join(messages[:_MAX_CELLS_NAMED])}{suffix}"
        return NotReady(Reason.WAITING_FOR_CELLS, message)
    if cell.spec.service_account_name is not None:
        problem = service_account.account_problem(cell, team.account)
        if problem is not None:
            return NotReady(Reason.ACCOUNT_NOT_ALLOWED, problem)
    return _not_registered(cell, now)


def _scaled_down(team: MissionTeam, names: Sequence[str]) -> list[str]:
    """Describe the service cells that are ready but scaled down; they are scaled up for a run."""
    cells = [team.cells[name] for name in names if name in team.cells]
    ready_conditions = [(cell, cell.condition(ConditionType.READY)) for cell in cells]
    return [
        f"{cell.metadata.name} is being scaled up"
        for cell, ready in ready_conditions
        if ready is not None and ready.reason == Reason.SCALED_DOWN
    ]


def _not_registered(cell: Cell, now: datetime) -> NotReady | None:
    """Wait for a registration in progress, for a limited time; a refused one blocks nothing."""
    registered = cell.condition(ConditionType.REGISTERED)
    if (
        registered is None
        or registered.status == "True"
        or registered.reason != Reason.NOT_REGISTERED
    ):
        return None
    if now - registered.last_transition_time >= REGISTRATION_TIMEOUT:
        return None
    message = f"{cell.ref} is being registered with the knowledge service"
    return NotReady(Reason.WAITING_FOR_CELLS, message)
