"""Find the cell that a mission names as its reviewer.

A name that is a template or a cell of the formation is that cell; any other name is a person. A
cell that serves A2A is asked by a message. Any other cell cannot be asked, so a person answers.
"""

from __future__ import annotations

from kais import names, topology
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.mission.decide import entrypoint
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam, NotReady


def object_name(mission: Mission, formation: Formation | None) -> str | None:
    """Return the name of the Cell that reviews a mission; None if its reviewer is a person."""
    review = mission.spec.completion.review
    if review is None or not decide_review.is_wanted(mission):
        return None
    if formation is None:
        return review.reviewer if review.reviewer == mission.spec.cell_ref else None
    formation_name = formation.metadata.name
    short = topology.entrypoint_cell(formation.spec, review.reviewer)
    if short is not None:
        template, _, index = short.rpartition("-")
        return names.cell_name(formation_name, template, int(index))
    is_object = any(
        names.cell_name(formation_name, declared.name, number) == review.reviewer
        for declared in formation.spec.cells
        for number in range(declared.replicas)
    )
    return review.reviewer if is_object else None


def find(mission: Mission, team: MissionTeam) -> Cell | None:
    """Return the cell that is asked for the review; None if a person is."""
    name = object_name(mission, team.formation)
    cell = team.cells.get(name) if name is not None else None
    if cell is None or not cell.spec.serves_a2a or problem(mission, team) is not None:
        return None
    return cell


def problem(mission: Mission, team: MissionTeam) -> NotReady | None:
    """Return an obstacle if the entry cell would review its own work."""
    entry = entrypoint.entrypoint_cell(mission, team)
    name = object_name(mission, team.formation)
    if isinstance(entry, NotReady) or name != entry.metadata.name:
        return None
    review = mission.spec.completion.review
    declared_name = review.reviewer if review is not None else name
    message = (
        f'completion.review.reviewer "{declared_name}" is {entry.ref}, which does the work; '
        "name another cell or a person"
    )
    return NotReady(Reason.REVIEWER_NOT_ALLOWED, message)


def display_name(cell: Cell) -> str:
    """Return how messages name a reviewer: its short name in a formation, else its name."""
    return cell_identity.short_name(cell)
