"""Takes in what watches and lists deliver: updates the cache, then reports the changes.

watches of kopf ──> on_watch_event ────────┐
lists, relists ──> on_listed, on_list_end ─┴─> Cache, WatchHealth -> on_change
all of them ──> on_unreadable ──> a warning
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from kais_operator.informer import watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.list_client import ObjectVersion
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.kubernetes import object_json
from kais_operator.planning.plan import Body, ObjectRef

logger = logging.getLogger(__name__)

_MAX_UNREADABLE = 10_000  # arbitrary; beyond it a warning is repeated by each relist
ChangeCallback = Callable[[str, Body, bool], None]
"""Takes kind, body, and whether the object was deleted."""


class EventHandler:
    """Takes in watch events and listed objects, in the main event loop."""

    def __init__(self, cache: Cache, watch_health: WatchHealth, on_change: ChangeCallback) -> None:
        self._cache = cache
        self._watch_health = watch_health
        self._on_change = on_change
        self._unreadable: OrderedDict[ObjectRef, str] = OrderedDict()

    def on_listed(self, kind: str, body: Body) -> None:
        """Take in an object, and report it unless a watch or list delivered this version before.

        An object that is not cached is reported if it was cached before, because its owner must
        read it, or if its kind is watched without our label.
        """
        if not self._cache.is_cacheable(body):
            if self._cache.evict(body) or kind in watch_targets.WATCHED_WITHOUT_LABEL:
                self._on_change(kind, body, False)
            return
        was_confirmed = self._cache.is_confirmed(body)
        self._cache.put(body, is_confirmed=True)
        if not was_confirmed:
            self._on_change(kind, body, False)

    def on_unreadable(self, change: ObjectVersion) -> None:
        """Skip a version of an object that nests too deeply, with one warning.

        The cache keeps an earlier version. An object that nobody can read was not deleted.
        """
        if self.is_unreadable(change):
            return
        logger.warning("%s %s; it is skipped until then", change.ref, object_json.TOO_DEEP)
        self._unreadable[change.ref] = change.version
        self._unreadable.move_to_end(change.ref)
        if len(self._unreadable) > _MAX_UNREADABLE:
            self._unreadable.popitem(last=False)

    def is_unreadable(self, change: ObjectVersion) -> bool:
        """Return whether this version was skipped."""
        return self._unreadable.get(change.ref) == change.version

    def on_list_end(
        self, kind: str, namespace: str | None, *, uids: set[str], version: str
    ) -> None:
        """Report objects that a list lacks as deleted; from now on the cache covers the kind."""
        for body in self._cache.complete_list(kind, namespace, uids=uids, version=version):
            self._on_change(kind, body, True)
        self._watch_health.record_list(kind, namespace)

    def is_up_to_date(self, kind: str, body: Body) -> bool:
        """Return whether an event has nothing new; may be called in the thread of the watches.

        The objects that kopf lists at its start are in the cache already. Passing them to the loop
        would hold all of them in memory a second time until the loop has processed them.
        """
        if kind == watch_targets.HEARTBEAT_KIND or not self._cache.is_confirmed(body):
            return False
        self._watch_health.record_event(kind)
        return True

    def on_watch_event(self, kind: str, body: Body, *, is_deleted: bool) -> None:
        """Take in a watch event, and report it unless a list delivered it before."""
        self._watch_health.record_event(kind)
        if kind == watch_targets.HEARTBEAT_KIND:
            self._on_change(kind, body, is_deleted)
        elif is_deleted:
            self._cache.record_deletion(body)
            self._on_change(kind, body, True)
        else:
            self.on_listed(kind, body)
