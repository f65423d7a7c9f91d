"""The formats of `-o`: tables for people, JSON and YAML for programs, names for pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from kais_cli import argument_parsing
from kais_cli.views import jsonpath, model_trees, text_layout

if TYPE_CHECKING:
    from kais_cli.ports import Body


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Listing(StrEnum):
    """The values of `-o` for lists that have more columns than fit a terminal."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


_JSONPATH = "jsonpath="
_RECURSION = 10_000  # calls; a parsed tree has less than a thousand levels
F = TypeVar("F", bound=StrEnum)

OBJECT_FORMATS = f"{'|'.join(Format)}|{_JSONPATH}TEMPLATE"
LIST_FORMATS = f"{'|'.join(Listing)}|{_JSONPATH}TEMPLATE"
"""The formats of commands about objects, as their help shows them."""


def parse_object_format(argument: str) -> Format | jsonpath.Template:
    """Parse the `-o` of a command that shows one object.

    Raises:
        UsageError: There is no such format, or the template cannot be read.
    """
    return _parse_format(argument, Format, OBJECT_FORMATS)


def parse_list_format(argument: str) -> Listing | jsonpath.Template:
    """Parse the `-o` of a list of objects.

    Raises:
        UsageError: There is no such format, or the template cannot be read.
    """
    return _parse_format(argument, Listing, LIST_FORMATS)


def _parse_format(argument: str, forms: type[F], choices: str) -> F | jsonpath.Template:
    if argument.startswith(_JSONPATH):
        return jsonpath.parse(argument.removeprefix(_JSONPATH))
    argument_parsing.parse_choice(argument, choices.split("|"), option="-o")
    return forms(argument)


def dump(value: Any, form: Format) -> str:
    """Format a tree as JSON if `form` is JSON, otherwise as YAML; keeps the order of keys.

    Models in the tree are written with names of fields in camelCase, as Kubernetes does.
    """
    with _deep_trees():
        tree = model_trees.to_tree(value)
        if form is Format.JSON:
            return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
        return _dump_yaml(tree)


@contextmanager
def _deep_trees() -> Iterator[None]:
    """Write whatever the parser reads: both encoders call several functions for each level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _dump_yaml(tree: Any) -> str:
    import yaml  # noqa: PLC0415 (only this form needs it)

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks, as people do in manifests."""

    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    text = yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    if text_layout.is_printable(text):
        return text
    # Control characters would reach the terminal. YAML's own escapes keep the text the same for
    # parsers, which `text_layout.escape_control_characters` would not.
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=False, width=100)


def without_managed_fields(body: Body) -> Body:
    """Return an object without its managed fields."""
    metadata = {k: v for k, v in body.get("metadata", {}).items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def format_names(bodies: Iterable[Body], *, kind: str) -> str:
    """Format one name per line, such as `mission.kais.io/m`, as `kubectl get -o name` does."""
    return "".join(f"{kind.lower()}.kais.io/{body['metadata']['name']}\n" for body in bodies)


def dump_object(body: Body, form: Format | jsonpath.Template) -> str:
    """Format one object for programs."""
    if form is Format.NAME:
        return format_names([body], kind=body["kind"])
    if isinstance(form, jsonpath.Template):
        return form.format(without_managed_fields(body))
    return dump(without_managed_fields(body), form)


def dump_list(bodies: Iterable[Body], form: Listing | jsonpath.Template) -> str:
    """Format objects for programs, as a List of Kubernetes, which `kubectl apply -f -` reads."""
    items = [without_managed_fields(body) for body in bodies]
    tree = {"apiVersion": "v1", "kind": "List", "items": items}
    return form.format(tree) if isinstance(form, jsonpath.Template) else dump(tree, Format(form))


def json_line(value: Any) -> str:
    """Format a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
