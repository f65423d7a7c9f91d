"""What the operator and the knowledge service asked of the API server, from its audit log."""

import json

from e2e.support.installed import KAIS_NAMESPACE, Body, Installed


def entries(cluster: Installed, *, after: int = 0) -> list[Body]:
    """Read the requests of our accounts, from a size of the log on."""
    assert cluster.audit_log, "this proof needs the API server's audit log"
    with cluster.audit_log.open() as log:
        log.seek(after)
        whole = (text for text in log if text.endswith("\n"))  # the last one may be half written
        return [entry for entry in map(json.loads, whole) if _is_ours(entry)]


def size(cluster: Installed) -> int:
    assert cluster.audit_log, "this proof needs the API server's audit log"
    return cluster.audit_log.stat().st_size


def is_write(entry: Body) -> bool:
    """Tell whether a request changes an object; Leases and reviews of tokens do not count."""
    changes = entry["verb"] in {"create", "update", "patch", "delete"}
    return changes and entry["objectRef"]["resource"] not in {"leases", "tokenreviews"}


def line(entry: Body) -> str:
    ref = entry.get("objectRef", {})
    where = (
        f"{ref.get('resource')}/{ref.get('subresource')} {ref.get('namespace')}/{ref.get('name')}"
    )
    return (
        f"{entry['requestReceivedTimestamp']} {entry['user']['username']} {entry['verb']} {where}"
    )


def _is_ours(entry: Body) -> bool:
    return str(entry["user"]["username"]).startswith(f"system:serviceaccount:{KAIS_NAMESPACE}:")
