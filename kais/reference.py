"""The reference pages of the kinds, docs/reference/kinds/*.md, made from the CRDs that we generate.

`python -m kais.reference` writes them; a test fails on drift.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kais import crds
from kais.resources import kinds
from kais.resources.base import Resource

FOLDER = "docs/reference/kinds"
_HEAD = "<!-- made by kais.reference from kais/resources; `make reference` writes it anew -->\n"
_SHOWN = 40  # characters of a default; longer ones are objects that say themselves below
_BOUNDS = (
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
    ("minLength", "≥ {} characters"),
    ("maxLength", "≤ {} characters"),
    ("minItems", "≥ {} items"),
    ("maxItems", "≤ {} items"),
    ("maxProperties", "≤ {} members"),
    ("pattern", "matches `{}`"),
)


def files() -> dict[str, str]:
    """Give every page: path below the project's root → text."""
    pages = {f"{FOLDER}/{name.lower()}.md": page(kind) for name, kind in kinds.BY_NAME.items()}
    return pages | {f"{FOLDER}/README.md": _index()}


def page(kind: type[Resource]) -> str:
    """Write the page of one kind: columns, fields of spec and status, and what apply refuses."""
    names = crds.definition(kind)["spec"]["names"]
    version = crds.definition(kind)["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    parts = [
        f"# {names['kind']}\n\n{_HEAD}\n{root['description']}\n\n",
        f"`apiVersion: kais.io/v1`, `kind: {names['kind']}`; `kubectl get {names['plural']}`,",
        f" short `{names['shortNames'][0]}`.\n\n## Columns\n\n| Column | Shows |\n|---|---|\n",
    ]
    parts += [
        f"| {column['name'].upper()} | {_cell(column.get('description', ''))} |\n"
        for column in version.get("additionalPrinterColumns", [])
    ]
    for half in ("spec", "status"):
        if half in root["properties"]:
            parts += [f"\n## `{half}`\n\n", _table(half, root["properties"][half])]
    rules = list(_rules("", root))
    if rules:
        parts.append(
            "\n## What apply refuses\n\n| Where | Unless this holds | It says |\n|---|---|---|\n"
        )
        parts += [f"| `{path}` | `{_cell(rule)}` | {_cell(said)} |\n" for path, rule, said in rules]
    return "".join(parts)


def _index() -> str:
    rows = "".join(
        f"| [{name}]({name.lower()}.md) | {_cell(str(kind.DESCRIPTION))} |\n"
        for name, kind in kinds.BY_NAME.items()
    )
    return f"# The kinds\n\n{_HEAD}\n| Kind | What it is |\n|---|---|\n{rows}"


def _table(name: str, schema: Mapping[str, Any]) -> str:
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows(name, schema))
    return f"| Field | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n{rows}"


def _rows(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    needed = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        default = "required" if name in needed else _default(child)
        meaning = _cell(child.get("description", ""))
        yield f"`{below}`", _type(child), default, _bounds(child), meaning
        yield from _rows(below, child)
        if "items" in child:
            yield from _rows(f"{below}[]", child["items"])
        if isinstance(child.get("additionalProperties"), dict):
            yield from _rows(f"{below}.*", child["additionalProperties"])


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object" and schema.get("x-kubernetes-preserve-unknown-fields"):
        return "object, free"
    return kind


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return ""
    text = json.dumps(schema["default"], ensure_ascii=False)
    return f"`{_cell(text)}`" if len(text) <= _SHOWN else ""


def _bounds(schema: Mapping[str, Any]) -> str:
    said = [words.format(_cell(str(schema[key]))) for key, words in _BOUNDS if key in schema]
    if "enum" in schema:
        said.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    return ", ".join(said)


def _rules(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path or "(the object)", rule["rule"], rule.get("message", "")
    for name, child in schema.get("properties", {}).items():
        yield from _rules(f"{path}.{name}".lstrip("."), child)
    if "items" in schema:
        yield from _rules(f"{path}[]", schema["items"])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the pages; returns the exit status."""
    root = Path(__file__).parent.parent
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
