"""`kais cluster`: a real Kubernetes on this machine, to try kais on."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

app = group("cluster", "Run a Kubernetes cluster on this machine.")


@command(app, "up", needs_cluster=False)
def up(
    session: Session,
    no_node: Annotated[
        bool,
        typer.Option(
            "--no-node", help="Start the control plane only: takes seconds, runs no pods."
        ),
    ] = False,
) -> ExitStatus:
    """Start a cluster, unless it runs already; builds its programs the first time."""
    clusters = session.environment.open_clusters()
    status = clusters.up(no_node=no_node, report=session.note)
    session.write("\n".join(status.lines()) + "\n")
    session.note('use it with: eval "$(kais cluster env)"')
    return ExitStatus.SUCCEEDED


@command(app, "down", needs_cluster=False)
def down(session: Session) -> ExitStatus:
    """Stop the cluster and delete its state."""
    clusters = session.environment.open_clusters()
    clusters.down(report=session.note)
    return ExitStatus.SUCCEEDED


@command(app, "status", needs_cluster=False)
def status(session: Session) -> ExitStatus:
    """Show the status of the cluster; exits with 7 when it does not answer."""
    clusters = session.environment.open_clusters()
    cluster_status = clusters.status()
    session.write("\n".join(cluster_status.lines()) + "\n")
    return ExitStatus.SUCCEEDED if cluster_status.is_up else ExitStatus.UNREACHABLE


@command(app, "env", needs_cluster=False)
def env(session: Session) -> ExitStatus:
    """Print shell exports that point kubectl and kais at the cluster."""
    clusters = session.environment.open_clusters()
    variables = clusters.env()
    session.write(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    )
    return ExitStatus.SUCCEEDED


@command(app, "load", needs_cluster=False)
def load(
    session: Session,
    image: Annotated[
        str,
        typer.Argument(
            help="An image of Docker, Podman or buildah, or a file that `docker save` wrote."
        ),
    ],
) -> ExitStatus:
    """Load an image of this machine into the cluster, so that cells can use it."""
    clusters = session.environment.open_clusters()
    clusters.load_named_image(image, report=session.note)
    return ExitStatus.SUCCEEDED
