"""Check whether the knowledge service accepts this user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.doctor.findings import Finding, failed, ok

if TYPE_CHECKING:
    from kais_cli.session import Session


def check(session: Session) -> Finding:
    """Ask the service for the identity of the user, over the connection that all commands use."""
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    try:
        with connection.connect(
            session.environment,
            session.cluster,
            namespace=session.namespace,
            creates_account=False,
        ) as client:
            principal = client.whoami()
    except errors.NoAccount as exc:
        return ok(
            "store", f"not asked: {exc} yet; the first object of kais or `kais knowledge` makes it"
        )
    except errors.CliError as exc:
        return failed("store", str(exc), "kais commands that recall or list facts do not work")
    return ok("store", f"answers; here you are {principal.name}, at home in {principal.home}")
