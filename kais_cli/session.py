"""The session of a command: its environment and the options that all commands share.

`command` registers a function `f(session, ...) -> ExitStatus` and adds the common options, so that
they are declared once and appear in the help of every command.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from kais_cli.cluster import kubeconfig
from kais_cli.environment import ClusterOptions, Environment
from kais_cli.unknown_commands import HelpfulGroup
from kais_cli.views import text_layout

if TYPE_CHECKING:
    from kais_cli.exit_status import ExitStatus
    from kais_cli.ports import Cluster

Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
        help="Namespace. Default: that of the kubeconfig context.",
    ),
]
Context = Annotated[str | None, typer.Option(metavar="CONTEXT", help="Context of the kubeconfig.")]
Kubeconfig = Annotated[
    str | None,
    typer.Option(envvar="KUBECONFIG", metavar="FILE", help="Kubeconfig file of the cluster."),
]
RootKubeconfig = Annotated[
    str | None, typer.Option(metavar="FILE", help="Kubeconfig file of the cluster.")
]
"""The same option before the command; only the other one reads the variable."""
Traceback = Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")]

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}
"""The settings of the root command, which all commands inherit."""

COMMON = {"namespace": Namespace, "context": Context, "kubeconfig": Kubeconfig}
"""The options of every command that uses a cluster."""


@dataclass(frozen=True)
class Session:
    """The context of a command; the cluster is opened on first use."""

    environment: Environment
    cluster_options: ClusterOptions
    chosen_namespace: str | None = None

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster that the options select; without any, the one that runs on this machine."""
        options = self.cluster_options
        if not options.kubeconfig and not self.environment.has_default_kubeconfig():
            local = kubeconfig.of_local_cluster(self.environment.open_clusters(), self.note)
            options = ClusterOptions(local, options.context)
        return self.environment.open_cluster(options)

    @functools.cached_property
    def namespace(self) -> str:
        """The namespace that the options select, otherwise that of the context."""
        return self.chosen_namespace or self.cluster.namespace

    def write(self, text: str) -> None:
        """Write to stdout."""
        self.environment.write(text_layout.escape_control_characters(text))

    def note(self, text: str) -> None:
        """Write a line to stderr, separate from the output."""
        self.environment.write_error(text_layout.escape_control_characters(text) + "\n")


def write_examples(ctx: Any, formatter: Any) -> None:
    """Write the examples at the end of a help page."""
    from kais_cli.commands import examples  # noqa: PLC0415 (only for help pages)

    examples.write(ctx.command_path, formatter)


_NO_BRACES = str.maketrans("", "", "{}")


class _CommandGroup(HelpfulGroup):
    """A group that lists its commands with their whole first sentences."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [
            (name, inspect.cleandoc(entry.help or "").partition("\n\n")[0].replace("\n", " "))
            for name, entry in self.commands.items()
            if not entry.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        write_examples(ctx, formatter)


class _Command(TyperCommand):
    """A command whose help shows placeholders such as NAME and FILE, not the types of Python."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            parameter.metavar = parameter.metavar or _placeholder(parameter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without typer's braces around arguments."""
        return [piece.translate(_NO_BRACES) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        arguments, options = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                arguments.append((parameter.metavar, record[1]))
            elif record is not None:
                options.append(record)
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        write_examples(ctx, formatter)


def _placeholder(parameter: Any) -> str | None:
    """Return the placeholder of a value; None if the help lists the choices."""
    value_type = parameter.type_descriptor
    if value_type.is_choice:
        return None
    if value_type.is_path:
        return "FILE"
    if value_type.is_ranged:
        return "N"
    return str(parameter.name).rstrip("_").replace("_", "-").upper()


def group(name: str, help_text: str) -> typer.Typer:
    """Create a group of commands; a group with a single command is that command."""
    return typer.Typer(
        name=name,
        cls=_CommandGroup,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def command(
    app: typer.Typer, name: str, *, needs_cluster: bool = True
) -> Callable[[Callable[..., ExitStatus]], Callable[..., ExitStatus]]:
    """Register a command; the parameters after the session are its specific options."""

    def register(function: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
        def run(ctx: typer.Context, **options: Any) -> ExitStatus:
            common = {key: _common_option(ctx, key, options.pop(key, None)) for key in COMMON}
            options.pop("traceback")
            session = Session(
                environment=ctx.find_object(Environment) or Environment(),
                cluster_options=ClusterOptions(common["kubeconfig"], common["context"]),
                chosen_namespace=common["namespace"],
            )
            return function(session, **options)

        run.__doc__ = function.__doc__
        signature = _signature(function, needs_cluster=needs_cluster)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}
        app.command(name, cls=_Command)(run)
        return function

    return register


def _common_option(ctx: typer.Context, key: str, value: str | None) -> str | None:
    """Return an option from after the command, from before it, or from its variable."""
    before_command: str | None = ctx.find_root().params.get(key)
    is_typed = value is not None and _is_typed(ctx, key)
    return value if is_typed or before_command is None else before_command


def _is_typed(ctx: typer.Context, key: str) -> bool:
    source = ctx.get_parameter_source(key)
    return source is not None and source.name == "COMMANDLINE"


def _signature(function: Callable[..., Any], *, needs_cluster: bool) -> inspect.Signature:
    hints = get_type_hints(function, include_extras=True)
    own_parameters = list(inspect.signature(function).parameters.values())[1:]
    common = COMMON if needs_cluster else {}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(p.replace(annotation=hints[p.name], kind=keyword) for p in own_parameters),
        *(
            inspect.Parameter(n, keyword, default=None, annotation=kind)
            for n, kind in common.items()
        ),
        inspect.Parameter("traceback", keyword, default=False, annotation=Traceback),
    ]
    return inspect.Signature(parameters)
