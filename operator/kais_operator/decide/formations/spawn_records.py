"""The operator's records about cells that may create cells, where no cell can write.

They are annotations of the ServiceAccount `kais-user`, written before a cell gets its first pod:

    admission policy in force      the accounts above each account under which a spawned cell with
                                   `apiAccess` runs: cells that it creates stay below them when it
                                   is deleted
    no policy                      limits and account of each cell with `apiAccess` outside a
                                   Formation: a later change of its spec raises no limit

A person accepts a change by removing the annotation; the next pass records the current spec.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kais import accounts, labels, names
from kais.errors import InvalidResource
from kais.resources.cell import Cell
from kais.resources.workload import Recursion
from kais_operator.decide.cells import placing
from kais_operator.decide.plan import Action, Body, Create, ObjectRef, PatchMetadata

MAX_ANCESTRIES = 500
"""Ancestries kept, those of accounts without any cell included; the annotations of an object hold
256 KiB."""


@dataclass(frozen=True)
class Limits:
    """What a Cell said when it was first met.

    Attributes:
        uid: which Cell of that name it was.
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
        holder: the ServiceAccount that bears them; None while it is missing.
        ancestors: by account, the accounts above it with the generations between.
        limits: what each Cell first said, by name.
    """

    holder: Body | None = None
    ancestors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)


NO_RECORDS = Records()


def read(holder: Body | None) -> Records:
    """Read the records; one that a person made unreadable counts as missing."""
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
    """Give the record of exactly this Cell."""
    limits = records.limits.get(cell.metadata.name)
    return limits if limits is not None and limits.uid == cell.metadata.uid else None


def as_recorded(cell: Cell, records: Records) -> Cell:
    """Give a Cell with the limits, account and `apiAccess` that its record has."""
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
    """Say which changes of a Cell its spawn limits ignore, and how a person accepts them."""
    limits = limits_of(cell, records)
    if limits is None:
        return None
    changes = {
        "recursion": (cell.spec.recursion or Recursion()) != limits.recursion,
        "serviceAccountName": placing.account_name(cell) != limits.account,
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
    """Record once what a Cell with `apiAccess` says, and drop records of Cells that are gone."""
    if not cell.spec.api_access or limits_of(cell, records) is not None:
        return ()
    uids = {one.metadata.name: one.metadata.uid for one in cells}
    gone = (name for name, limits in records.limits.items() if uids.get(name) != limits.uid)
    recursion = cell.spec.recursion or Recursion()
    record = {
        "cell": cell.metadata.name,
        "uid": cell.metadata.uid,
        "account": placing.account_name(cell),
        "recursion": recursion.to_dict(),
    }
    dropped = dict.fromkeys(map(_limits_key, gone))
    return _written(cell, records, {**dropped, _limits_key(cell.metadata.name): _text(record)})


def record_ancestors(
    cell: Cell, above: Mapping[str, int], records: Records, cells: Sequence[Cell]
) -> tuple[Action, ...]:
    """Record which accounts are above that of a Cell with `apiAccess`, with the generations."""
    account = placing.account_name(cell)
    recorded = records.ancestors.get(account, {})
    others = {name: steps for name, steps in above.items() if name != account}
    merged = dict(recorded)
    for name, steps in others.items():
        merged[name] = min(steps, recorded.get(name, steps))
    if not cell.spec.api_access or merged == recorded:
        return ()
    dropped = dict.fromkeys(map(_ancestors_key, _surplus(account, records, cells)))
    record = {"account": account, "above": merged}
    return _written(cell, records, {**dropped, _ancestors_key(account): _text(record)})


def _surplus(account: str, records: Records, cells: Sequence[Cell]) -> Iterator[str]:
    """Name accounts that no living Cell runs under or was created by, where records are many."""
    if len(records.ancestors) < MAX_ANCESTRIES:
        return
    used = {account, *map(placing.account_name, cells), *filter(None, map(creator, cells))}
    yield from (name for name in records.ancestors if name not in used)


def creator(cell: Cell) -> str | None:
    """Give the ServiceAccount of the namespace that created a Cell, as the policy vouches for."""
    user = cell.metadata.annotations.get(labels.CREATED_BY, "")
    prefix = f"system:serviceaccount:{cell.metadata.namespace}:"
    return user.removeprefix(prefix) if user.startswith(prefix) else None


def _written(
    cell: Cell, records: Records, annotations: Mapping[str, str | None]
) -> tuple[Action, ...]:
    if records.holder is None:
        body = accounts.realm_account(cell.metadata.namespace)
        values = {key: value for key, value in annotations.items() if value is not None}
        return (Create({**body, "metadata": {**body["metadata"], "annotations": values}}),)
    version = records.holder["metadata"]["resourceVersion"]
    return (PatchMetadata(holder_ref(cell), version, annotations=annotations),)


def holder_ref(cell: Cell) -> ObjectRef:
    """Name the ServiceAccount that bears the records of a Cell's namespace."""
    return ObjectRef("ServiceAccount", cell.metadata.namespace, labels.USER_ACCOUNT)


def _limits_key(cell: str) -> str:
    return labels.LIMITS_PREFIX + names.label_value(cell)


def _ancestors_key(account: str) -> str:
    return labels.ANCESTORS_PREFIX + names.label_value(account)


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
