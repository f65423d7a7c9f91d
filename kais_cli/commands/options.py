"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from kais import durations, metadata_validation, resource_names
from kais_cli import errors
from kais_cli.ports import LogOptions
from kais_cli.settings import Identity
from kais_cli.views import output
from kais_cli.views.output import Format, Listing

As = Annotated[
    Identity,
    typer.Option(
        "--as",
        envvar="KAIS_KNOWLEDGE_AS",
        help="Who you are at the service: the namespace's account, the administrator of the"
        " release, or the user of your kubeconfig.",
    ),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
Listed = Annotated[Listing, typer.Option("--output", "-o", help="Output format.")]
ObjectOutput = Annotated[
    str, typer.Option("--output", "-o", metavar=output.OBJECT_FORMATS, help="Output format.")
]
ListOutput = Annotated[
    str, typer.Option("--output", "-o", metavar=output.LIST_FORMATS, help="Output format.")
]
SortBy = Annotated[
    str,
    typer.Option(
        "--sort-by", metavar="PATH", help="Sort by a field, such as .metadata.creationTimestamp."
    ),
]
NoHeaders = Annotated[
    bool, typer.Option("--no-headers", help="Leave out the line with the names of the columns.")
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="List the objects of all namespaces.")
]
Selector = Annotated[
    str,
    typer.Option(
        "--selector", "-l", metavar="LABELS", help="Label selector, such as app=web,tier!=db."
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="After the list, print each object that changes.")
]
Tail = Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of lines.")]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", "-f", help="Wait for the container, and stream new lines until it ends."
    ),
]
Container = Annotated[
    str | None,
    typer.Option("--container", "-c", metavar="NAME", help="Only this container of the pods."),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Only lines of this last period, such as 5m or 1.5h."),
]
Previous = Annotated[
    bool, typer.Option("--previous", "-p", help="The log before the last restart of a container.")
]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")]
ParameterValues = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; may be repeated."),
]
ParameterFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--set-file",
        metavar="NAME=FILE",
        help="Parameter whose value is the text of a file, without its last line breaks, or - for"
        " standard input; may be repeated.",
    ),
]
Timeout = Annotated[
    str,
    typer.Option(metavar="DURATION", help="Maximum time to follow the run, such as 90s or 1h30m."),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="STATE",
        help="Wait for a state as `kubectl wait` does: condition=TYPE[=STATUS],"
        " jsonpath=PATH[=VALUE], create or delete.",
    ),
]
RunNumber = Annotated[
    int | None,
    typer.Option(
        "--run",
        help="Number of the run: 1 is the oldest that `kais mission show` lists, -1 the one before"
        " the current one. A mission lists 10 earlier runs; with more, positive numbers shift."
        " Default: the current one.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Validate on the API server without changing anything."),
]


def dry_run_suffix(*, dry_run: bool) -> str:
    """Return the end of a message about a change, which a dry run has not made."""
    return " (dry run, nothing changed)" if dry_run else ""


def log_options(
    tail: int, *, follow: bool, since: str | None, previous: bool, timestamps: bool
) -> LogOptions:
    """Return the options of a command that prints logs.

    Raises:
        UsageError: `since` is no duration, or the log of an ended container is to be followed.
    """
    if follow and previous:
        raise errors.UsageError("--previous shows a container that has ended; leave out --follow")
    try:
        period = durations.parse_go(since) if since is not None else None
    except ValueError as exc:
        raise errors.UsageError(f"--since {exc}") from exc
    # As in kubectl, a period of 0 is the whole log.
    return LogOptions(tail, follow, period or None, previous, timestamps)


def object_name(kind: str) -> Callable[[str], str]:
    """Return a callback that accepts `NAME` and `TYPE/NAME`, as `kubectl get -o name` prints it.

    The callback raises `UsageError` if the type is another one than `kind`, or if no object can
    have the name.
    """

    def parse(argument: str) -> str:
        type_, slash, name = argument.rpartition("/")
        names = resource_names.BY_KIND[kind]
        resource = type_.lower().partition(".")[0]
        if slash and resource not in (kind.lower(), *names):
            raise errors.UsageError(
                f"{argument!r} is not a {kind}; write NAME or {kind.lower()}/NAME"
            )
        _check_name(name, argument, kind)
        return name

    return parse


def optional_object_name(kind: str) -> Callable[[str | None], str | None]:
    """Return the callback of `object_name` for an argument that may be left out."""
    parse = object_name(kind)
    return lambda argument: None if argument is None else parse(argument)


def new_object_name(kind: str) -> Callable[[str | None], str | None]:
    """Return a callback that accepts a name for a new object, or none.

    The callback raises `UsageError` if no object can have the name.
    """

    def parse(argument: str | None) -> str | None:
        if argument is not None:
            _check_name(argument, argument, kind)
        return argument

    return parse


def _check_name(name: str, argument: str, kind: str) -> None:
    if not metadata_validation.is_object_name(name):
        raise errors.UsageError(
            f"{argument!r} is not the name of a {kind}: a name has 1 to 253 of a-z, 0-9, - and .,"
            " and begins and ends with a letter or a digit"
        )
