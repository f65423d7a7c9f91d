"""The revisions of one Blueprint: which is the present one, which serves, which may go.

Pure rules over the kept revisions. Going back to an older spec makes no new revision: the one that
has it becomes the present one again, whatever its number, and serves.
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

_CHANGES_LIMIT, _BREAKING_LIMIT, _BREAKING_COUNT = 65_536, 1024, 200  # bounds of the fields


@dataclass(frozen=True)
class Verdict:
    """Whether a template can be rendered, and what the condition says of it.

    Attributes:
        retry_after: when it is compiled again, after a limit of time or a dead worker.
        is_unmade: the revision itself could not be stored, whatever its template is worth.
    """

    is_good: bool
    reason: Reason
    message: str
    retry_after: timedelta | None = None
    is_unmade: bool = False


def revision_of_spec(
    spec: BlueprintSpec, revisions: Sequence[BlueprintRevision]
) -> BlueprintRevision | None:
    """Find the revision that keeps this spec, the newest of several; None when there is none."""
    spec_hash = blueprint_revision.hash_of(spec)
    matches = [r for r in revisions if blueprint_revision.hash_of(r.spec) == spec_hash]
    return max(matches, key=number_of, default=None)


def needs_ledger(blueprint: Blueprint, revisions: Sequence[BlueprintRevision]) -> bool:
    """Whether only the ledger can say which numbers were given to specs of this name before.

    A Blueprint that is new, or was made again and of which no revision is left, has no memory of
    its own. A number that is given twice would show the statistics of another spec.
    """
    return not revisions and not annotated(blueprint, labels.LAST_REVISION)


def next_number(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, ledger: int | None
) -> int:
    """Give a number that no other spec of this name ever had, as far as anybody remembers.

    The last number is given again when its revision is missing and it was this very spec's: after
    a crash before the revision was made, or a restore that brings the Blueprint first.
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
    """Choose the number that serves: the present one, else the last that did, else the newest."""
    for number in (present, annotated, *sorted(verdicts, reverse=True)):
        if number in verdicts and verdicts[number].is_good:
            return number
    return None


def order_to_compile(
    revisions: Sequence[BlueprintRevision], *, present: int | None, annotated: int
) -> list[BlueprintRevision]:
    """List revisions in the order in which `serving` asks for them; the first good one ends it."""
    by_number = {number_of(r): r for r in revisions}
    order = dict.fromkeys([present, annotated, *sorted(by_number, reverse=True)])
    return [by_number[number] for number in order if number in by_number]


def beyond_limit(
    revisions: Sequence[BlueprintRevision], *, limit: int, protected: Collection[int | None]
) -> list[BlueprintRevision]:
    """List what is older than the newest `limit` and not in `protected`, oldest first."""
    by_age = sorted(revisions, key=number_of)
    old = by_age[: max(0, len(by_age) - limit)]
    return [revision for revision in old if number_of(revision) not in protected]


def revision_body(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, number: int
) -> Body:
    """Make the revision of a Blueprint's present spec, with what it changes in words.

    It has no owner: it outlives its Blueprint while anybody uses it.
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
    """Give the labels that a revision carries, by which it is found."""
    return {
        labels.MANAGED_BY: labels.MANAGER,
        labels.BLUEPRINT: names.label_value(revision.spec.blueprint),
        labels.REVISION: str(revision.spec.revision),
        labels.SPEC_HASH: blueprint_revision.hash_of(revision.spec),
    }


def annotated(blueprint: Blueprint, annotation: str) -> int:
    """Read a number that the operator left on the Blueprint, 0 when there is none."""
    return annotation_values.parse_digits(blueprint.metadata.annotations.get(annotation)) or 0


def number_of(revision: BlueprintRevision) -> int:
    """Give the number of a revision."""
    return revision.spec.revision
