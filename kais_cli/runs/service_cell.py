"""Find the cell that has the logs of a mission without pods of its own.

A cell in mode Service keeps running: it gets the objective as a message, and checks run in its pod.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kais import names
from kais.errors import InvalidResource
from kais_cli import errors

if TYPE_CHECKING:
    from kais.resources.mission import Mission
    from kais_cli.session import Session


def find_by_name(session: Session, mission: str) -> str | None:
    """Read a mission and do the same as `find`; None also if it is gone or may not be read."""
    from kais.resources.mission import Mission  # noqa: PLC0415 (only for missions without logs)

    with contextlib.suppress(errors.CliError, InvalidResource):
        body = session.cluster.get("Mission", session.namespace, mission)
        return find(session, Mission.from_dict(body)) if body is not None else None
    return None


def find(session: Session, mission: Mission) -> str | None:
    """Return the name of a mission's entry cell if it is in mode Service.

    None also if one of the objects is gone, not valid, or the user may not read it.
    """
    from kais.resources.cell import Cell  # noqa: PLC0415 (only for missions without logs)
    from kais.resources.cell_template import CellMode  # noqa: PLC0415 (see above)

    with contextlib.suppress(errors.CliError, InvalidResource):
        name = _entry_cell_name(session, mission)
        body = session.cluster.get("Cell", session.namespace, name) if name else None
        if body is not None and Cell.from_dict(body).spec.effective_mode is CellMode.SERVICE:
            return name
    return None


def logs_command(cell: str, namespace: str) -> str:
    """Return the command that prints the logs of a cell."""
    return f"kais cell logs {cell} -n {namespace}"


def _entry_cell_name(session: Session, mission: Mission) -> str | None:
    """Return the name of the cell that gets the objective; None if an object is missing."""
    from kais import topology  # noqa: PLC0415 (see above)
    from kais.resources.formation import Formation  # noqa: PLC0415 (see above)

    spec = mission.spec
    if spec.formation_ref is None:
        return spec.cell_ref
    body = session.cluster.get("Formation", session.namespace, spec.formation_ref)
    if body is None:
        return None
    entrypoint = spec.entrypoint.cell if spec.entrypoint else None
    short_name = topology.entrypoint_cell(Formation.from_dict(body).spec, entrypoint)
    if short_name is None:
        return None
    template, _, index = short_name.rpartition("-")
    return names.cell_name(spec.formation_ref, template, int(index))
