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
class Room:
    """Where a group of commands is.

    Attributes:
        modules: The first has `app`, the others add commands to it when they are loaded.
        help: What `kais --help` says of it.
    """

    modules: tuple[str, ...]
    help: str


ROOMS = {
    "blueprint": Room(("blueprint", "blueprint_history"), "Use and manage blueprints."),
    "formation": Room(("formation",), "Inspect and scale formations."),
    "mission": Room(("mission", "mission_actions"), "Inspect and control missions."),
    "knowledge": Room(
        ("knowledge", "knowledge_facts", "knowledge_reviews", "knowledge_scopes"),
        "Query and manage facts.",
    ),
    "cluster": Room(("cluster",), "Run a Kubernetes cluster on this machine."),
    "doctor": Room(("doctor",), "Diagnose the installation."),
    "uninstall": Room(("uninstall",), "End runs and remove the operator's finalizers."),
    "completion": Room(("completion",), "Print the completion script of a shell."),
}


class Rooms(TyperGroup):
    """The whole command, with its groups behind doors."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the groups."""
        del ctx
        return list(ROOMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one group; None when there is no such one."""
        del ctx
        room = ROOMS.get(cmd_name)
        if room is None:
            return None
        first, *others = (
            importlib.import_module(f"kais_cli.commands.{name}") for name in room.modules
        )
        del others
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
            formatter.write_dl([(name, room.help) for name, room in ROOMS.items()])
