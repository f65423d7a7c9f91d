"""Read one object of a kind in the session's namespace, or write a list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.views import output
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from kais_cli.ports import Body
    from kais_cli.session import Session


def get(session: Session, kind: str, name: str) -> Body:
    """Read one object.

    Raises:
        Refused: There is no object of that name.
    """
    body = session.cluster.get(kind, session.namespace, name)
    if body is None:
        raise errors.Refused(
            f"{kind}/{session.namespace}/{name} does not exist; see `kais {kind.lower()} list`"
        )
    return body


def write_list(
    session: Session, kind: str, form: Format, *, table: Callable[[Sequence[Body]], str]
) -> ExitStatus:
    """Write all objects of a kind; `table` formats them for people."""
    bodies = session.cluster.list(kind, session.namespace)
    if form is Format.NAME:
        session.write(output.format_names(bodies, kind=kind))
    elif form is not Format.TABLE:
        session.write(output.dump([output.without_managed_fields(body) for body in bodies], form))
    elif not bodies:
        session.note(f"no {kind.lower()}s in namespace {session.namespace}")
    else:
        session.write(table(bodies))
    return ExitStatus.SUCCEEDED
