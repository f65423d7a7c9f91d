"""The lines of a memory file: one entity or relation in JSON on each.

The format is that of server-memory and coaia-memory. An entity has a name, a type, observations and
perhaps metadata; a relation has two names, a type, and perhaps metadata with its strength.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from knowledge_client.models import GraphEntity, GraphEntityIn, GraphRelation, GraphRelationIn

T = TypeVar("T")
_MAX_OBSERVATIONS = 100  # the most that the service creates with an entity
# The service reads a MiB; name, type and metadata of at most 64 KiB have to fit as well.
_MAX_PORTION_BYTES = 768 << 10
_MAX_METADATA = 1 << 20  # characters; the service would not read them
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ENTITY_FIELDS = frozenset({"type", "name", "entityType", "observations", "metadata"})
_RELATION_FIELDS = frozenset({"type", "from", "to", "relationType", "metadata"})


class NotARecord(Exception):
    """A line is neither an entity nor a relation; the message says why."""


def parse_line(data: bytes) -> dict[str, Any] | None:
    """Parse a line; None if it is blank or a comment.

    Raises:
        NotARecord: the line is not a JSON object with a type.
    """
    text = data.strip()
    if not text or text.startswith(b"#"):
        return None
    try:
        tree = json.loads(text)
    except RecursionError:
        raise NotARecord("is nested too deeply") from None
    except ValueError as exc:
        raise NotARecord(f"is not JSON ({exc})") from exc
    if not isinstance(tree, dict):
        raise NotARecord("is not a JSON object")
    if tree.get("type") not in ("entity", "relation"):
        raise NotARecord('has no "type" that is entity or relation')
    return tree


def to_entity(tree: Mapping[str, Any]) -> tuple[GraphEntityIn, tuple[str, ...]]:
    """Return the entity of a line, and the observations that have to be added afterwards.

    Fields that the format does not have are kept in the metadata.

    Raises:
        NotARecord: the metadata is too long, or cannot be sent.
        ValidationError: a field is missing or invalid.
    """
    observations = tree.get("observations") or ()
    first, rest = observations, ()
    if isinstance(observations, list):
        first = next(portions(observations))
        rest = tuple(observations[len(first) :])
    fields = {
        "name": tree.get("name"),
        "entity_type": tree.get("entityType"),
        "observations": first,
        "metadata": _metadata(tree, _ENTITY_FIELDS),
    }
    return GraphEntityIn.model_validate(fields), rest


def portions(observations: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield observations in portions, each of which the service creates in one call."""
    return batches(observations, most=_MAX_OBSERVATIONS, most_bytes=_MAX_PORTION_BYTES, dump=_json)


def batches(
    items: Iterable[T], *, most: int, most_bytes: int, dump: Callable[[T], str]
) -> Iterator[tuple[T, ...]]:
    """Yield items in batches of a number and size; an item that is larger is a batch of its own."""
    batch: list[T] = []
    size = 0
    for item in items:
        item_bytes = len(dump(item).encode("utf-8", "surrogatepass"))
        if batch and (len(batch) == most or size + item_bytes > most_bytes):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(item)
        size += item_bytes
    if batch:
        yield tuple(batch)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def to_relation(tree: Mapping[str, Any]) -> GraphRelationIn:
    """Return the relation of a line.

    Raises:
        NotARecord: the metadata is too long, or cannot be sent.
        ValidationError: a field is missing or invalid.
    """
    metadata = _metadata(tree, _RELATION_FIELDS)
    strength = metadata.get("strength") if isinstance(metadata, dict) else None
    is_number = isinstance(strength, int | float) and not isinstance(strength, bool)
    fields = {
        "from": tree.get("from"),
        "to": tree.get("to"),
        "relation_type": tree.get("relationType"),
        "strength": strength if is_number else None,
        "metadata": metadata,
    }
    return GraphRelationIn.model_validate(fields)


def format_entity(entity: GraphEntity | GraphEntityIn, observations: tuple[str, ...]) -> str:
    """Format an entity as a line."""
    tree: dict[str, Any] = {
        "type": "entity",
        "name": entity.name,
        "entityType": entity.entity_type,
        "observations": list(observations),
    }
    if entity.metadata is not None:
        tree["metadata"] = entity.metadata
    return _dump(tree)


def format_relation(relation: GraphRelation | GraphRelationIn) -> str:
    """Format a relation as a line."""
    tree: dict[str, Any] = {
        "type": "relation",
        "from": relation.from_,
        "to": relation.to,
        "relationType": relation.relation_type,
    }
    metadata = dict(relation.metadata or {})
    if relation.strength is not None:
        metadata.setdefault("strength", relation.strength)
    if metadata:
        tree["metadata"] = metadata
    return _dump(tree)


def _metadata(tree: Mapping[str, Any], fields: frozenset[str]) -> Any:
    metadata = tree.get("metadata")
    further = {name: value for name, value in tree.items() if name not in fields}
    if further:
        metadata = {**further, **(metadata if isinstance(metadata, dict) else {})}
    size = 0
    try:
        for part in _ENCODER.iterencode(metadata):
            size += len(part)
            part.encode()
            if size > _MAX_METADATA:
                raise NotARecord(f"has metadata of more than {_MAX_METADATA:,} characters")
    except UnicodeEncodeError:
        raise NotARecord("has metadata with half a character, which cannot be sent") from None
    except RecursionError:  # from Python 3.13 on, the parser nests deeper than the encoder
        raise NotARecord("has metadata that is nested too deeply") from None
    return metadata


def _dump(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n"
