"""`kais cluster`: a real Kubernetes on this machine, to try kais on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

app = group("cluster", "Run a Kubernetes on this machine.")


@command(app, "up", needs_cluster=False)
def up(
    session: Session,
    no_node: Annotated[
        bool, typer.Option("--no-node", help="Only the control plane: seconds, and no pods.")
    ] = False,
) -> ExitStatus:
    """Bring a cluster up, or say that it is; builds its programs the first time."""
    clusters = session.environment.open_clusters()
    with _translated():
        status = clusters.up(no_node=no_node, say=session.note)
    session.write("\n".join(status.lines()) + "\n")
    session.note('use it with: eval "$(kais cluster env)"')
    return ExitStatus.SUCCEEDED


@command(app, "down", needs_cluster=False)
def down(session: Session) -> ExitStatus:
    """Stop the cluster and remove its state."""
    clusters = session.environment.open_clusters()
    with _translated():
        clusters.down(say=session.note)
    return ExitStatus.SUCCEEDED


@command(app, "status", needs_cluster=False)
def status(session: Session) -> ExitStatus:
    """Show what runs; ends with 7 when the cluster does not answer."""
    clusters = session.environment.open_clusters()
    with _translated():
        found = clusters.status()
    session.write("\n".join(found.lines()) + "\n")
    return ExitStatus.SUCCEEDED if found.is_up else ExitStatus.UNREACHABLE


@command(app, "env", needs_cluster=False)
def env(session: Session) -> ExitStatus:
    """Print the variables that point kubectl and kais at the cluster, for a shell."""
    clusters = session.environment.open_clusters()
    with _translated():
        variables = clusters.env()
    session.write(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    )
    return ExitStatus.SUCCEEDED


@contextmanager
def _translated() -> Iterator[None]:
    from kais_cluster import errors as cluster_errors  # noqa: PLC0415 (only needed here)

    try:
        yield
    except cluster_errors.NotRunning as exc:
        raise errors.Unreachable(str(exc)) from exc
    except cluster_errors.ClusterError as exc:
        raise errors.Refused(str(exc)) from exc
    except ValueError as exc:  # a variable of its settings cannot work
        raise errors.UsageError(str(exc)) from exc
