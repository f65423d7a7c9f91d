"""What the cluster said about a token, for a short while, by its hash and never the token."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """The Kubernetes user behind a token."""

    username: str
    uid: str | None
    groups: tuple[str, ...] = ()


# An API server takes a token for 10 s after its pod is gone; with ours a token ends within 30 s.
_TTL_S = 20.0


class Cache:
    """Remembers verdicts for at most `ttl_s`; beyond `size` the one unused longest goes.

    A refusal is kept for a shorter time: it may end when clocks or registrations catch up.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        ttl_s: float = _TTL_S,
        refusal_ttl_s: float = 5,
        size: int = 10_000,
    ) -> None:
        self._monotonic = monotonic
        self._ttl_s = ttl_s
        self._refusal_ttl_s = refusal_ttl_s
        self._size = size
        self._entries: OrderedDict[bytes, tuple[float, Identity | None]] = OrderedDict()

    def get(self, token: str) -> tuple[Identity | None] | None:
        """Return the verdict in a tuple (None inside is a refusal), or None when it is unknown."""
        key = _key(token)
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires_at_s, identity = entry
        if self._monotonic() >= expires_at_s:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return (identity,)

    def put(self, token: str, identity: Identity | None) -> None:
        """Keep a verdict."""
        ttl_s = self._refusal_ttl_s if identity is None else self._ttl_s
        self._entries[_key(token)] = (self._monotonic() + ttl_s, identity)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
