"""The formats of `-o`: tables for people, JSON and YAML for programs, names for pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kais_cli.views import model_trees, text_layout

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


def dump(value: Any, form: Format) -> str:
    """Format a tree as JSON if `form` is JSON, otherwise as YAML; keeps the order of keys.

    Models in the tree are written with names of fields in camelCase, as Kubernetes does.
    """
    tree = model_trees.to_tree(value)
    if form is Format.JSON:
        return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    import yaml  # noqa: PLC0415 (only this form needs it)

    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
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


def dump_object(body: Body, form: Format) -> str:
    """Format one object for programs."""
    if form is Format.NAME:
        return format_names([body], kind=body["kind"])
    return dump(without_managed_fields(body), form)


def json_line(value: Any) -> str:
    """Format a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
