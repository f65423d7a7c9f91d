"""Passes on what the watches and lists deliver: to memory first, then to who makes keys of it.

kopf's watches ──> happened ──────────┐
lists, sweeps ──> listed, list_ended ─┴─> cache, Freshness -> told
"""

from __future__ import annotations

from collections.abc import Callable

from kais_operator.informer import watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.watch_health import Freshness
from kais_operator.planning.plan import Body

Told = Callable[[str, Body, bool], None]
"""Takes kind, body and whether the object is gone."""


class Ear:
    """Hears watches and lists, in the main event loop."""

    def __init__(self, cache: Cache, freshness: Freshness, told: Told) -> None:
        self._cache = cache
        self._freshness = freshness
        self._told = told

    def listed(self, kind: str, body: Body) -> None:
        """Tell of an object whose state was not told before.

        One that is not kept is told of when it was kept before, for its owner must look for it, or
        when its kind is watched whole.
        """
        if not self._cache.keeps(body):
            if self._cache.let_go(body) or kind in watch_targets.WATCHED_WHOLE:
                self._told(kind, body, False)
            return
        is_known = self._cache.is_told(body)
        self._cache.put(body, is_told=True)
        if not is_known:
            self._told(kind, body, False)

    def list_ended(self, kind: str, namespace: str | None, *, seen: set[str], version: str) -> None:
        """Tell of what went without a word; from now on memory answers for the kind."""
        for body in self._cache.listed(kind, namespace, seen=seen, version=version):
            self._told(kind, body, True)
        self._freshness.note_listed(kind, namespace)

    def has_heard(self, kind: str, body: Body) -> bool:
        """Whether `happened` would find nothing new; the watches' thread may ask.

        What kopf lists when it begins is in memory from our own list already. Handed over, every
        object would be held once more, whole, until the loop comes to it.
        """
        if kind == watch_targets.PROBE or not self._cache.is_told(body):
            return False
        self._freshness.note(kind)
        return True

    def happened(self, kind: str, body: Body, *, is_gone: bool) -> None:
        """Take in an event, then tell of it, unless a list told it before."""
        self._freshness.note(kind)
        if kind == watch_targets.PROBE:
            self._told(kind, body, is_gone)
        elif is_gone:
            self._cache.gone(body)
            self._told(kind, body, True)
        else:
            self.listed(kind, body)
