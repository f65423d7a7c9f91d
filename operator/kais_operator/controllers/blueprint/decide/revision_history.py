"""Rules about a Blueprint's revisions: which is present, which is served, which may be deleted.

The rules are pure. Returning to an older spec creates no revision: the one with that spec becomes
the present one again, whatever its number, and is served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kais import compatibility, labels, names
from kais.conditions import Reason
from kais.resources import blueprint_revision
from kais.resources.base import API_VERSION
from kais.resources.blueprint import Blueprint, BlueprintSpec
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body

_CHANGES_LIMIT, _BREAKING_LIMIT, _BREAKING_COUNT = 65_536, 1024, 200  # limits of the fields


@dataclass(frozen=True)
class Verdict:
    """Whether a template can be rendered, with the reason and message of the condition.

    Attributes:
        is_good: whether it compiles.
        reason: the reason of the condition.
        message: the message of the condition.
        retry_after: delay until it is compiled again, after a timeout or a dead worker.
        is_not_created: whether the revision itself cannot be created, even if its template
            compiles.
    """

    is_good: bool
    reason: Reason
    message: str
    retry_after: timedelta | None = None
    is_not_created: bool = False


def revision_of_spec(
    spec: BlueprintSpec, revisions: Sequence[BlueprintRevision]
) -> BlueprintRevision | None:
    """Return the newest revision with this spec; None without one."""
    spec_hash = blueprint_revision.hash_of(spec)
    matches = [r for r in revisions if blueprint_revision.hash_of(r.spec) == spec_hash]
    return max(matches, key=number_of, default=None)


def needs_ledger(blueprint: Blueprint, revisions: Sequence[BlueprintRevision]) -> bool:
    """Whether only the ledger knows which numbers specs of this name have had.

    This is so for a new Blueprint, and for one that was created again and has no revision left. A
    number that is used twice would show the statistics of another spec.
    """
    return not revisions and not annotated(blueprint, labels.LAST_REVISION)


def next_number(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, ledger: int | None
) -> int:
    """Return a number that no other spec of this name has had, as far as this is recorded.

    The last number is used again if it was recorded for this same spec and its revision is missing.
    This happens after a crash before the revision was created, or a restore that starts with the
    Blueprint.
    """
    last = annotated(blueprint, labels.LAST_REVISION)
    highest_used = max(max((number_of(r) for r in revisions), default=0), ledger or 0)
    is_of_this_spec = blueprint.metadata.annotations.get(
        labels.LAST_REVISION_HASH
    ) == blueprint_revision.hash_of(blueprint.spec)
    if is_of_this_spec and last >= highest_used and all(number_of(r) != last for r in revisions):
        return last
    return 1 + max(highest_used, last)


def serving(verdicts: Mapping[int, Verdict], *, present: int, annotated: int) -> int | None:
    """Choose the served number: the present one, else the last served one, else the newest."""
    for number in (present, annotated, *sorted(verdicts, reverse=True)):
        if number in verdicts and verdicts[number].is_good:
            return number
    return None


def order_to_compile(
    revisions: Sequence[BlueprintRevision], *, present: int | None, annotated: int
) -> list[BlueprintRevision]:
    """Return revisions as `serving` prefers them; compiling may end at the first good one."""
    by_number = {number_of(r): r for r in revisions}
    order = dict.fromkeys([present, annotated, *sorted(by_number, reverse=True)])
    return [by_number[number] for number in order if number in by_number]


def beyond_limit(
    revisions: Sequence[BlueprintRevision], *, limit: int, protected: Collection[int | None]
) -> list[BlueprintRevision]:
    """Return revisions beyond the newest `limit` that are not `protected`, oldest first."""
    by_age = sorted(revisions, key=number_of)
    old = by_age[: max(0, len(by_age) - limit)]
    return [revision for revision in old if number_of(revision) not in protected]


def revision_body(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, number: int
) -> Body:
    """Build the revision of a Blueprint's present spec, with a description of its changes.

    It has no owner, because it outlives its Blueprint while it is in use.
    """
    previous = max(revisions, key=number_of, default=None)
    name = blueprint.metadata.name
    spec: Body = {"blueprint": name, "revision": number}
    if previous is not None:
        comparison = compatibility.compare(previous.spec, blueprint.spec)
        changes = comparison.changes[:_CHANGES_LIMIT] or "nothing that affects rendering"
        breaking = [change[:_BREAKING_LIMIT] for change in comparison.breaking[:_BREAKING_COUNT]]
        spec |= {"changes": changes, "breaking": breaking}
    return {
        "apiVersion": API_VERSION,
        "kind": "BlueprintRevision",
        "metadata": {
            "name": names.revision_name(name, number),
            "namespace": blueprint.metadata.namespace,
            "labels": {
                labels.MANAGED_BY: labels.MANAGER,
                labels.BLUEPRINT: names.label_value(name),
                labels.REVISION: str(number),
                labels.SPEC_HASH: blueprint_revision.hash_of(blueprint.spec),
            },
        },
        "spec": {**spec, **blueprint_revision.template_of(blueprint.spec)},
    }


def labels_of(revision: BlueprintRevision) -> dict[str, str]:
    """Return the labels of a revision, by which it is found."""
    return {
        labels.MANAGED_BY: labels.MANAGER,
        labels.BLUEPRINT: names.label_value(revision.spec.blueprint),
        labels.REVISION: str(revision.spec.revision),
        labels.SPEC_HASH: blueprint_revision.hash_of(revision.spec),
    }


def annotated(blueprint: Blueprint, annotation: str) -> int:
    """Return a number that the operator recorded on the Blueprint; 0 without the annotation."""
    return annotation_values.parse_digits(blueprint.metadata.annotations.get(annotation)) or 0


def last_served(blueprint: Blueprint) -> int:
    """Return the number that served until now; 0 without one.

    `kubectl replace` removes the annotation and keeps the status.
    """
    number = annotated(blueprint, labels.SERVED_REVISION)
    return number or blueprint.status.served_revision or 0


def number_of(revision: BlueprintRevision) -> int:
    """Return the number of a revision."""
    return revision.spec.revision
