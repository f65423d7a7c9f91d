"""Converts pydantic's JSON Schema to the structural OpenAPI v3 schema of a CRD.

References are inlined. An optional field may be omitted, but is never null. A field without a type
is a free tree that the API server preserves. Pure: from models to dicts.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from kais.resources import pod_schema

Schema = dict[str, Any]
_FREE = "x-kubernetes-preserve-unknown-fields"
_SCHEMA_KEYS = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "x-kubernetes-int-or-string",
    _FREE,
)


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model, in the API's spelling."""
    schema = model.model_json_schema(by_alias=True)
    return _node(schema, schema.get("$defs", {}))


def _node(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    flat = _resolved(raw, defs)
    if pod_schema.MARK in flat:
        return {
            "description": flat.get("description", ""),
            **pod_schema.field_schema(flat[pod_schema.MARK]),
        }
    return _own_node(flat, defs)


def _own_node(flat: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    node = {key: flat[key] for key in _SCHEMA_KEYS if key in flat}
    if flat.get("default") is not None:
        node["default"] = flat["default"]
    if "exclusiveMinimum" in flat:
        node |= {"minimum": flat["exclusiveMinimum"], "exclusiveMinimum": True}
    if "properties" in flat:
        node["properties"] = {
            name: _node(child, defs) for name, child in flat["properties"].items()
        }
    if "items" in flat:
        node["items"] = _node(flat["items"], defs)
    additional = flat.get("additionalProperties")
    if isinstance(additional, Mapping):
        node["additionalProperties"] = _node(additional, defs)
    elif additional is True:
        node[_FREE] = True
    if "type" not in node and "x-kubernetes-int-or-string" not in node:
        node = {key: node[key] for key in ("description", "default") if key in node} | {_FREE: True}
    return node


def _resolved(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """Inline references and the one branch of an optional field; outer keys take precedence."""
    flat = dict(raw)
    while True:
        if "$ref" in flat:
            target = defs[flat.pop("$ref").rsplit("/", 1)[-1]]
            flat = {**target, **flat}
        elif "anyOf" in flat:
            branches = [b for b in flat.pop("anyOf") if b.get("type") != "null"]
            if len(branches) > 1:
                return {**flat, _FREE: True}
            rules = flat.get("x-kubernetes-validations", [])
            flat = {**branches[0], **flat}
            if rules and "x-kubernetes-validations" in branches[0]:
                flat["x-kubernetes-validations"] = [
                    *branches[0]["x-kubernetes-validations"],
                    *rules,
                ]
        else:
            return flat
