"""Parses the command line up to the cursor: the command, its values, and the open option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ALIASES = {
    "blueprints": "blueprint", "bp": "blueprint",
    "instances": "instance", "bpi": "instance", "use": "instance", "uses": "instance",
    "formations": "formation", "fm": "formation",
    "cells": "cell", "cl": "cell",
    "missions": "mission", "ms": "mission",
}  # fmt: skip
"""Further names of groups: plurals, kubectl's short names, and `use`."""


@dataclass(frozen=True)
class CommandLine:
    """The words before the cursor, read with the tree of commands.

    Attributes:
        path: The names of group and command.
        node: The entry of the last of them in the tree.
        arguments: The values of the arguments so far.
        values: The values of the options so far, by their longest name.
        option: The option whose value is at the cursor; None at an argument or a name.
    """

    path: tuple[str, ...]
    node: Mapping[str, Any]
    arguments: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    option: Mapping[str, Any] | None = None

    def value(self, option: str) -> str | None:
        """Return the last value of an option."""
        return (self.values.get(option) or (None,))[-1]


def parse(tree: Mapping[str, Any], words: Sequence[str]) -> CommandLine:
    """Read the words before the cursor; unknown options are skipped."""
    node = tree
    path: list[str] = []
    arguments: list[str] = []
    values: dict[str, tuple[str, ...]] = {}
    waiting: Mapping[str, Any] | None = None
    for word in words:
        if waiting is not None:
            values[waiting["names"][0]] = (*values.get(waiting["names"][0], ()), word)
            waiting = None
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            option = find_option(tree, node, name)
            if option is not None and option["takes_value"] and equals:
                values[option["names"][0]] = (*values.get(option["names"][0], ()), value)
            elif option is not None and option["takes_value"]:
                waiting = option
        elif (name := word if path else ALIASES.get(word, word)) in node.get("commands", {}):
            path.append(name)
            node = node["commands"][name]
        else:
            arguments.append(word)
    return CommandLine(tuple(path), node, tuple(arguments), values, waiting)


def find_option(
    tree: Mapping[str, Any], node: Mapping[str, Any], name: str
) -> Mapping[str, Any] | None:
    """Return an option of the command, or of `kais` itself, by one of its names."""
    options = [*node.get("options", ()), *tree["options"]]
    return next((option for option in options if name in option["names"]), None)
