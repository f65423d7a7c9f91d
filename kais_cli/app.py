"""The entry point of `kais` and `kubectl-kais`: parses arguments, returns the exit status.

Imports nothing heavy, so that `kais --help` answers before a cluster client could load.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from kais_cli import environment as environments
from kais_cli import session
from kais_cli.commands.lazy_groups import LazyCommandGroups
from kais_cli.environment import Environment
from kais_cli.errors import CliError
from kais_cli.exit_status import ExitStatus
from kais_cli.views import text_layout

_SUGGESTIONS = re.compile(r"(.*)\. Did you mean (.*)\?")
_EXTRA_ARGUMENTS = re.compile(r"got unexpected extra arguments?(?:\(s\))? \((.*)\)")

_KUBECTL_SPELLINGS = {"--dry-run=server": "--dry-run", "--dry-run=client": "--dry-run"}
"""Spellings of kubectl for flags of kais; a dry run always asks the API server."""


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from importlib import metadata  # noqa: PLC0415 (only for this option)

        typer.echo(f"kais {metadata.version('kais')}")
        raise typer.Exit


def build() -> typer.Typer:
    """Build the application from its command groups."""
    app = typer.Typer(
        name="kais",
        help="Run teams of AI agents on Kubernetes that remember what they learned.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback(cls=LazyCommandGroups, context_settings=session.CONTEXT_SETTINGS)
    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_show_version, is_eager=True, help="Show the version."
            ),
        ] = False,
        namespace: session.Namespace = None,
        context: session.Context = None,
        kubeconfig: session.RootKubeconfig = None,
    ) -> None:
        del version  # its callback has printed the version
        del namespace, context, kubeconfig  # `session.command` reads them from the root context

    return app


def main(
    arguments: Sequence[str] | None = None, environment: Environment | None = None
) -> ExitStatus | int:
    """Run one command. Never raises; `environment` provides the streams and clients."""
    streams = environment or environments.from_process()
    raw_arguments = [
        _KUBECTL_SPELLINGS.get(argument, argument)
        for argument in (sys.argv[1:] if arguments is None else arguments)
    ]
    command = typer.main.get_command(build())
    try:
        status = command.main(
            args=raw_arguments, prog_name="kais", standalone_mode=False, obj=streams
        )
        streams.write()
    except TyperException as exc:
        _write_error(_usage_message(exc), streams)
        return ExitStatus.USAGE
    except Exception as exc:  # noqa: BLE001 - a person at a terminal is never shown a traceback
        if streams.is_interrupted() and not isinstance(exc, CliError):
            return ExitStatus.INTERRUPTED
        return _write_failure(exc, streams, with_traceback="--traceback" in raw_arguments)
    return ExitStatus.SUCCEEDED if status is None else status


def _usage_message(exc: TyperException) -> str:
    """Format a usage error. Without arguments, typer's message is the help text itself."""
    message = exc.format_message()
    context = getattr(exc, "ctx", None)
    if message.startswith("Usage:"):
        return f"{message}\n"
    message = message.rstrip(".").replace("Value error, ", "")
    message = f"{message[:1].lower()}{message[1:]}"
    if guess := _SUGGESTIONS.fullmatch(message):
        suggestions = guess[2].replace("'", "").replace(", ", " or ")
        message = f"{guess[1]}; did you mean {suggestions}?"
    if extra := _EXTRA_ARGUMENTS.fullmatch(message):
        message = f"unexpected argument: {extra[1]}; {_quotes_hint(context)}"
    if context is None:
        return f"error: {message}\n"
    separator = "" if message.endswith("?") else ";"
    return f"error: {message}{separator} see `{context.command_path} --help`\n"


def _quotes_hint(context: Any) -> str:
    if context is not None and any("--set" in option.opts for option in context.command.params):
        return "--set takes NAME=VALUE, in quotes if it has spaces"
    return "put a text with spaces in quotes"


def _write_failure(exc: Exception, streams: Environment, *, with_traceback: bool) -> ExitStatus:
    from kais_cli.error_messages.failures import explain  # noqa: PLC0415 (loads the models' library)
    from kais_cli.errors import BrokenOutputPipe  # noqa: PLC0415 (only when something failed)

    failure = explain(exc)
    if isinstance(failure, BrokenOutputPipe):
        return failure.status
    if with_traceback:
        import traceback  # noqa: PLC0415 (only for this option)

        _write_error("".join(traceback.format_exception(exc)), streams)
    _write_error(text_layout.escape_control_characters(f"error: {failure}\n"), streams)
    return failure.status


def _write_error(text: str, streams: Environment) -> None:
    """Write to stderr; without a reader, the exit status alone says what happened."""
    with contextlib.suppress(CliError):
        streams.write_error(text)
