"""What the watches told of the cluster, in memory: objects by name, and by labels.

    watch events, lists ──> put, gone, retain ──┐
    answers to our own writes ──> put, deleted ─┴─> get, find   (bytes inside, a new dict each time)

An object is replaced by a newer one only: the answer to a write may come before or after the watch
event that tells of it, and an event may be late. What is gone stays gone, however late an older
event or answer of it comes. Objects are kept as packed JSON without `managedFields`, which takes a
small part of the memory of dicts, and lets nobody change what others read.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
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
"""Labels that lists ask for; a list by another label looks at every object of the namespace."""
_BURIED = 10_000  # an arbitrary size: far more deletions than a watch can be late by
_FOREVER = ""
_T = TypeVar("_T")
_V = TypeVar("_V")
_Names = dict[str, "_Entry"]
_Key = tuple[str, str, str, str]  # kind, namespace, label, value


@dataclass(slots=True)
class _Entry:
    uid: str
    version: str
    packed: bytes
    pattern: bytes
    is_told: bool
    keys: tuple[_Key, ...]


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is later than another of the same kind.

    Kubernetes promises that they can be compared as numbers; of others the last one heard wins.
    """
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than


class Cache:
    """Objects of the watched kinds, as last heard.

    `labelled` names the kinds of which only objects with our managed-by label are watched. Of the
    kinds in `owned` only objects controlled by an object of ours are cached, because every user can
    set the label and such an object may be large. In the namespace `home` all with the label are
    cached.

    Attributes:
        accounts: which cells borrow which account.
    """

    def __init__(
        self, *, labelled: Iterable[str], owned: Iterable[str] = (), home: str = ""
    ) -> None:
        self._labelled = frozenset(labelled)
        self._owned = frozenset(owned)
        self._home = home
        self.clear()

    def clear(self) -> None:
        """Forget everything, as at the begin of a term."""
        self._listed: set[tuple[str, str | None]] = set()
        self._names: dict[tuple[str, str], _Names] = {}
        self._by_label: dict[_Key, str | set[str]] = {}
        self._buried: OrderedDict[str, str] = OrderedDict()
        self._gone: OrderedDict[ObjectRef, None] = OrderedDict()
        self._owners: set[str] = set()
        self._changed_realms: set[str] = set()
        self._patterns: dict[str, bytes] = {}
        self.accounts = AccountIndex()

    # What is asked

    def covers(self, kind: str, namespace: str | None) -> bool:
        """Whether the first list of a kind is in, there or everywhere."""
        return (kind, None) in self._listed or (kind, namespace) in self._listed

    def is_complete(self, kind: str) -> bool:
        """Whether every object of a kind is watched, not only those with our label."""
        return kind not in self._labelled

    def tells_of(self, body: Body) -> bool:
        """Whether the watches tell of this object, so that it may be kept here."""
        metadata = body["metadata"]
        if not self.covers(body["kind"], metadata.get("namespace") or ""):
            return False
        return self.keeps(body)

    def keeps(self, body: Body) -> bool:
        """Whether an object that is watched is kept here too."""
        metadata = body["metadata"]
        carried = metadata.get("labels") or {}
        if not self.is_complete(body["kind"]) and carried.get(labels.MANAGED_BY) != labels.MANAGER:
            return False
        owners = metadata.get("ownerReferences") or ()
        is_controlled = any(o.get("controller") and _is_of_ours(o) for o in owners)
        return self.keeps_labelled(_ref(body), is_controlled=is_controlled)

    def keeps_labelled(self, ref: ObjectRef, *, is_controlled: bool) -> bool:
        """Whether an object with our label is kept, which one of ours controls or not."""
        return is_controlled or ref.kind not in self._owned or ref.namespace == self._home

    def get(self, ref: ObjectRef) -> Body | None:
        """Read one object; None when nothing was heard of it."""
        entry = self._entry(ref)
        return None if entry is None else _read(entry)

    def version(self, ref: ObjectRef) -> str | None:
        """Give the resourceVersion last heard."""
        entry = self._entry(ref)
        return None if entry is None else entry.version

    def is_gone(self, ref: ObjectRef) -> bool:
        """Whether an object of that name was heard to go, and nothing of a successor."""
        return self.is_complete(ref.kind) and ref in self._gone

    def find(self, kind: str, namespace: str | None, wanted: Mapping[str, str]) -> list[Body]:
        """Read the objects that carry all of these labels, in the order of their names."""
        if namespace is None:
            spaces = sorted(space for of, space in self._names if of == kind)
            return [body for space in spaces for body in self.find(kind, space, wanted)]
        entries = self._names.get((kind, namespace), {})
        names: Iterable[str] = entries
        for label in INDEXED:
            if label in wanted:
                names = self._labelled_with((kind, namespace, label, wanted[label]))
                break
        found = [_read(entries[name]) for name in sorted(names)]
        return [body for body in found if _carries(body, wanted)] if wanted else found

    def has_new_objects(self, namespace: str) -> bool:
        """Whether objects of ours came whose owner was not known; asking forgets it.

        Such an object may belong to a successor of the namespace that was there before.
        """
        is_new = namespace in self._changed_realms
        self._changed_realms.discard(namespace)
        return is_new

    # What is heard

    def let_go(self, body: Body) -> bool:
        """Forget an object that is not kept any more; gives whether it was here."""
        known = self._entry(_ref(body))
        self._drop(_ref(body))
        return known is not None

    def put(self, body: Body, *, is_told: bool) -> bool:
        """Take in a state of an object; gives False for one that is not newer than what is here.

        `is_told` says that it came over the watch, as it does for each state in the end.
        """
        ref = _ref(body)
        metadata = body["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        buried = self._buried.get(uid)
        if buried is not None and (buried == _FOREVER or not is_newer(version, buried)):
            return False
        known = self._entry(ref)
        if known is not None and not is_newer(version, known.version):
            known.is_told = known.is_told or (is_told and version == known.version)
            return False
        if self.is_complete(ref.kind) and (known is None or known.uid != uid):
            self._note_new(ref, metadata)
        self._drop(ref)
        self._gone.pop(ref, None)
        keys = tuple(_keys(ref, metadata))
        content = json.encode(_slim(body))
        pattern = self._patterns.setdefault(ref.kind, content[-compression.PATTERN_BYTES :])
        name = sys.intern(ref.name)
        self._names.setdefault((ref.kind, ref.namespace), {})[name] = _Entry(
            uid, version, compression.pack(content, pattern), pattern, is_told, keys
        )
        for key in keys:
            self._index(key, name)
        self.accounts.put(body)
        if self.is_complete(ref.kind):
            self._owners.add(uid)
        return True

    def gone(self, body: Body) -> None:
        """Take in that an object went, or left what is watched, in the state that the event has."""
        ref = _ref(body)
        metadata = body["metadata"]
        self._bury(metadata["uid"], metadata["resourceVersion"])
        known = self._entry(ref)
        if known is None:
            self._note_gone(ref)
        elif known.uid == metadata["uid"] and not is_newer(
            known.version, metadata["resourceVersion"]
        ):
            self._drop(ref)
            self._note_gone(ref)

    def deleted(self, ref: ObjectRef, uid: str) -> None:
        """Take in that the API server has no object of that uid any more."""
        self._bury(uid, _FOREVER)
        known = self._entry(ref)
        if known is not None and known.uid == uid:
            self._drop(ref)
            self._note_gone(ref)

    def is_told(self, body: Body) -> bool:
        """Whether the watch has told the very state of this object."""
        known = self._entry(_ref(body))
        version = body["metadata"]["resourceVersion"]
        return known is not None and known.version == version and known.is_told

    def has_heard(self, ref: ObjectRef, version: str) -> bool:
        """Whether this state of an object was told, or memory has a later one."""
        known = self._entry(ref)
        if known is None or known.version == version:
            return known is not None and known.is_told
        return is_newer(known.version, version)

    def listed(
        self, kind: str, namespace: str | None, *, seen: set[str], version: str
    ) -> list[Body]:
        """End a list: keep the objects with these uids, and those that came after it.

        Returns:
            What went since the last list without a word.
        """
        self._listed.add((kind, namespace))
        lost: list[Body] = []
        for of, space in list(self._names):
            if of != kind or namespace not in (None, space):
                continue
            for name, entry in list(self._names[of, space].items()):
                if entry.uid not in seen and not is_newer(entry.version, version):
                    lost.append(_read(entry))
                    self._drop(ObjectRef(kind, space, name))
                    self._note_gone(ObjectRef(kind, space, name))
        return lost

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
        for key in entry.keys:
            known = self._by_label[key]
            if isinstance(known, set):
                known.remove(ref.name)
            if isinstance(known, str) or not known:
                del self._by_label[key]

    def _labelled_with(self, key: _Key) -> Iterable[str]:
        found = self._by_label.get(key, ())
        return (found,) if isinstance(found, str) else found

    def _index(self, key: _Key, name: str) -> None:
        """Add a name to a label's; most labels name one object of a kind, kept without a set."""
        known = self._by_label.setdefault(key, name)
        if isinstance(known, set):
            known.add(name)
        elif known != name:
            self._by_label[key] = {known, name}

    def _note_new(self, ref: ObjectRef, metadata: Body) -> None:
        owners = metadata.get("ownerReferences") or ()
        if not any(owner.get("uid") in self._owners for owner in owners):
            self._changed_realms.add(ref.namespace)

    def _note_gone(self, ref: ObjectRef) -> None:
        self.accounts.drop(ref.kind, ref.namespace, ref.name)
        _remember(self._gone, ref, None)

    def _bury(self, uid: str, version: str) -> None:
        if self._buried.get(uid) != _FOREVER:
            _remember(self._buried, uid, version)


def _remember(memory: OrderedDict[_T, _V], key: _T, value: _V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _BURIED:
        memory.popitem(last=False)


def _read(entry: _Entry) -> Body:
    body: Body = json.decode(compression.unpack(entry.packed, entry.pattern))
    return body


def _is_of_ours(owner: Body) -> bool:
    return str(owner.get("apiVersion", "")).startswith(f"{API_GROUP}/")


def _slim(body: Body) -> Body:
    metadata = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def _keys(ref: ObjectRef, metadata: Body) -> Iterator[_Key]:
    carried = metadata.get("labels") or {}
    for label in INDEXED:
        if label in carried:
            yield ref.kind, sys.intern(ref.namespace), label, sys.intern(carried[label])


def _carries(body: Body, wanted: Mapping[str, str]) -> bool:
    carried = body["metadata"].get("labels") or {}
    return all(carried.get(label) == value for label, value in wanted.items())


def _ref(body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(sys.intern(body["kind"]), metadata.get("namespace") or "", metadata["name"])
