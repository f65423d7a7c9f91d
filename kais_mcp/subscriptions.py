"""Which of the subscribed resources a change concerns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kais_mcp import resources
from kais_mcp.resources import Reference

MAX_URIS = 500
"""Resources of one subscription; an arbitrary number."""


@dataclass(frozen=True)
class Changes:
    """What changed: resources, and whether some were added or removed."""

    resources: frozenset[Reference]
    has_list_changed: bool


class Follow(Protocol):
    """Follows the changes that the caller of a request may see.

    The iterator ends when the stream has to end: the token of its caller is no longer valid, or the
    server stops.
    """

    def __call__(
        self, request: Any, references: Iterable[Reference], /
    ) -> AbstractAsyncContextManager[AsyncIterator[Changes]]:
        """Follow changes from now on, those of `references` among them.

        Raises:
            ToolFailure: the caller has its maximum of streams.
        """
        ...


class SubscribedUris:
    """The URIs of one subscription, as its client wrote them, by reference."""

    def __init__(self, uris: Iterable[str]) -> None:
        self._uris: dict[Reference, list[str]] = defaultdict(list)
        for uri in uris:
            reference = resources.parse(uri)
            if reference is not None:
                self._uris[reference].append(uri)

    @property
    def references(self) -> frozenset[Reference]:
        """The references of the URIs."""
        return frozenset(self._uris)

    @property
    def uris(self) -> list[str]:
        """The URIs that name a resource."""
        return [uri for uris in self._uris.values() for uri in uris]

    def among(self, changed: Iterable[Reference]) -> Iterator[str]:
        """Yield the URIs of what changed."""
        for reference in changed:
            yield from self._uris.get(reference, ())
