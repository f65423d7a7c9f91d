"""The groups of commands, loaded when one of them is asked for.

`kais --help` names them all and loads none: the models of the kinds take longer to load than a
person waits for a list of words.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import typer
from typer import completion
from typer.core import TyperGroup


@dataclass(frozen=True)
class CommandGroup:
    """Where a group of commands is.

    Attributes:
        modules: The first has `app`, the others add commands to it when they are loaded.
        help: What `kais --help` says of it.
    """

    modules: tuple[str, ...]
    help: str


COMMAND_GROUPS = {
    "blueprint": CommandGroup(("blueprint", "blueprint_history"), "Use and manage blueprints."),
    "formation": CommandGroup(("formation",), "Inspect and scale formations."),
    "mission": CommandGroup(("mission", "mission_actions"), "Inspect and control missions."),
    "knowledge": CommandGroup(
        ("knowledge", "knowledge_facts", "knowledge_reviews", "knowledge_scopes"),
        "Query and manage facts.",
    ),
    "cluster": CommandGroup(("cluster",), "Run a Kubernetes cluster on this machine."),
    "doctor": CommandGroup(("doctor",), "Diagnose the installation."),
    "uninstall": CommandGroup(("uninstall",), "End runs and remove the operator's finalizers."),
    "completion": CommandGroup(("completion",), "Print the completion script of a shell."),
}


class LazyCommandGroups(TyperGroup):
    """The whole command, with its groups behind doors."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the groups."""
        del ctx
        return list(COMMAND_GROUPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one group; None when there is no such one."""
        del ctx
        group = COMMAND_GROUPS.get(cmd_name)
        if group is None:
            return None
        first, *further_modules = (
            importlib.import_module(f"kais_cli.commands.{name}") for name in group.modules
        )
        del further_modules
        command = typer.main.get_command(first.app)
        command.name = cmd_name
        return command

    def _main_shell_completion(self, *arguments: Any, **options: Any) -> None:
        """Answer a shell that asks what may come next; typer's classes know how to."""
        completion.completion_init()  # type: ignore[attr-defined]
        super()._main_shell_completion(*arguments, **options)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of groups without loading them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, group.help) for name, group in COMMAND_GROUPS.items()])
