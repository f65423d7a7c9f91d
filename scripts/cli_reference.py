"""Generate the reference of the commands in docs/reference/cli.md from the commands.

`python -m scripts.cli_reference` writes it between the two marks of that file; a test fails on
drift.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from kais_cli import app, session
from kais_cli.commands import examples, lazy_groups
from scripts import completion_commands

BEGIN, END = "<!-- commands: made by scripts.cli_reference -->", "<!-- end of the commands -->"
_PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
_COMMON = frozenset({*session.COMMON, "traceback", "help"})


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command as a person types it, with typer's command object."""
    root = typer.main.get_command(app.build())
    for name in lazy_groups.COMMAND_GROUPS:
        subcommand = root.get_command(None, name)  # type: ignore[attr-defined]
        inner = getattr(subcommand, "commands", None)
        if inner is None:
            yield f"kais {name}", subcommand
            continue
        yield from _nested(f"kais {name}", inner)


def _nested(group: str, inner: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for verb, command in inner.items():
        nested = getattr(command, "commands", None)
        if nested is None:
            yield f"{group} {verb}", command
        else:
            yield from _nested(f"{group} {verb}", nested)


def page(text: str) -> str:
    """Return the page with the commands between its marks."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{''.join(_sections())}\n{END}{tail}"


def _sections() -> Iterator[str]:
    group = ""
    for typed, command in commands():
        parts = typed.split()
        if parts[1] != group:
            group = parts[1]
            yield f"\n## `kais {group}`\n\n{lazy_groups.COMMAND_GROUPS[group].help}\n"
        yield "\n" + _section(typed, command)


def _section(typed: str, command: Any) -> str:
    arguments = "".join(f" {_argument(p)}" for p in command.params if _is_argument(p))
    parts = [f"### `{typed}{arguments}`\n\n{inspect.cleandoc(command.help or '')}\n"]
    rows = [_row(p) for p in command.params if _is_argument(p) or p.name not in _COMMON]
    if rows:
        parts += ["\n| | Meaning | Default |\n|---|---|---|\n", *rows]
    listed = [f"`{example}`" for example in examples.of_command(typed.removeprefix("kais "))]
    parts.append(f"\n{'Examples' if len(listed) > 1 else 'Example'}: {', '.join(listed)}\n")
    return "".join(parts)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _argument(parameter: Any) -> str:
    return parameter.metavar if parameter.required else f"[{parameter.metavar}]"


def _row(parameter: Any) -> str:
    if _is_argument(parameter):
        spelling = f"`{_argument(parameter)}`"
    else:
        spelled = [*parameter.opts, *parameter.secondary_opts]
        spelling = ", ".join(f"`{option}`" for option in sorted(spelled, key=len, reverse=True))
    return f"| {spelling} | {_meaning(parameter)} | {_default(parameter)} |\n"


def _meaning(parameter: Any) -> str:
    choices = completion_commands.choices(parameter)
    listed = f" One of {', '.join(choices)}." if choices else ""
    repeated = " May be repeated." if parameter.multiple and "repeat" not in parameter.help else ""
    return f"{parameter.help or ''}{listed}{repeated}".replace("|", "\\|")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default == "" or default is False or default == ():
        return ""
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{getattr(default, 'value', default)}`"


if __name__ == "__main__":
    reference = page(_PAGE.read_text(encoding="utf-8"))
    _PAGE.write_text(reference, encoding="utf-8")
    sys.stdout.write(f"{_PAGE.name}: {sum(1 for _ in commands())} commands\n")
