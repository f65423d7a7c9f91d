"""`kais version`: the versions of the command, the operator, the service and the kinds."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.cluster import install_defaults
from kais_cli.commands.options import Output
from kais_cli.doctor import installation
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

_NOT_READABLE = f"{installation.UNKNOWN}: you may not read it"

app = group("version", "")


@command(app, "version")
def version(
    session: Session,
    client: Annotated[
        bool, typer.Option("--client", help="Show the version of the command alone.")
    ] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Show the versions of this command and of what the cluster runs, and which differ.

    The kinds have no version of their own: `current` means that they have every field that this
    version of the command writes. If the operator of the chart is scaled to 0, an operator outside
    the cluster may lead, or the Lease of the last pod has not run out; the version of its holder is
    unknown, and `chart` is that of the chart.
    """
    if output_ is Format.NAME:
        raise errors.UsageError("versions have no name; use -o table, json or yaml")
    client_version = metadata.version("kais")
    versions = {"client": client_version}
    try:
        if not client:
            versions |= _installed_versions(session)
    finally:  # an unreachable cluster does not hide the version of the command
        if output_ is Format.TABLE:
            session.write(
                table_layout.format_table(("COMPONENT", "VERSION"), list(versions.items()))
            )
        else:
            session.write(output.dump(versions, output_))
    expected = {client_version, installation.CURRENT_KINDS}
    differing = [
        name
        for name, installed in versions.items()
        if name != "kubernetes" and installed not in expected and not _is_elsewhere(name, versions)
    ]
    if differing:
        session.note(
            f"warning: not of version {client_version}: {', '.join(differing)};"
            " see `kais doctor` for what to upgrade"
        )
    return ExitStatus.SUCCEEDED


def _is_elsewhere(name: str, versions: dict[str, str]) -> bool:
    """Whether a part is an operator that does not run in the cluster: it has no known version."""
    return name == "operator" and "chart" in versions


def _text(read: Callable[[], str]) -> str:
    try:
        return read()
    except errors.Refused:
        return _NOT_READABLE


def _installed_versions(session: Session) -> dict[str, str]:
    cluster = session.cluster
    release = install_defaults.release(session.environment.settings)
    chart = _text(
        lambda: installation.workload_version(
            cluster, "Deployment", release.namespace, release.operator
        )
    )
    return {
        "kubernetes": cluster.version(),
        "kinds": _text(lambda: installation.kinds_state(cluster)),
        **_operator_versions(session, chart),
        "service": _text(
            lambda: installation.workload_version(
                cluster, "StatefulSet", release.namespace, release.knowledge
            )
        ),
    }


def _operator_versions(session: Session, chart: str) -> dict[str, str]:
    """Return the version of the operator; beside that of the chart if it runs elsewhere."""
    cluster, environment = session.cluster, session.environment
    release = install_defaults.release(environment.settings)
    if chart == _NOT_READABLE or not installation.is_scaled_to_0(cluster, release):
        return {"operator": chart}
    now = environment.now()
    operator = _text(lambda: installation.outside_version(cluster, release, now))
    return {"operator": operator, "chart": chart}
