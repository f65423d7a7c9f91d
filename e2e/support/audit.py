"""What the operator and the knowledge service asked of the API server, from its audit log."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from e2e.support.installed import KAIS_NAMESPACE, Body, Installed

DECISION = "authorization.k8s.io/decision"


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
    changes = entry["verb"] in {"create", "update", "patch", "delete"}
    return changes and entry["objectRef"]["resource"] not in {"leases", "tokenreviews"}


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
