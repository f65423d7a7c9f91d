"""Passes on what the watches and lists deliver: to memory first, then to who makes keys of it.

kopf's watches ──> happened ──────────┐
lists, sweeps ──> listed, list_ended ─┴─> cache, Freshness -> told
"""

from __future__ import annotations

from collections.abc import Callable

from kais_operator.informer import watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.planning.plan import Body

ChangeCallback = Callable[[str, Body, bool], None]
"""Takes kind, body and whether the object is gone."""


class EventIntake:
    """Hears watches and lists, in the main event loop."""

    def __init__(self, cache: Cache, watch_health: WatchHealth, on_change: ChangeCallback) -> None:
        self._cache = cache
        self._watch_health = watch_health
        self._on_change = on_change

    def on_listed(self, kind: str, body: Body) -> None:
        """Tell of an object whose state was not told before.

        One that is not kept is told of when it was kept before, for its owner must look for it, or
        when its kind is watched whole.
        """
        if not self._cache.is_cacheable(body):
            if self._cache.evict(body) or kind in watch_targets.WATCHED_WITHOUT_LABEL:
                self._on_change(kind, body, False)
            return
        was_confirmed = self._cache.is_confirmed(body)
        self._cache.put(body, is_confirmed=True)
        if not was_confirmed:
            self._on_change(kind, body, False)

    def on_list_end(
        self, kind: str, namespace: str | None, *, uids: set[str], version: str
    ) -> None:
        """Tell of what went without a word; from now on memory answers for the kind."""
        for body in self._cache.complete_list(kind, namespace, uids=uids, version=version):
            self._on_change(kind, body, True)
        self._watch_health.record_list(kind, namespace)

    def is_up_to_date(self, kind: str, body: Body) -> bool:
        """Whether `happened` would find nothing new; the watches' thread may ask.

        What kopf lists when it begins is in memory from our own list already. Handed over, every
        object would be held once more, whole, until the loop comes to it.
        """
        if kind == watch_targets.HEARTBEAT_KIND or not self._cache.is_confirmed(body):
            return False
        self._watch_health.record_event(kind)
        return True

    def on_watch_event(self, kind: str, body: Body, *, is_deleted: bool) -> None:
        """Take in an event, then tell of it, unless a list told it before."""
        self._watch_health.record_event(kind)
        if kind == watch_targets.HEARTBEAT_KIND:
            self._on_change(kind, body, is_deleted)
        elif is_deleted:
            self._cache.record_deletion(body)
            self._on_change(kind, body, True)
        else:
            self.on_listed(kind, body)
