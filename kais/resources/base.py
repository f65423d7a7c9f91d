"""The base of all seven kinds: model configuration, metadata, conditions, and conversion to dicts.

The API server prunes unknown fields, so reading ignores them. Writing omits unset fields, because
explicit nulls are rejected. The rules that CEL checks are in the `RULES` of their model, in CEL
and in Python, so that a rendered template is checked before its first write.
"""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic
from pydantic import ConfigDict, Field, GetJsonSchemaHandler, SerializerFunctionWrapHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kais.errors import InvalidResource, Violation
from kais.resources import pod_schema
from kais.resources.field_types import Int, Timestamp

API_GROUP = "kais.io"
API_VERSION = "kais.io/v1"


@dataclass(frozen=True)
class Rule:
    """One rule over the fields of a model.

    Attributes:
        cel: The rule as the API server evaluates it; with `oldSelf` it is a rule about changes.
        message: The message for the user, the same in both checks.
        check: The same rule in Python. None for a rule about changes, and for a limit that objects
            stored before it may exceed: those stay readable, and a condition names the limit.
    """

    cel: str
    message: str
    check: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`; with a priority above 0 it is shown only with `-o wide`."""

    name: str
    type: Literal["string", "integer", "date"]
    json_path: str
    description: str
    priority: int = 0


def reason_column() -> Column:
    """Return the column with the reason of the condition Ready."""
    path = '.status.conditions[?(@.type=="Ready")].reason'
    return Column("Reason", "string", path, "Reason of the condition Ready.")


def message_column() -> Column:
    """Return the column of `-o wide` with the message of the condition Ready."""
    path = '.status.conditions[?(@.type=="Ready")].message'
    return Column("Message", "string", path, "Message of the condition Ready.", priority=1)


class Model(pydantic.BaseModel):
    """A part of a resource: camelCase in the API, snake_case in Python, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_enum_values=False,
        defer_build=True,
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()

    @pydantic.model_validator(mode="after")
    def _obeys_rules(self) -> Self:
        if not self.RULES and not _list_maps(type(self)):
            return self  # most models, and an instance has many
        broken = [r.message for r in self.RULES if r.check is not None and not r.check(self)]
        broken += _duplicates(self)
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.RULES:
            rules = [{"rule": rule.cel, "message": rule.message} for rule in cls.RULES]
            schema["x-kubernetes-validations"] = rules
        return schema

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read a dict in the API's spelling (only camelCase).

        Raises:
            InvalidResource: The dict is invalid; contains all violations.
        """
        try:
            return cls.model_validate(data, by_alias=True, by_name=False)
        except pydantic.ValidationError as exc:
            raise InvalidResource(_subject(cls, data), violations(exc)) from exc

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the API's spelling, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@functools.cache
def _list_maps(model: type[Model]) -> dict[str, str]:
    """Return the fields that are list maps in the API, each with its key."""
    keys_by_field = {}
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        keys = extra.get("x-kubernetes-list-map-keys") if isinstance(extra, dict) else None
        if isinstance(keys, list):
            keys_by_field[name] = str(keys[0])
    return keys_by_field


@functools.cache
def _attributes(model: type[Model]) -> dict[str, str]:
    """Return the Python name of each field by its name in the API."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _duplicates(model: Model) -> Iterator[str]:
    for field, wire in _list_maps(type(model)).items():
        positions: dict[Any, int] = {}
        for index, item in enumerate(getattr(model, field)):
            kind: type[Model] = type(item)
            value = getattr(item, _attributes(kind)[wire])
            first = positions.setdefault(value, index)
            if first != index:
                name = type(model).model_fields[field].alias or field
                yield f'{name}[{index}]: {wire} "{value}" is a duplicate of {name}[{first}]'


def violations(error: pydantic.ValidationError) -> list[Violation]:
    """Convert pydantic's errors to violations in the API's spelling, one for each broken rule."""
    return [v for detail in error.errors(include_url=False) for v in _violations_of(detail)]


def _violations_of(detail: Any) -> list[Violation]:
    violation = _violation(detail)
    error = (detail.get("ctx") or {}).get("error")
    if not isinstance(error, pod_schema.InvalidTree):
        return [violation]
    return [Violation(f"{violation.path}{below.path}", below.message) for below in error.violations]


def _violation(detail: Any) -> Violation:
    path = ""
    for step in detail["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f"{'.' if path else ''}{step}"
    if detail["type"] == "missing":
        return Violation(path, "is required")
    message = str(detail["msg"])
    if detail["type"] == "value_error":
        return Violation(path, message.removeprefix("Value error, "))
    value = detail["input"]
    if detail["type"] == "string_too_long":
        limit = detail["ctx"]["max_length"]
        return Violation(path, f"has {len(value):,} characters; the maximum is {limit:,}")
    if detail["type"] == "string_type" and isinstance(value, bool | int | float):
        text = json.dumps(value)
        remedy = f'write "{text}"'
        if isinstance(value, bool):
            remedy = f"put it in quotes (YAML reads {_SPELLINGS[value]} as {text})"
        return Violation(
            path, f"must be text, got {text}; {remedy}, or {{{{ … | string }}}} in a template"
        )
    advice = _ADVICE.get(detail["type"], "")
    return Violation(path, f"{message[0].lower()}{message[1:]}, got {_excerpt(value)}{advice}")


_SPELLINGS = {True: "y, yes and on", False: "n, no and off"}
"""The words that YAML 1.1, which Kubernetes reads, parses as booleans."""
_ADVICE = {
    "int_parsing": "; write a whole number without quotes, such as 3",
    "int_type": "; write a whole number without quotes, such as 3",
    "int_from_float": "; write a whole number, such as 3",
    "float_parsing": "; write a number without quotes, such as 0.5",
    "float_type": "; write a number without quotes, such as 0.5",
    "bool_parsing": "; write true or false without quotes",
    "bool_type": "; write true or false without quotes",
    "dict_type": "; write `field: value` lines below it",
    "model_type": "; write `field: value` lines below it",
    "list_type": "; write items that begin with `- `",
}
"""Advice by pydantic's type of an error."""


def _excerpt(value: Any, *, limit: int = 80) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _subject(cls: type[Model], data: Mapping[str, Any]) -> str:
    if not issubclass(cls, Resource):
        return cls.__name__
    metadata = data.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    return f"{cls.__name__}/{names.get('namespace', '')}/{names.get('name', '')}"


class OwnerReference(Model):
    """The owner of a child; the garbage collector deletes the child with it."""

    api_version: str = Field(description="API group and version of the owner.")
    kind: str = Field(description="Kind of the owner.")
    name: str = Field(description="Name of the owner, in the same namespace.")
    uid: str = Field(
        description=(
            "UID of the owner. An object created later under the same name has another UID."
        )
    )
    controller: bool | None = Field(
        default=None, description="Whether this owner is the managing controller."
    )
    block_owner_deletion: bool | None = Field(
        default=None,
        description=("If true, foreground deletion of the owner waits until this object is gone."),
    )


class ObjectMeta(Model):
    """The part of an object's metadata that kais reads or writes."""

    name: str = Field(
        default="", description="Name of the object, unique for its kind within the namespace."
    )
    namespace: str = Field(
        default="", description="Namespace of the object; kais treats each namespace as a realm."
    )
    uid: str = Field(default="", description="Unique identifier of the object, never reused.")
    resource_version: str = Field(default="", description="Opaque version of the stored object.")
    generation: Int = Field(default=0, description="Sequence number of the spec.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels for selection.")
    annotations: dict[str, str] = Field(
        default_factory=dict,
        description="Annotations, including commands to the operator and its records.",
    )
    owner_references: list[OwnerReference] = Field(
        default_factory=list,
        description="Owners of this object; the garbage collector deletes it with them.",
    )
    finalizers: list[str] = Field(
        default_factory=list,
        description="Finalizers that must be removed before the object is deleted.",
    )
    creation_timestamp: Timestamp | None = Field(
        default=None, description="When the object was created."
    )
    deletion_timestamp: Timestamp | None = Field(
        default=None,
        description="When deletion was requested; set while the object is being deleted.",
    )

    @pydantic.model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value}

    @property
    def controller_uid(self) -> str | None:
        """UID of the controller owner, None when there is none."""
        return next((owner.uid for owner in self.owner_references if owner.controller), None)


class Condition(Model):
    """One fact about an object, positive when True."""

    type: Annotated[str, Field(max_length=63)] = Field(
        description="Type of the condition; unique in the list."
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="True, False, or Unknown if the operator cannot decide."
    )
    observed_generation: Int = Field(
        default=0, ge=0, description="Generation of the spec that the condition describes."
    )
    last_transition_time: Timestamp = Field(description="When the status last changed.")
    reason: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Documented reason in CamelCase, for programs."
    )
    message: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="Explanation and next step, for people."
    )


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
]


class Status(Model):
    """The observed state of an object; each reconcile computes it completely."""

    observed_generation: Int | None = Field(
        default=None, ge=0, description="Generation of the spec that the status describes."
    )
    conditions: Conditions = Field(
        default_factory=list, description="Conditions of the object; the last one is the summary."
    )


class Resource(Model):
    """An object of the API group `kais.io`; each kind declares its spec and status models."""

    PLURAL: ClassVar[str] = ""
    SHORT_NAME: ClassVar[str] = ""
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    SELECTABLE: ClassVar[tuple[str, ...]] = ()
    DESCRIPTION: ClassVar[str] = ""

    api_version: str = Field(default=API_VERSION, description="API group and version.")
    kind: str = Field(default="", description="Kind of the object.")
    metadata: ObjectMeta = Field(
        default_factory=ObjectMeta, description="Standard object metadata."
    )
    spec: Model = Field(description="Desired state.")
    status: Status = Field(default_factory=Status, description="Observed state.")

    def model_post_init(self, context: Any, /) -> None:
        """Set the kind, so that an object created in code can be written unchanged."""
        if not self.kind:
            object.__setattr__(self, "kind", type(self).__name__)

    @property
    def ref(self) -> str:
        """The object as messages refer to it: `kind/namespace/name`."""
        return f"{self.kind}/{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_deleting(self) -> bool:
        """Whether the deletion of the object was requested."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type; None if it is not reported."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether the condition is True and describes the present generation."""
        condition = self.condition(type_)
        return (
            condition is not None
            and condition.status == "True"
            and condition.observed_generation == self.metadata.generation
        )
