"""The informer's cache: objects of the watched kinds, by name and by labels.

    watch events, lists ──> put, record_deletion, complete_list ──┐
    responses to our own writes ──> put, remove ──────────────────┴─> get, find   (a new dict each)

Only a newer version replaces an object: the response to a write can arrive before or after its
watch event, and events can be late. Deleted objects stay deleted, however late an older event
arrives. Objects are stored as compressed JSON without `managedFields`, which takes a small part of
the memory of dicts, and no reader can change what others read.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec import json

from kais import labels
from kais.resources.base import API_GROUP
from kais_operator.informer import compression
from kais_operator.kubernetes.account_index import AccountIndex
from kais_operator.planning.plan import Body, ObjectRef

INDEXED = (
    labels.BLUEPRINT,
    labels.INSTANCE,
    labels.FORMATION,
    labels.CELL,
    labels.MISSION,
)
"""Labels that lists select by; other labels scan every object of the namespace."""
_MAX_TOMBSTONES = 10_000  # arbitrary: far more deletions than a watch can be late by
_ANY_VERSION = ""
_T = TypeVar("_T")
_V = TypeVar("_V")
_Names = dict[str, "_Entry"]
_IndexKey = tuple[str, str, str]  # kind, namespace, label
_LabelValues = tuple[str | None, ...]
"""The values of the `INDEXED` labels, in their order; None for a label that an object lacks."""
_LabelNames = str | tuple[str, ...] | set[str]
"""The names of the objects with a label: one, a few, or a set."""
_FEW = 8  # a tuple takes a quarter of the memory of a set; arbitrary


@dataclass(slots=True)
class _Entry:
    uid: str
    version: str
    compressed: bytes
    dictionary: bytes
    is_confirmed: bool
    label_values: _LabelValues


def is_newer(version: str, reference: str) -> bool:
    """Return whether a resourceVersion is later than another of the same kind.

    Kubernetes guarantees that they compare as numbers; otherwise any other version counts as newer.
    """
    if version.isdigit() and reference.isdigit():
        return int(version) > int(reference)
    return version != reference


class Cache:
    """Objects of the watched kinds in their last known version.

    `labelled` names the kinds of which only objects with our managed-by label are watched. Of the
    kinds in `owned` only objects controlled by one of our objects are cached, because every user
    can set the label and such an object may be large. In `operator_namespace` all with the label
    are cached.

    Attributes:
        accounts: index of the cells that borrow accounts.
    """

    def __init__(
        self, *, labelled: Iterable[str], owned: Iterable[str] = (), operator_namespace: str = ""
    ) -> None:
        self._labelled = frozenset(labelled)
        self._owned = frozenset(owned)
        self._operator_namespace = operator_namespace
        self.clear()

    def clear(self) -> None:
        """Forget everything, for a new leader session."""
        self._listed: set[tuple[str, str | None]] = set()
        self._names: dict[tuple[str, str], _Names] = {}
        self._by_label: dict[_IndexKey, dict[str, _LabelNames]] = {}
        self._tombstones: OrderedDict[str, str] = OrderedDict()
        self._deleted: OrderedDict[ObjectRef, None] = OrderedDict()
        self._owners: set[str] = set()
        self._changed_realms: set[str] = set()
        self._dictionaries: dict[str, bytes] = {}
        self.accounts = AccountIndex()

    # Reads

    def covers(self, kind: str, namespace: str | None) -> bool:
        """Return whether a kind has been listed, in the namespace or everywhere."""
        return (kind, None) in self._listed or (kind, namespace) in self._listed

    def is_complete(self, kind: str) -> bool:
        """Return whether all objects of a kind are watched, not only those with our label."""
        return kind not in self._labelled

    def is_watched(self, body: Body) -> bool:
        """Return whether the watches report this object, so that it may be cached."""
        metadata = body["metadata"]
        if not self.covers(body["kind"], metadata.get("namespace") or ""):
            return False
        return self.is_cacheable(body)

    def is_cacheable(self, body: Body) -> bool:
        """Return whether an object that is watched is cached too."""
        metadata = body["metadata"]
        object_labels = metadata.get("labels") or {}
        if (
            not self.is_complete(body["kind"])
            and object_labels.get(labels.MANAGED_BY) != labels.MANAGER
        ):
            return False
        owners = metadata.get("ownerReferences") or ()
        is_controlled = any(o.get("controller") and _is_of_ours(o) for o in owners)
        return self.is_cacheable_child(_ref(body), is_controlled=is_controlled)

    def is_cacheable_child(self, ref: ObjectRef, *, is_controlled: bool) -> bool:
        """Return whether an object with our label is cached."""
        return (
            is_controlled
            or ref.kind not in self._owned
            or ref.namespace == self._operator_namespace
        )

    def get(self, ref: ObjectRef) -> Body | None:
        """Return an object; None if it is not cached."""
        entry = self._entry(ref)
        return None if entry is None else _decode(entry)

    def version(self, ref: ObjectRef) -> str | None:
        """Return the cached resourceVersion; None if the object is not cached."""
        entry = self._entry(ref)
        return None if entry is None else entry.version

    def is_deleted(self, ref: ObjectRef) -> bool:
        """Return whether an object was deleted and not created again since."""
        return self.is_complete(ref.kind) and ref in self._deleted

    def find(self, kind: str, namespace: str | None, selector: Mapping[str, str]) -> list[Body]:
        """Return the objects with all of these labels, ordered by namespace and name."""
        if namespace is None:
            namespaces = sorted(
                cached_namespace
                for cached_kind, cached_namespace in self._names
                if cached_kind == kind
            )
            return [
                body
                for cached_namespace in namespaces
                for body in self.find(kind, cached_namespace, selector)
            ]
        entries = self._names.get((kind, namespace), {})
        names: Collection[str] = entries
        for label in INDEXED:
            if label in selector:
                names = self._names_with_label((kind, namespace, label), selector[label])
                break
        bodies = [_decode(entries[name]) for name in sorted(names)]
        return [body for body in bodies if _has_labels(body, selector)] if selector else bodies

    def has_new_objects(self, namespace: str) -> bool:
        """Return whether objects with an unknown owner have appeared since the last call.

        Such objects may belong to a namespace that was deleted and created again.
        """
        is_new = namespace in self._changed_realms
        self._changed_realms.discard(namespace)
        return is_new

    # Updates

    def evict(self, body: Body) -> bool:
        """Drop an object that is no longer cacheable; return whether it was cached."""
        entry = self._entry(_ref(body))
        self._drop(_ref(body))
        return entry is not None

    def put(self, body: Body, *, is_confirmed: bool) -> bool:
        """Store a version of an object; return False if it is not newer than the cached one.

        `is_confirmed` is true if a watch or list delivered it, false for the response to a write.
        """
        ref = _ref(body)
        metadata = body["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        tombstone = self._tombstones.get(uid)
        if tombstone is not None and (
            tombstone == _ANY_VERSION or not is_newer(version, tombstone)
        ):
            return False
        cached = self._entry(ref)
        if cached is not None and not is_newer(version, cached.version):
            cached.is_confirmed = cached.is_confirmed or (
                is_confirmed and version == cached.version
            )
            return False
        if self.is_complete(ref.kind) and (cached is None or cached.uid != uid):
            self._record_new(ref, metadata)
        label_values = _label_values(metadata)
        is_indexed = cached is not None and (cached.uid, cached.label_values) == (uid, label_values)
        if cached is not None and is_indexed:
            uid, label_values = cached.uid, cached.label_values  # shared with the index
        else:
            self._drop(ref)
        self._deleted.pop(ref, None)
        content = json.encode(_without_managed_fields(body))
        dictionary = self._dictionaries.setdefault(
            ref.kind, content[-compression.DICTIONARY_BYTES :]
        )
        name = sys.intern(ref.name)
        self._names.setdefault((ref.kind, ref.namespace), {})[name] = _Entry(
            uid,
            version,
            compression.compress(content, dictionary),
            dictionary,
            is_confirmed,
            label_values,
        )
        if not is_indexed:
            self._index(ref, label_values, name)
        self.accounts.put(body)
        if self.is_complete(ref.kind):
            self._owners.add(uid)
        return True

    def record_deletion(self, body: Body) -> None:
        """Record a watch event that an object was deleted, or is no longer watched."""
        ref = _ref(body)
        metadata = body["metadata"]
        self._add_tombstone(metadata["uid"], metadata["resourceVersion"])
        cached = self._entry(ref)
        if cached is None:
            self._record_deleted(ref)
        elif cached.uid == metadata["uid"] and not is_newer(
            cached.version, metadata["resourceVersion"]
        ):
            self._drop(ref)
            self._record_deleted(ref)

    def remove(self, ref: ObjectRef, uid: str) -> None:
        """Record that the API server no longer has the object with this UID."""
        self._add_tombstone(uid, _ANY_VERSION)
        cached = self._entry(ref)
        if cached is not None and cached.uid == uid:
            self._drop(ref)
            self._record_deleted(ref)

    def is_confirmed(self, body: Body) -> bool:
        """Return whether a watch or list has delivered exactly this version."""
        cached = self._entry(_ref(body))
        version = body["metadata"]["resourceVersion"]
        return cached is not None and cached.version == version and cached.is_confirmed

    def has_version(self, ref: ObjectRef, version: str) -> bool:
        """Return whether this version was delivered, or the cache has a later one."""
        cached = self._entry(ref)
        if cached is None or cached.version == version:
            return cached is not None and cached.is_confirmed
        return is_newer(cached.version, version)

    def complete_list(
        self, kind: str, namespace: str | None, *, uids: set[str], version: str
    ) -> list[Body]:
        """Complete a list: keep the objects with these UIDs, and those that are newer than it.

        Returns:
            The objects that were dropped: no event reported their deletion.
        """
        self._listed.add((kind, namespace))
        deleted: list[Body] = []
        for cached_kind, cached_namespace in list(self._names):
            if cached_kind != kind or namespace not in (None, cached_namespace):
                continue
            for name, entry in list(self._names[cached_kind, cached_namespace].items()):
                if entry.uid not in uids and not is_newer(entry.version, version):
                    deleted.append(_decode(entry))
                    self._drop(ObjectRef(kind, cached_namespace, name))
                    self._record_deleted(ObjectRef(kind, cached_namespace, name))
        return deleted

    # Inside

    def _entry(self, ref: ObjectRef) -> _Entry | None:
        return self._names.get((ref.kind, ref.namespace), {}).get(ref.name)

    def _drop(self, ref: ObjectRef) -> None:
        names = self._names.get((ref.kind, ref.namespace))
        entry = names.pop(ref.name, None) if names else None
        if entry is None or names is None:
            return
        self._owners.discard(entry.uid)
        if not names:
            del self._names[ref.kind, ref.namespace]
        for label, value in zip(INDEXED, entry.label_values, strict=True):
            if value is not None:
                self._remove_from_index((ref.kind, ref.namespace, label), value, ref.name)

    def _names_with_label(self, key: _IndexKey, value: str) -> Collection[str]:
        label_names = self._by_label.get(key, {}).get(value, ())
        return (label_names,) if isinstance(label_names, str) else label_names

    def _index(self, ref: ObjectRef, label_values: _LabelValues, name: str) -> None:
        for label, value in zip(INDEXED, label_values, strict=True):
            if value is not None:
                self._add_to_index((ref.kind, ref.namespace, label), value, name)

    def _add_to_index(self, key: _IndexKey, value: str, name: str) -> None:
        values = self._by_label.setdefault(key, {})
        label_names = values.get(value)
        if label_names is None:
            values[value] = name
        elif isinstance(label_names, set):
            label_names.add(name)
        else:
            names = {*self._names_with_label(key, value), name}
            values[value] = tuple(names) if len(names) <= _FEW else names

    def _remove_from_index(self, key: _IndexKey, value: str, name: str) -> None:
        values = self._by_label[key]
        label_names = values[value]
        if isinstance(label_names, set):
            label_names.remove(name)
        elif isinstance(label_names, tuple):
            label_names = values[value] = tuple(other for other in label_names if other != name)
        if isinstance(label_names, str) or not label_names:
            del values[value]
        if not values:
            del self._by_label[key]

    def _record_new(self, ref: ObjectRef, metadata: Body) -> None:
        owners = metadata.get("ownerReferences") or ()
        if not any(owner.get("uid") in self._owners for owner in owners):
            self._changed_realms.add(ref.namespace)

    def _record_deleted(self, ref: ObjectRef) -> None:
        self.accounts.drop(ref.kind, ref.namespace, ref.name)
        _set_bounded(self._deleted, ref, None)

    def _add_tombstone(self, uid: str, version: str) -> None:
        if self._tombstones.get(uid) != _ANY_VERSION:
            _set_bounded(self._tombstones, uid, version)


def _set_bounded(entries: OrderedDict[_T, _V], key: _T, value: _V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > _MAX_TOMBSTONES:
        entries.popitem(last=False)


def _decode(entry: _Entry) -> Body:
    body: Body = json.decode(compression.decompress(entry.compressed, entry.dictionary))
    return body


def _is_of_ours(owner: Body) -> bool:
    return str(owner.get("apiVersion", "")).startswith(f"{API_GROUP}/")


def _without_managed_fields(body: Body) -> Body:
    metadata = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def _label_values(metadata: Body) -> _LabelValues:
    object_labels = metadata.get("labels") or {}
    values = (object_labels.get(label) for label in INDEXED)
    return tuple(None if value is None else sys.intern(value) for value in values)


def _has_labels(body: Body, selector: Mapping[str, str]) -> bool:
    object_labels = body["metadata"].get("labels") or {}
    return all(object_labels.get(label) == value for label, value in selector.items())


def _ref(body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(sys.intern(body["kind"]), metadata.get("namespace") or "", metadata["name"])
