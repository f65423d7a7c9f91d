"""Reads untrusted YAML within limits; run it in a process that can be killed.

Aliases let a kilobyte of text stand for gigabytes of objects, and merge keys copy what they name,
so what a document expands to is counted before any of it is made. Dates stay text, as they do for
kubectl.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

EXPANDED_NODES = 100_000
"""What a file may expand to; a Blueprint that the API server stores has far fewer.

`NODE_CHARACTERS` of a text count like a value.
"""
NODE_CHARACTERS = 100
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class YamlRefused(Exception):
    """The text is no YAML that can be used; says why."""


def read(text: str) -> list[Any]:
    """Read all documents of a text.

    Raises:
        YamlRefused: It is no YAML, holds what JSON has no word for, or aliases make it larger than
            the limit.
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
    """Loads what JSON can hold."""


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
    """Count the nodes of a document, what an alias names as often as it is named."""
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
