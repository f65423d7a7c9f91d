"""Write kais_cli/completion/commands.json, the tree of commands that completion reads.

`make reference` runs it; a test fails on drift.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from pathlib import Path
from typing import Any

import typer

from kais_cli import app
from kais_cli.commands import lazy_groups

PATH = Path(__file__).resolve().parent.parent / "kais_cli/completion/commands.json"


def text() -> str:
    """Return the content of the file."""
    root = typer.main.get_command(app.build())
    groups = {
        name: _node(root.get_command(None, name), lazy_groups.COMMAND_GROUPS[name].help)  # type: ignore[attr-defined]
        for name in lazy_groups.COMMAND_GROUPS
    }
    tree = {"commands": groups, "options": _options(root)}
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def _node(command: Any, help_text: str) -> dict[str, Any]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        nodes = {name: _node(entry, _first_sentence(entry.help)) for name, entry in inner.items()}
        return {"help": help_text, "commands": nodes, "options": _options(command)}
    arguments = [
        {"name": p.name, "values": _values(p), "repeats": p.nargs == -1}
        for p in command.params
        if p.param_type_name == "argument"
    ]
    return {"help": help_text, "arguments": arguments, "options": _options(command)}


def _options(command: Any) -> list[dict[str, Any]]:
    return [
        {
            "names": sorted([*p.opts, *p.secondary_opts], key=len, reverse=True),
            "help": _first_sentence(p.help),
            "takes_value": not p.is_flag,
            "values": _values(p),
            "repeats": bool(p.multiple),
        }
        for p in command.params
        if p.param_type_name == "option"
    ]


def choices(parameter: Any) -> list[str] | None:
    """Return the values of an option: those of its enumeration, or of its `a|b|c` in the help."""
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(choice.value) for choice in kind]
    listed = (parameter.metavar or "").split("|")
    return listed if len(listed) > 1 else None


def _values(parameter: Any) -> list[str] | None:
    """Return the values to complete; of `name=PLACEHOLDER`, the name and the equals sign."""
    values = choices(parameter)
    return [re.sub("=[A-Z]+$", "=", value) for value in values] if values else None


def _first_sentence(help_text: str | None) -> str:
    return " ".join((help_text or "").partition("\n\n")[0].split())


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{PATH.name}\n")
