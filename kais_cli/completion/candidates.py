"""Computes the candidates for the word at the cursor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from kais_cli.completion.command_line import CommandLine, find_option, parse

_PLURALS = {
    "blueprint": "blueprints",
    "instance": "blueprintinstances",
    "formation": "formations",
    "cell": "cells",
    "mission": "missions",
}
"""The resource that the argument NAME of each group names."""


@dataclass(frozen=True)
class Candidate:
    """A possible word at the cursor, and its help."""

    value: str
    help: str = ""


class Sources(Protocol):
    """Reads names from a cluster and a kubeconfig; results are empty if they cannot be read."""

    def objects(self, plural: str, namespace: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the objects of a resource, in the namespace of the context if it is None."""
        ...

    def namespaces(self) -> Sequence[str]:
        """Return the names of the namespaces."""
        ...

    def contexts(self) -> Sequence[str]:
        """Return the names of the contexts of the kubeconfig."""
        ...


@cache
def command_tree() -> dict[str, Any]:
    """Return the commands with their options and arguments."""
    path = Path(__file__).with_name("commands.json")
    tree: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return tree


def complete(words: Sequence[str], incomplete: str, sources: Sources) -> list[Candidate]:
    """Return the candidates for an incomplete word; `words` precede it, without `kais`.

    A value that cannot be printed, such as one with a line break, is left out.
    """
    tree = command_tree()
    line = parse(tree, words)
    prefix = ""
    if line.option is None and incomplete.startswith("--") and "=" in incomplete:
        name, _, _ = incomplete.partition("=")
        option = find_option(tree, line.node, name)
        candidates: Iterator[Candidate] = iter(())
        if option is not None:
            prefix = f"{name}="
            candidates = _values_of(option, line, incomplete.removeprefix(prefix), sources)
    elif line.option is not None:
        candidates = _values_of(line.option, line, incomplete, sources)
    elif incomplete.startswith("-"):
        candidates = _options(tree, line)
    elif "commands" in line.node:
        candidates = _commands(line.node)
    else:
        candidates = _argument_values(tree, line, sources)
    completed = [Candidate(prefix + c.value, c.help) for c in candidates]
    return [c for c in completed if c.value.startswith(incomplete) and c.value.isprintable()]


def _commands(node: Mapping[str, Any]) -> Iterator[Candidate]:
    for name, entry in node["commands"].items():
        yield Candidate(name, entry["help"])


def _options(tree: Mapping[str, Any], line: CommandLine) -> Iterator[Candidate]:
    options = line.node.get("options", tree["options"])
    for option in options:
        if option["names"][0] not in line.values or option["repeats"]:
            yield from (Candidate(n, option["help"]) for n in option["names"] if n.startswith("--"))


def _argument_values(
    tree: Mapping[str, Any], line: CommandLine, sources: Sources
) -> Iterator[Candidate]:
    declared = line.node.get("arguments", [])
    if len(line.arguments) >= len(declared) and not (declared and declared[-1]["repeats"]):
        return
    argument = declared[min(len(line.arguments), len(declared) - 1)]
    if line.path == ("help",):
        yield from _commands(parse(tree, line.arguments).node if line.arguments else tree)
    elif argument["values"]:
        yield from (Candidate(value) for value in argument["values"])
    elif argument["name"] in ("name", line.path[0]) and line.path[0] in _PLURALS:
        yield from _names(sources, _PLURALS[line.path[0]], line)


def _values_of(
    option: Mapping[str, Any], line: CommandLine, incomplete: str, sources: Sources
) -> Iterator[Candidate]:
    name = option["names"][0]
    if option["values"]:
        yield from (Candidate(value) for value in option["values"])
    elif name == "--namespace":
        yield from (Candidate(value) for value in sources.namespaces())
    elif name == "--context":
        yield from (Candidate(value) for value in sources.contexts())
    elif name == "--scope":
        yield from _names(sources, "blueprints", line)
    elif name in ("--set", "--set-file"):
        typed = [*line.values.get("--set", ()), *line.values.get("--set-file", ())]
        candidates = _parameters(_blueprint(line, sources), incomplete, typed)
        # After the equals sign of --set-file follows a file, not a value that is declared.
        yield from (c for c in candidates if name == "--set" or c.value.endswith("="))
    elif name in ("--revision", "--to"):
        versions = _blueprint(line, sources).get("status", {}).get("versions") or []
        yield from (
            Candidate(str(version["version"]), str(version.get("changes", "")))
            for version in versions
        )


def _names(sources: Sources, plural: str, line: CommandLine) -> Iterator[Candidate]:
    for body in sources.objects(plural, line.value("--namespace")):
        spec = body.get("spec", {})
        yield Candidate(body["metadata"]["name"], spec.get("description") or "")


def _blueprint(line: CommandLine, sources: Sources) -> Mapping[str, Any]:
    """Return the Blueprint that the command names; empty if there is none."""
    if not line.arguments or line.path[0] != "blueprint":
        return {}
    name = line.arguments[0].rpartition("/")[2]
    bodies = sources.objects("blueprints", line.value("--namespace"))
    return next((body for body in bodies if body["metadata"]["name"] == name), {})


def _parameters(
    blueprint: Mapping[str, Any], incomplete: str, typed: Sequence[str]
) -> Iterator[Candidate]:
    """Yield `NAME=`, or after the equals sign the values that a parameter declares."""
    parameters = blueprint.get("spec", {}).get("parameters") or []
    name, equals, _ = incomplete.partition("=")
    if not equals:
        names = {value.partition("=")[0] for value in typed}
        for parameter in parameters:
            if parameter["name"] not in names:
                yield Candidate(f"{parameter['name']}=", parameter.get("description") or "")
        return
    declared = next((p for p in parameters if p["name"] == name), None)
    for value in dict.fromkeys(_declared_values(declared) if declared else ()):
        yield Candidate(f"{name}={value}")


def _declared_values(parameter: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of an enumeration or a boolean, otherwise default and example."""
    values = parameter.get("values") or []
    if parameter.get("type") == "boolean":
        values = [True, False]
    if not values:
        values = [parameter[key] for key in ("default", "example") if key in parameter]
    yield from (value if isinstance(value, str) else json.dumps(value) for value in values)
