"""The knowledge scope of a mission's run, which is part of the run's identity in the ledger."""

from __future__ import annotations

from kais import scopes
from kais.resources.mission import Mission
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved


def of_run(observed: MissionObserved) -> scopes.Scope:
    """Return the run's scope: from the ledger if it has the run, else from the mission's team.

    A team that was deleted has none; then the scope follows from the mission's references. A
    reference that is not a valid segment of a scope is replaced by one that is.
    """
    run = observed.ledger.run
    if run is not None:
        return scopes.Scope.parse(run.scope)
    return _of_team(observed.mission, observed.team)


def _of_team(mission: Mission, team: MissionTeam) -> scopes.Scope:
    """Return the scope of the formation, or of the single cell; from references if it is gone."""
    realm = mission.metadata.namespace
    if team.formation is not None:
        return cell_identity.formation_scope(team.formation)
    if mission.spec.cell_ref is not None:
        cell = team.cells.get(mission.spec.cell_ref)
        if cell is not None and cell.spec.formation_ref is not None:
            return scopes.Scope(realm, cell_identity.segment(cell.spec.formation_ref))
        return scopes.Scope(realm, None, cell_identity.segment(mission.spec.cell_ref))
    formation_name = mission.spec.formation_ref
    return scopes.Scope(
        realm, cell_identity.segment(formation_name) if formation_name is not None else None
    )
