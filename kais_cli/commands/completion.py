"""`kais completion`: the script that a shell loads to complete commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

_SHELLS = ("bash", "zsh", "fish")


app = group("completion", "")


@command(app, "completion", needs_cluster=False)
def completion(
    session: Session, shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]
) -> ExitStatus:
    """Print the completion script of a shell: load it with `source <(kais completion bash)`."""
    from typer import completion as scripts  # noqa: PLC0415 (only for this command)

    if shell not in _SHELLS:
        raise errors.UsageError(f"no completion for {shell}; there is {', '.join(_SHELLS)}")
    script = scripts.get_completion_script(  # type: ignore[attr-defined]
        prog_name="kais", complete_var="_KAIS_COMPLETE", shell=shell
    )
    session.environment.stdout.write(f"{script}\n")
    return ExitStatus.SUCCEEDED
