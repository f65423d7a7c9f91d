"""The groups of commands, each loaded on first use.

`kais --help` lists all groups without loading any: the models of the kinds load too slowly for a
help text.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from kais_cli import session, unknown_commands
from kais_cli.completion import candidates, command_line


@dataclass(frozen=True)
class CommandGroup:
    """The location of a group of commands.

    Attributes:
        modules: The first one has `app`; the others add commands to it when they are loaded.
        help: The description in `kais --help`.
    """

    modules: tuple[str, ...]
    help: str


COMMAND_GROUPS = {
    "blueprint": CommandGroup(("blueprint", "blueprint_history"), "Use and manage blueprints."),
    "instance": CommandGroup(("instance",), "Inspect, follow and delete instances of blueprints."),
    "formation": CommandGroup(("formation",), "Inspect and scale formations."),
    "cell": CommandGroup(("cell",), "Inspect cells and read their logs."),
    "mission": CommandGroup(
        ("mission", "mission_actions", "mission_extraction"), "Inspect and control missions."
    ),
    "approvals": CommandGroup(("approvals",), "Decide about tool calls of agents that wait."),
    "knowledge": CommandGroup(
        (
            "knowledge",
            "knowledge_facts",
            "knowledge_reviews",
            "knowledge_scopes",
            "knowledge_aliases",
            "knowledge_links",
            "knowledge_operations",
            "knowledge_events",
            "knowledge_graph",
            "knowledge_graph_files",
            "knowledge_charts",
        ),
        "Query and manage facts.",
    ),
    "receipt": CommandGroup(("receipt",), "Show and replay what a recall returned."),
    "cluster": CommandGroup(("cluster",), "Run a Kubernetes cluster on this machine."),
    "mcp": CommandGroup(("mcp",), "Serve the Model Context Protocol on standard input and output."),
    "version": CommandGroup(("version",), "Show the versions of this command and of the cluster."),
    "doctor": CommandGroup(("doctor",), "Diagnose the installation."),
    "uninstall": CommandGroup(("uninstall",), "End runs and remove the operator's finalizers."),
    "help": CommandGroup(("help",), "Show the help of a command."),
    "completion": CommandGroup(("completion",), "Print the completion script of a shell."),
}


@functools.cache
def _load(name: str) -> Any:
    first, *further_modules = (
        importlib.import_module(f"kais_cli.commands.{module}")
        for module in COMMAND_GROUPS[name].modules
    )
    del further_modules
    command = typer.main.get_command(first.app)
    command.name = name
    return command


class LazyCommandGroups(unknown_commands.HelpfulGroup):
    """The root command, which loads its groups on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the groups."""
        del ctx
        return list(COMMAND_GROUPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one group; None if there is no such group."""
        del ctx
        name = command_line.ALIASES.get(cmd_name, cmd_name)
        return _load(name) if name in COMMAND_GROUPS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of groups without loading them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, group.help) for name, group in COMMAND_GROUPS.items()])

    def advice(self, ctx: Any, arguments: Sequence[str]) -> str | None:
        """Return the command to use instead of one that begins with the verb."""
        entries = candidates.command_tree()["commands"]
        groups = {name: entry.get("commands", {}) for name, entry in entries.items()}
        return unknown_commands.root_advice(ctx.command_path, arguments, groups)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        session.write_examples(ctx, formatter)
