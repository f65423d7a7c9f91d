"""The operator's records about cells that may create cells, where no cell can write.

They are annotations of the ServiceAccount `kais-user`, written before a cell gets its first pod:

    admission policy in force      the accounts above each account under which a spawned cell with
                                   `apiAccess` runs: cells that it creates stay below them when it
                                   is deleted
    no policy                      limits and account of each cell with `apiAccess` outside a
                                   Formation: a later change of its spec raises no limit

A person accepts a change by removing the annotation; the next reconcile records the current spec.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kais import labels, names, service_accounts
from kais.errors import InvalidResource
from kais.resources.cell import Cell
from kais.resources.cell_template import Recursion
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.planning.plan import Action, Body, Create, ObjectRef, PatchMetadata

MAX_BYTES = 256 * 1024
"""The API server's limit for the annotations of an object: bytes of all keys and values."""
DROPPED_FROM = 200 * 1024
"""Bytes of annotations above which ancestors of accounts without any Cell are dropped."""


@dataclass(frozen=True)
class Limits:
    """The recorded spec of a Cell when the operator first observed it.

    Attributes:
        uid: the UID of the Cell, since others may have had its name.
        account: the ServiceAccount of its pods.
        recursion: its spawn limits.
    """

    uid: str
    account: str
    recursion: Recursion


@dataclass(frozen=True)
class Records:
    """The records of a namespace.

    Attributes:
        holder: the ServiceAccount with the records; None while it is missing.
        ancestors: by account, the accounts above it with the number of generations between.
        limits: the recorded spec of each Cell, by name.
    """

    holder: Body | None = None
    ancestors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)


NO_RECORDS = Records()


def read(holder: Body | None) -> Records:
    """Read the records; one that is not valid after an edit counts as missing."""
    annotations = (holder or {"metadata": {}})["metadata"].get("annotations") or {}
    ancestors: dict[str, Mapping[str, int]] = {}
    limits: dict[str, Limits] = {}
    for key, text in annotations.items():
        try:
            if key.startswith(labels.ANCESTORS_PREFIX):
                record = json.loads(text)
                above = {str(name): int(steps) for name, steps in record["above"].items()}
                ancestors[str(record["account"])] = above
            elif key.startswith(labels.LIMITS_PREFIX):
                record = json.loads(text)
                limits[str(record["cell"])] = _limits(record)
        except (ValueError, TypeError, KeyError, AttributeError, InvalidResource):
            continue
    return Records(holder, ancestors, limits)


def _limits(record: Mapping[str, Any]) -> Limits:
    recursion = Recursion.from_dict(record["recursion"])
    return Limits(str(record["uid"]), str(record["account"]), recursion)


def limits_of(cell: Cell, records: Records) -> Limits | None:
    """Return the recorded limits of exactly this Cell, by UID."""
    limits = records.limits.get(cell.metadata.name)
    return limits if limits is not None and limits.uid == cell.metadata.uid else None


def as_recorded(cell: Cell, records: Records) -> Cell:
    """Return a Cell with the limits, account and `apiAccess` of its record."""
    limits = limits_of(cell, records)
    if limits is None:
        return cell
    recorded = {
        "api_access": True,
        "service_account_name": limits.account,
        "recursion": limits.recursion,
    }
    return cell.model_copy(update={"spec": cell.spec.model_copy(update=recorded)})


def ignored_changes(cell: Cell, records: Records) -> str | None:
    """Describe which changes of a Cell its spawn limits ignore, and how a person accepts them."""
    limits = limits_of(cell, records)
    if limits is None:
        return None
    changes = {
        "recursion": (cell.spec.recursion or Recursion()) != limits.recursion,
        "serviceAccountName": cell_identity.account_name(cell) != limits.account,
        "apiAccess": not cell.spec.api_access,
    }
    fields = [name for name, is_changed in changes.items() if is_changed]
    if not fields:
        return None
    key = _limits_key(cell.metadata.name)
    return (
        f"(spawn limits ignore the change of {', '.join(fields)}, since no admission policy is in "
        f"force; to accept it, remove the annotation {key} of ServiceAccount "
        f"{cell.metadata.namespace}/{labels.USER_ACCOUNT})"
    )


def record_limits(cell: Cell, records: Records, cells: Iterable[Cell]) -> tuple[Action, ...]:
    """Record once the limits of a Cell with `apiAccess`, and drop records of deleted Cells."""
    if not cell.spec.api_access or limits_of(cell, records) is not None:
        return ()
    uids = {existing.metadata.name: existing.metadata.uid for existing in cells}
    deleted = (name for name, limits in records.limits.items() if uids.get(name) != limits.uid)
    recursion = cell.spec.recursion or Recursion()
    record = {
        "cell": cell.metadata.name,
        "uid": cell.metadata.uid,
        "account": cell_identity.account_name(cell),
        "recursion": recursion.to_dict(),
    }
    dropped = dict.fromkeys(map(_limits_key, deleted))
    return _write(cell, records, {**dropped, _limits_key(cell.metadata.name): _text(record)})


