"""What the operator and the knowledge service asked of the API server, from its audit log."""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from e2e.support.installed import KAIS_NAMESPACE, Body, Installed
from kais import names

DECISION = "authorization.k8s.io/decision"
CHANGES = {"create", "update", "patch", "delete"}
OUTBOX_PREFIX = "kais-outbox-"
LEASE_PERIODS_S = {"kais-operator": 2.0, "kais-operator-watch": 30.0}
"""How often the operator writes its Leases, at most."""


def read_entries(cluster: Installed, *, offset: int = 0) -> list[Body]:
    """Read the requests of our accounts, from a size of the log on."""
    assert cluster.audit_log, "this proof needs the API server's audit log"
    with cluster.audit_log.open() as log:
        log.seek(offset)
        complete_lines = (
            text for text in log if text.endswith("\n")
        )  # the last one may be half written
        return [entry for entry in map(json.loads, complete_lines) if _is_ours(entry)]


def size(cluster: Installed) -> int:
    assert cluster.audit_log, "this proof needs the API server's audit log"
    return cluster.audit_log.stat().st_size


@contextmanager
def refusals_expected(cluster: Installed) -> Iterator[None]:
    """Note the time of the block, in which the installation loses rights on purpose."""
    begin = datetime.now(UTC)
    try:
        yield
    finally:
        with _expected_refusals(cluster).open("a") as file:
            file.write(f"{begin.isoformat()} {datetime.now(UTC).isoformat()}\n")


def unexpected_refusals(cluster: Installed) -> list[str]:
    """List the requests that were forbidden while the installation had all its rights."""
    path = _expected_refusals(cluster)
    lines = path.read_text().splitlines() if path.exists() else []
    periods = [tuple(map(datetime.fromisoformat, text.split())) for text in lines]
    return [
        line(entry)
        for entry in read_entries(cluster)
        if entry["annotations"][DECISION] == "forbid"
        and not any(begin <= _received_at(entry) <= end for begin, end in periods)
    ]


def _expected_refusals(cluster: Installed) -> Path:
    assert cluster.audit_log, "this proof needs the API server's audit log"
    return cluster.audit_log.with_name("expected-refusals")


def _received_at(entry: Body) -> datetime:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def is_write(entry: Body) -> bool:
    """Tell whether a request changes an object; Leases and reviews of tokens do not count."""
    return entry["verb"] in CHANGES and entry["objectRef"]["resource"] not in {
        "leases",
        "tokenreviews",
    }


def writes_about(entries: Sequence[Body], namespace: str, *, uids: Collection[str]) -> list[str]:
    """List the writes of objects of a namespace, and of those that all namespaces share.

    Args:
        entries: Requests of our accounts, in the order of the log.
        namespace: The namespace whose objects are at rest. The objects of other namespaces are not
            listed, nor are the outboxes of their runs in the installation's namespace.
        uids: The UIDs of objects at rest, one of which may be in the name of an outbox.

    A Lease is listed if it is written more often than once a period.
    """
    namespaces = {namespace, KAIS_NAMESPACE, None}
    own_ids = {names.short_hash(namespace), *uids}
    writes = [
        line(entry)
        for entry in entries
        if is_write(entry)
        and entry["objectRef"].get("namespace") in namespaces
        and not _is_outbox_of_others(entry["objectRef"], own_ids)
    ]
    return writes + _frequent_leases(entries)


def _is_outbox_of_others(ref: Body, own_ids: Collection[str]) -> bool:
    """Return whether an object is an outbox whose name contains none of our ids."""
    name = str(ref.get("name"))
    return (
        ref["resource"] == "configmaps"
        and name.startswith(OUTBOX_PREFIX)
        and not any(own_id in name for own_id in own_ids)
    )


def _frequent_leases(entries: Sequence[Body]) -> list[str]:
    """Describe the Leases that were written more often than once a period, and once more."""
    times: defaultdict[str, list[datetime]] = defaultdict(list)
    for entry in entries:
        ref = entry.get("objectRef", {})
        if ref.get("resource") == "leases" and entry["verb"] in CHANGES:
            times[ref["name"]].append(_received_at(entry))
    texts = []
    for name, written in times.items():
        seconds = (max(written) - min(written)).total_seconds()
        # A period begins when the write before it has ended, but a slow write may be logged late.
        if len(written) > seconds / LEASE_PERIODS_S.get(name, math.inf) + 2:
            texts.append(f"leases {name} was written {len(written)} times in {seconds:.0f} s")
    return texts


def line(entry: Body) -> str:
    ref = entry.get("objectRef", {})
    target = (
        f"{ref.get('resource')}/{ref.get('subresource')} {ref.get('namespace')}/{ref.get('name')}"
    )
    return (
        f"{entry['requestReceivedTimestamp']} {entry['user']['username']} {entry['verb']} {target}"
    )


def _is_ours(entry: Body) -> bool:
    return str(entry["user"]["username"]).startswith(f"system:serviceaccount:{KAIS_NAMESPACE}:")
