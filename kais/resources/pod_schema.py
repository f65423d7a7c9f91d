"""The schema of the pod fields of cells, taken from Kubernetes, and its validation.

`pod_schema.json` is an extract of the pinned Kubernetes version; `scripts/extract_pod_schema.py`
writes it. The CRDs contain the schema without descriptions, with bounds for lists and texts. The
same schema validates what a template renders, before anything is written. Values that only the API
server knows, such as the policies of a list, are left to it.
"""

import difflib
import functools
import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from kais.errors import Violation

MARK = "x-kais-pod-field"
"""Key of a JSON Schema that names a field of the extract: `container.resources`."""
MAX_ITEMS = 256
MAX_CHARACTERS = 4096
MAX_TEXT_CHARACTERS = 65_536
_TEXTS = frozenset({"value", "command", "args"})
"""Fields that may contain a script or a document."""
NO_HOST_PATH = (
    "hostPath gives a cell the files of its node, and is not allowed: mount a "
    "persistentVolumeClaim, configMap, secret or emptyDir instead"
)
_RULES: Mapping[str, list[dict[str, str]]] = {
    "Volume": [{"rule": "!has(self.hostPath)", "message": NO_HOST_PATH}],
}
"""Rules of kais on types of Kubernetes."""
_JSON_TYPES: Mapping[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "number": (float, "a number"),
}
Schema = dict[str, Any]


class InvalidTree(ValueError):
    """A tree breaks its schema; contains all violations, with paths relative to the tree."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("; ".join(str(violation) for violation in violations))


@functools.cache
def _extract() -> Schema:
    text = importlib.resources.files("kais.resources").joinpath("pod_schema.json").read_text()
    extract: Schema = json.loads(text)
    return extract


def kubernetes_version() -> str:
    """Return the Kubernetes version that the schema was taken from, such as `v1.36.3`."""
    return str(_extract()["version"])


@functools.cache
def field_schema(field: str) -> Schema:
    """Return the structural schema of a field, such as `pod.volumes`, with references inlined."""
    part, _, name = field.partition(".")
    return _inlined(_extract()[part][name], name)


def is_from_kubernetes(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a field of a CRD is taken from Kubernetes, by its name and schema."""
    bare = {key: value for key, value in schema.items() if key != "description"}
    parts = [part for part in ("container", "pod") if name in _extract()[part]]
    return any(bare == field_schema(f"{part}.{name}") for part in parts)


def list_map_keys(name: str) -> tuple[str, ...]:
    """Return the keys by which Kubernetes merges a list of a pod or container; empty for none."""
    fields = {**_extract()["container"], **_extract()["pod"]}
    return tuple(fields.get(name, {}).get("x-kubernetes-list-map-keys", ()))


def _inlined(raw: Mapping[str, Any], name: str) -> Schema:
    if "$ref" in raw:
        definition = _inlined(_extract()["definitions"][raw["$ref"]], name)
        rules = _RULES.get(raw["$ref"])
        return {**definition, "x-kubernetes-validations": rules} if rules else definition
    node = dict(raw)
    if "properties" in raw:
        node["properties"] = {key: _inlined(child, key) for key, child in raw["properties"].items()}
    if "items" in raw:
        node |= {"items": _inlined(raw["items"], name), "maxItems": MAX_ITEMS}
    if "additionalProperties" in raw:
        node |= {
            "additionalProperties": _inlined(raw["additionalProperties"], name),
            "maxProperties": MAX_ITEMS,
        }
    if node.get("type") == "string" and "format" not in node:
        node["maxLength"] = MAX_TEXT_CHARACTERS if name in _TEXTS else MAX_CHARACTERS
    return node


@dataclass(frozen=True)
class PodField:
    """Marks the type of a field of a model as that of a field of Kubernetes: `pod.volumes`."""

    field: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate values by the schema of Kubernetes."""
        return core_schema.no_info_after_validator_function(self._validated, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return only a mark: the schema is inlined when a CRD is written."""
        return {MARK: self.field}

    def _validated(self, value: Any) -> Any:
        problems = list(violations(field_schema(self.field), value))
        if problems:
            raise InvalidTree(problems)
        return value


def violations(schema: Mapping[str, Any], tree: Any, path: str = "") -> Iterator[Violation]:
    """Yield where a tree differs from its schema: unknown fields, types, keys and bounds."""
    if schema.get("x-kubernetes-int-or-string"):
        yield from _number_or_text_violations(schema, tree, path)
        return
    expected, name = _JSON_TYPES[schema["type"]]
    is_number = isinstance(tree, bool) and expected is not bool
    if not isinstance(tree, expected) or is_number:
        yield Violation(path, f"must be {name}, got {_excerpt(tree)}")
    elif isinstance(tree, dict):
        yield from _object_violations(schema, tree, path)
    elif isinstance(tree, list):
        yield from _list_violations(schema, tree, path)
    elif isinstance(tree, str) and len(tree) > schema.get("maxLength", len(tree)):
        yield Violation(path, f"may have {schema['maxLength']} characters, got {len(tree)}")


def _number_or_text_violations(
    schema: Mapping[str, Any], value: Any, path: str
) -> Iterator[Violation]:
    if isinstance(value, bool) or not isinstance(value, int | str):
        yield Violation(path, f"must be text or a whole number, got {_excerpt(value)}")
    elif "pattern" in schema and not re.search(schema["pattern"], str(value)):
        yield Violation(path, f"must be a quantity such as 500m, 2 or 256Mi, got {_excerpt(value)}")


def _object_violations(
    schema: Mapping[str, Any], tree: Mapping[str, Any], path: str
) -> Iterator[Violation]:
    if "additionalProperties" in schema:
        for key, child in tree.items():
            yield from violations(schema["additionalProperties"], child, f"{path}[{key}]")
        return
    properties = schema["properties"]
    for key, child in tree.items():
        if key in properties:
            yield from violations(properties[key], child, f"{path}.{key}")
            continue
        matches = difflib.get_close_matches(str(key), properties, n=1)
        hint = f"; did you mean {matches[0]}?" if matches else ""
        yield Violation(f"{path}.{key}", f"is not a field that a cell may set{hint}")
    for key in schema.get("required", ()):
        if key not in tree and "default" not in properties[key]:
            yield Violation(f"{path}.{key}", "is required")


def _list_violations(schema: Mapping[str, Any], tree: list[Any], path: str) -> Iterator[Violation]:
    if len(tree) > schema["maxItems"]:
        yield Violation(path, f"may have {schema['maxItems']} items, got {len(tree)}")
    for index, item in enumerate(tree):
        yield from violations(schema["items"], item, f"{path}[{index}]")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    previous_keys: set[tuple[Any, ...]] = set()
    for index, item in enumerate(tree):
        if not keys or not isinstance(item, dict):
            continue
        identity = tuple(str(item.get(key, _default_of(schema, key))) for key in keys)
        if identity in previous_keys:
            names = " and ".join(
                f'{key} "{value}"' for key, value in zip(keys, identity, strict=True)
            )
            yield Violation(f"{path}[{index}]", f"{names} is a duplicate")
        previous_keys.add(identity)


def _default_of(schema: Mapping[str, Any], key: str) -> Any:
    return schema["items"]["properties"][key].get("default")


def _excerpt(value: Any, *, limit: int = 80) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
