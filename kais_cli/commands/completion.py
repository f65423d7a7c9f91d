"""`kais completion`: the script that a shell loads to complete commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.completion import shells
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

app = group("completion", "")


@command(app, "completion", needs_cluster=False)
def completion(
    session: Session, shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]
) -> ExitStatus:
    """Print the completion script of a shell: load it with `source <(kais completion bash)`.

    It completes commands and options, and from the cluster names, namespaces, parameters and their
    values. `kubectl kais` completes by itself if kubectl completes.
    """
    script = shells.SCRIPTS.get(shell)
    if script is None:
        raise errors.UsageError(f"no completion for {shell}; there is {', '.join(shells.SCRIPTS)}")
    session.environment.stdout.write(script)
    return ExitStatus.SUCCEEDED
