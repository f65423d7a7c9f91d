"""Strict types of fields: "3" is not an integer, although pydantic would convert it.

Each type carries the bounds that the API server needs to estimate the cost of rules.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, Strict, WithJsonSchema

from kais import durations

Tree = dict[str, Any]
"""A free JSON object: the API server keeps it as it is."""


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone, for example 2030-01-31T12:00:00Z")
    return value.astimezone(UTC)


def rfc3339(value: datetime) -> str:
    """Format a time as Kubernetes does: in UTC, with whole seconds and `Z`."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_QUANTITY = re.compile(r"^(\d+(\.\d+)?|\.\d+)([munkMGTPE]|[KMGTPE]i|[eE]\d+)?$")


def _quantity(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and _QUANTITY.match(value):
        return value
    raise ValueError(f"a quantity such as 500m, 2 or 256Mi is needed, got {value!r}")


def _int_or_text(value: Any) -> int | str:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise ValueError(f"text or a whole number is needed, got {value!r}")


def _duration(value: str) -> str:
    durations.parse(value)
    return value


Int = Annotated[int, Strict()]
Bool = Annotated[bool, Strict()]
Number = Annotated[float, Strict()]
Cost = Annotated[float, Strict(), Field(ge=0)]
Share = Annotated[float, Strict(), Field(ge=0, le=1)]
Timestamp = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Reference = Annotated[
    str,
    Field(min_length=1, max_length=253),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        }
    ),
]
"""The name of another object.

The API server rejects texts that cannot be a name. A value that was stored before this rule can
still be read, and is treated as the name of a missing object.
"""
Label = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
"""A DNS label: it becomes part of the names of pods and services."""
Segment = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
"""One name in the path of a scope: a Kubernetes object's name."""
Line = Annotated[str, Field(max_length=1024)]
Text = Annotated[str, Field(max_length=65536)]
Duration = Annotated[
    str,
    Field(max_length=32),
    AfterValidator(_duration),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [{"rule": durations.CEL, "message": durations.MESSAGE}],
        }
    ),
]
IntOrText = Annotated[
    int | str,
    PlainValidator(_int_or_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": 1024}),
]
Quantity = Annotated[
    int | str,
    PlainValidator(_quantity),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "maxLength": 32, "pattern": _QUANTITY.pattern}
    ),
]
