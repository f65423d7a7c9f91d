"""Caches the results of token reviews for a short time; the key is the hash of the token."""

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


# An API server accepts a token for up to 10 s after its pod was deleted. With this cache, the token
# is rejected within 30 s.
_TTL_S = 20.0


class Cache:
    """Keeps results for at most `ttl_s`; beyond `size`, drops the least recently used one.

    A rejection is kept for `refusal_ttl_s` only: the token may become valid, for example when
    clocks synchronise.
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
        """Return the result in a tuple, `(None,)` for a rejection; None if it is not cached."""
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
        """Cache a result."""
        ttl_s = self._refusal_ttl_s if identity is None else self._ttl_s
        self._entries[_key(token)] = (self._monotonic() + ttl_s, identity)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
