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

from kais_cli.environment import ClusterOptions, Environment
from kais_cli.views import text_layout

if TYPE_CHECKING:
    from kais_cli.exit_status import ExitStatus
    from kais_cli.ports import Cluster

Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace. Default: that of the kubeconfig context."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Kubeconfig = Annotated[
    str | None, typer.Option(envvar="KUBECONFIG", help="Kubeconfig file of the cluster.")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")]

COMMON = {"namespace": Namespace, "context": Context, "kubeconfig": Kubeconfig}
"""The options of every command that speaks to a cluster."""


@dataclass(frozen=True)
class Session:
    """The context of a command; the cluster is opened on first use."""

    environment: Environment
    cluster_options: ClusterOptions
    chosen_namespace: str | None = None

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster that the options select."""
        return self.environment.open_cluster(self.cluster_options)

    @functools.cached_property
    def namespace(self) -> str:
        """The namespace that the options select, otherwise that of the context."""
        return self.chosen_namespace or self.cluster.namespace

    def write(self, text: str) -> None:
        """Write to stdout."""
        self.environment.write(text_layout.escape_control_characters(text))

    def note(self, text: str) -> None:
        """Write a line to stderr, separate from the output."""
        self.environment.stderr.write(text_layout.escape_control_characters(text) + "\n")


def group(name: str, help_text: str) -> typer.Typer:
    """Create a group of commands; a group with a single command is that command."""
    return typer.Typer(
        name=name,
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
            common = {key: options.pop(key, None) for key in COMMON}
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
        app.command(name)(run)
        return function

    return register


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
