"""Handles unknown commands: `help` after a group, and the verbs of other tools."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from kais_cli.completion import command_line

_EQUIVALENTS = {
    "apply": ("use", "add"),
    "cancel": ("abort",),
    "create": ("use", "add"),
    "describe": ("show",),
    "edit": ("revise",),
    "follow": ("watch",),
    "get": ("list", "show"),
    "inspect": ("show",),
    "log": ("logs",),
    "ls": ("list",),
    "ps": ("list",),
    "remember": ("add",),
    "rerun": ("retry",),
    "resubmit": ("retry",),
    "rm": ("delete", "retract"),
    "run": ("use",),
    "search": ("recall",),
    "start": ("use", "up"),
    "status": ("show",),
    "stop": ("abort", "down"),
    "terminate": ("abort",),
    "undo": ("rollback",),
}
"""The commands of kais that correspond to commands of kubectl, helm, argo and docker."""

_OF_KUBECTL = frozenset(
    {
        "annotate", "api-resources", "apply", "config", "create", "delete", "describe", "edit",
        "events", "explain", "get", "label", "patch", "replace", "wait",
    }
)  # fmt: skip
"""Commands of kubectl that also work with objects of kais."""

_OF_FILES = frozenset({"apply", "create", "replace"})
_WITHOUT_OBJECTS = frozenset({"api-resources", "config"})

_RECONCILE = {"suspend": "=suspended", "pause": "=suspended", "resume": "-", "unpause": "-"}
"""The change of the annotation that pauses any object."""

_KINDS = {
    "blueprint": "blueprint",
    "cell": "cell",
    "formation": "formation",
    "instance": "blueprintinstance",
    "mission": "mission",
    "use": "blueprintinstance",
}
"""The kinds of the groups of commands that are about objects."""


def advice(path: str, unknown: str, commands: Collection[str]) -> str | None:
    """Return the commands of a group that correspond to an unknown one; None if none does."""
    names = [name for name in _EQUIVALENTS.get(unknown, (unknown,)) if name in commands]
    return " or ".join(f"`{path} {name}`" for name in names) or None


def root_advice(
    path: str, arguments: Sequence[str], groups: Mapping[str, Collection[str]]
) -> str | None:
    """Return the command for `get TYPE`, `describe TYPE/NAME` or a misspelt type, or None."""
    verb, *rest = arguments
    words = [word.partition("/")[0].partition(".")[0].lower() for word in rest]
    types = [command_line.ALIASES.get(word, word) for word in words]
    group = next((name for name in types if name in groups), None)
    commands = advice(f"{path} {group}", verb, groups[group]) if group is not None else None
    if commands is None and verb in _OF_KUBECTL:
        return f"`kubectl {shlex.join(arguments)}`"
    if group is not None:
        return commands
    names = difflib.get_close_matches(verb, [*groups, *command_line.ALIASES], n=1)
    return f"`{path} {names[0]}`" if names else None


class HelpfulGroup(TyperGroup):
    """A group that answers `help`, and names what to type instead of an unknown command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the arguments, as click does.

        Raises:
            TyperException: There is none; the message says what to type.
        """
        name, *rest = args
        if name == "help" and "help" not in self.list_commands(ctx):
            if not rest:
                typer.echo(ctx.get_help())
                ctx.exit()
            return super().resolve_command(ctx, [*rest, "--help"])
        try:
            return super().resolve_command(ctx, args)
        except TyperException as exc:
            advice = self.advice(ctx, args)
            if advice is not None:
                exc.message = f"No such command {name!r}; use {advice}"
            raise

    def advice(self, ctx: Any, arguments: Sequence[str]) -> str | None:
        """Return the commands to use instead of an unknown one; None if there are none."""
        if ctx.info_name == "use":  # `kais use NAME`: the group of instances has this name too
            return f"`kais blueprint use {arguments[0]}`"
        verb, *names = arguments
        commands = self.list_commands(ctx)
        kind = _KINDS.get(ctx.info_name)
        if verb in _RECONCILE and kind is not None:
            annotation = f"kais.io/reconcile{_RECONCILE[verb]}"
            return f"`kubectl annotate {kind} {names[0] if names else 'NAME'} {annotation}`"
        equivalents = advice(ctx.command_path, verb, commands)
        if equivalents is None and kind is not None and verb in _OF_KUBECTL:
            return _kubectl_command(verb, kind, names)
        return equivalents


def _kubectl_command(verb: str, kind: str, arguments: Sequence[str]) -> str:
    """Return the kubectl command for an operation on objects that kais has no command for."""
    target = shlex.join(arguments)
    if verb in _OF_FILES and not _has_file(arguments):
        target = "-f FILE"
    elif verb == "events":
        name = next((word for word in arguments if not word.startswith("-")), "NAME")
        target = f"--for {kind}/{name}"
    elif verb == "explain":
        target = kind
    elif verb not in _WITHOUT_OBJECTS and not _has_file(arguments):
        target = f"{kind} {target or 'NAME'}"
    return f"`{f'kubectl {verb} {target}'.rstrip()}`"


def _has_file(arguments: Sequence[str]) -> bool:
    """Whether the arguments name files, beside which kubectl takes no kind."""
    return any(word.startswith(("-f", "--filename", "-k", "--kustomize")) for word in arguments)
