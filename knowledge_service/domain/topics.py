"""Topics of events: dotted names, which subscribers follow by their first parts.

An event has a topic by its type and the kinds of its facts (`fact.recorded.entity`), and one by
the schema of each fact and what happened to it (`block.created` for a fact of schema `block/1`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

_ACTIONS = {
    "fact.recorded": "created",
    "link.made": "linked",
    "link.closed": "unlinked",
    "link.restored": "relinked",
}
FIRST_PARTS_OF_TYPES = frozenset({
    "alias", "episodes", "extraction", "fact", "link", "principal", "promotion", "realm", "row",
    "run", "scope", "sequence", "usage",
})  # fmt: skip
"""A schema with one of these names has no topics, because they would look like event types."""


def topics_of(event_type: str, kinds: Collection[str], schemas: Iterable[str]) -> tuple[str, ...]:
    """Return the topics of an event about facts of these kinds and schemas, sorted.

    An event about no visible fact has its type as its topic.
    """
    action = _ACTIONS.get(event_type, event_type.rpartition(".")[2])
    names = {schema.partition("/")[0] for schema in schemas} - FIRST_PARTS_OF_TYPES
    by_type = {f"{event_type}.{kind}" for kind in kinds} or {event_type}
    return tuple(sorted(by_type | {f"{name}.{action}" for name in names if name}))


def is_followed(topics: Iterable[str], prefixes: Collection[str]) -> bool:
    """Return whether a topic is one of the prefixes or below it; no prefixes follow everything.

    `block` and `block.*` follow `block.created`, but not `blocks.created`.
    """
    if not prefixes:
        return True
    starts = tuple(f"{prefix.removesuffix('.*')}." for prefix in prefixes)
    return any(f"{topic}.".startswith(starts) for topic in topics)