def record_ancestors(
    cell: Cell, above: Mapping[str, int], records: Records, cells: Sequence[Cell]
) -> tuple[Action, ...]:
    """Record the accounts above that of a Cell with `apiAccess`, with the generations between."""
    account = cell_identity.account_name(cell)
    recorded = records.ancestors.get(account, {})
    other_ancestors = {name: steps for name, steps in above.items() if name != account}
    merged = dict(recorded)
    for name, steps in other_ancestors.items():
        merged[name] = min(steps, recorded.get(name, steps))
    if not cell.spec.api_access or merged == recorded:
        return ()
    annotations: dict[str, str | None] = {_ancestors_key(account): _ancestors_text(account, merged)}
    if size(_annotations_after(records, annotations)) > DROPPED_FROM:
        annotations |= _without_unused({**records.ancestors, account: merged}, account, cells)
    return _write(cell, records, annotations)


def _without_unused(
    ancestors: Mapping[str, Mapping[str, int]], account: str, cells: Sequence[Cell]
) -> dict[str, str | None]:
    """Drop recorded accounts that no Cell runs under or was created by, also as ancestors.

    Accounts below them have recorded their ancestors as well.
    """
    live_accounts = {
        account,
        *map(cell_identity.account_name, cells),
        *filter(None, map(creator, cells)),
    }
    unused = ancestors.keys() - live_accounts
    annotations: dict[str, str | None] = dict.fromkeys(map(_ancestors_key, unused))
    for name in ancestors.keys() & live_accounts:
        if ancestors[name].keys() & unused:
            remaining = {
                ancestor: steps
                for ancestor, steps in ancestors[name].items()
                if ancestor not in unused
            }
            annotations[_ancestors_key(name)] = _ancestors_text(name, remaining)
    return annotations


def size_problem(cell: Cell, actions: Iterable[Action], records: Records) -> str | None:
    """Return a message when the API server would refuse these records for their size."""
    sizes = (
        size(_annotations_after(records, action.annotations))
        for action in actions
        if isinstance(action, PatchMetadata)
    )
    if max(sizes, default=0) <= MAX_BYTES:
        return None
    holder = f"{cell.metadata.namespace}/{labels.USER_ACCOUNT}"
    return (
        f"the annotations of ServiceAccount {holder} have no room for the record that spawn limits "
        f"need ({MAX_BYTES // 1024} KiB); delete Cells with apiAccess, or other annotations"
    )


def size(annotations: Mapping[str, str]) -> int:
    """Return the size of annotations in bytes as the API server counts them."""
    return sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())


def _annotations_after(records: Records, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the annotations of the holder after a write."""
    holder = records.holder or {"metadata": {}}
    annotations = {**(holder["metadata"].get("annotations") or {}), **changes}
    return {key: text for key, text in annotations.items() if text is not None}


def creator(cell: Cell) -> str | None:
    """Return the ServiceAccount of the namespace that created a Cell, as the policy guarantees."""
    user = cell.metadata.annotations.get(labels.CREATED_BY, "")
    prefix = f"system:serviceaccount:{cell.metadata.namespace}:"
    return user.removeprefix(prefix) if user.startswith(prefix) else None


def _write(
    cell: Cell, records: Records, annotations: Mapping[str, str | None]
) -> tuple[Action, ...]:
    if records.holder is None:
        body = service_accounts.realm_account(cell.metadata.namespace)
        values = {key: value for key, value in annotations.items() if value is not None}
        return (Create({**body, "metadata": {**body["metadata"], "annotations": values}}),)
    version = records.holder["metadata"]["resourceVersion"]
    return (PatchMetadata(holder_ref(cell), version, annotations=annotations),)


def holder_ref(cell: Cell) -> ObjectRef:
    """Return a reference to the ServiceAccount with the records of a Cell's namespace."""
    return ObjectRef("ServiceAccount", cell.metadata.namespace, labels.USER_ACCOUNT)


def _limits_key(cell: str) -> str:
    return labels.LIMITS_PREFIX + names.label_value(cell)


def _ancestors_key(account: str) -> str:
    return labels.ANCESTORS_PREFIX + names.label_value(account)


def _ancestors_text(account: str, above: Mapping[str, int]) -> str:
    return _text({"account": account, "above": dict(above)})


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
