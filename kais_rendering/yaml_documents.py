"""Read untrusted YAML within limits; call it in a process that can be killed.

With aliases a kilobyte of text can stand for gigabytes of objects, and merge keys copy what they
refer to. Therefore the expanded size of a document is counted before any object is made. Dates
stay text, as in kubectl.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

EXPANDED_NODES = 100_000
"""The limit of values that a file expands to; a Blueprint in the API server has far fewer.

Each `NODE_CHARACTERS` characters of a text count as one value.
"""
NODE_CHARACTERS = 100
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class YamlRefused(Exception):
    """The text is not usable YAML; the message says why."""


def read(text: str) -> list[Any]:
    """Read all documents of a text.

    Raises:
        YamlRefused: The text is not YAML, contains values that JSON cannot represent, or expands
            beyond the limit through aliases.
    """
    loader = _Loader(text)
    try:
        documents = list(_documents(loader))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise YamlRefused(str(exc) or "it is nested too deeply") from exc
    finally:
        loader.dispose()
    try:
        json.dumps(documents)
    except (TypeError, ValueError) as exc:
        raise YamlRefused(f"JSON cannot hold what is in it: {exc}") from exc
    return documents


class _Loader(yaml.SafeLoader):
    """Loads only values that JSON can represent."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _documents(loader: _Loader) -> Iterator[Any]:
    nodes_left = EXPANDED_NODES
    while loader.check_node():
        node = loader.get_node()
        nodes_left -= _expanded(node, {}) if node is not None else 0
        if nodes_left < 0:
            megabytes = EXPANDED_NODES * NODE_CHARACTERS // 1_000_000
            raise YamlRefused(
                f"its aliases expand it to more than {EXPANDED_NODES:,} values"
                f" or {megabytes} MB of text"
            )
        yield loader.construct_document(node)


def _expanded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Count the nodes of a document; the target of an alias counts once for each use.

    Raises:
        YamlRefused: An alias refers to a node that contains it.
    """
    size = sizes.get(id(node))
    if size == 0:
        raise YamlRefused("an alias stands inside what it names")
    if size is None:
        sizes[id(node)] = 0
        parts = sum(_expanded(part, sizes) for part in _parts(node))
        size = sizes[id(node)] = 1 + _characters(node) // NODE_CHARACTERS + parts
    return size


def _characters(node: yaml.Node) -> int:
    return len(node.value) if isinstance(node, yaml.ScalarNode) else 0


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
