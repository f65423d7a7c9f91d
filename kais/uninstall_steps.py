"""The changes that an uninstall makes: it ends runs and removes our finalizers.

The chart's pre-delete hook and `kais uninstall` take the same steps. No object of a user is
deleted. Of the operator's own objects, only the Jobs of unfinished runs are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from kais import labels

Body = Mapping[str, Any]

REASON: Final = "kais is being uninstalled"
FINALIZED_KINDS: Final = ("Mission", "KnowledgeScope")
"""The kinds that the operator puts its finalizer on."""


EXPIRY_S: Final = 30.0
"""A Lease that was not renewed for so long has expired; twice what it is valid."""


def is_led(lease: Body | None, now: datetime) -> bool:
    """Whether an operator holds a Lease that was renewed recently; `now` must be aware.

    It compares the clocks of two machines, so it may be wrong: it only decides whether to wait for
    runs to end.
    """
    renewed = _spec(lease).get("renewTime")
    if not renewed or not is_held(lease):
        return False
    age = now - datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    return age < timedelta(seconds=EXPIRY_S)


def is_held(lease: Body | None) -> bool:
    """Whether a Lease names a holder: an operator that leads, or that ended without releasing it.

    If the Lease is not renewed for `EXPIRY_S` of the reader's monotonic clock, no operator leads.
    """
    return bool(_spec(lease).get("holderIdentity"))


def is_renewed(lease: Body, earlier: Body) -> bool:
    """Whether an operator holds a Lease and has renewed it since `earlier` was read."""
    return is_held(lease) and _spec(lease).get("renewTime") != _spec(earlier).get("renewTime")


def waiting_message(lease: Body) -> str:
    """Return what an uninstall waits for while an operator holds the Lease."""
    metadata, holder = lease["metadata"], lease["spec"]["holderIdentity"]
    return (
        f"Lease/{metadata['namespace']}/{metadata['name']}: waiting {EXPIRY_S:.0f} s for the Lease"
        f" of {holder} to expire"
    )


def running_message(lease: Body) -> str:
    """Return why an uninstall ends while an operator renews its Lease."""
    metadata, holder = lease["metadata"], lease["spec"]["holderIdentity"]
    return (
        f"Lease/{metadata['namespace']}/{metadata['name']}: {holder} still leads and would put its"
        f" finalizers back, so none was removed; stop the operator {holder}, then run it again"
    )


def _spec(lease: Body | None) -> Body:
    return (lease or {}).get("spec") or {}


def is_under_way(mission: Body) -> bool:
    """Whether a Mission has an unfinished run."""
    annotations = mission["metadata"].get("annotations") or {}
    return labels.RUN_ID in annotations and labels.OUTCOME not in annotations


def is_unsettled(mission: Body) -> bool:
    """Whether a Mission has an unfinished run, or one whose end is not recorded yet.

    The operator keeps its finalizer on a Mission until the run is closed in the ledger.
    """
    metadata = mission["metadata"]
    has_finalizer = labels.FINALIZER in (metadata.get("finalizers") or [])
    has_run = labels.RUN_ID in (metadata.get("annotations") or {})
    return is_under_way(mission) or (has_finalizer and has_run)


def abort_patch(mission: Body) -> dict[str, Any] | None:
    """Return the merge patch that aborts the run of a Mission; None if nothing needs to be done."""
    annotations = mission["metadata"].get("annotations") or {}
    if not is_under_way(mission) or labels.ABORT in annotations:
        return None
    return {"metadata": {"annotations": {labels.ABORT: REASON}}}


def remove_finalizer_patch(body: Body) -> dict[str, Any] | None:
    """Return the merge patch that removes our finalizer; None when the object has none.

    It applies only to the resourceVersion that was read, so finalizers added meanwhile remain.
    """
    metadata = body["metadata"]
    finalizers = metadata.get("finalizers") or []
    if labels.FINALIZER not in finalizers:
        return None
    finalizers_left = [finalizer for finalizer in finalizers if finalizer != labels.FINALIZER]
    return {
        "metadata": {"finalizers": finalizers_left, "resourceVersion": metadata["resourceVersion"]}
    }


def is_orphaned(job: Body) -> bool:
    """Whether a Job is an unfinished attempt of a Mission, with no operator to end it."""
    metadata, status = job["metadata"], job.get("status") or {}
    is_managed = (metadata.get("labels") or {}).get(labels.MANAGED_BY) == labels.MANAGER
    owners = metadata.get("ownerReferences") or []
    is_attempt = any(owner.get("controller") and owner["kind"] == "Mission" for owner in owners)
    ended = {
        condition["type"]
        for condition in status.get("conditions") or []
        if condition["status"] == "True"
    }
    return is_managed and is_attempt and not ended & {"Complete", "Failed"}
