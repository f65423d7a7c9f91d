"""When a revision that nobody names is marked, kept and deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kais import labels
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.field_types import rfc3339
from kais_operator.controllers.blueprint.decide import revision_gc
from kais_operator.planning.plan import Delete, PatchMetadata
from tests.fakes import blueprints

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DUE = rfc3339(NOW + revision_gc.GRACE)
LATER_RFC3339 = rfc3339(NOW + timedelta(seconds=1))

CASES: dict[str, tuple[str | None, bool, str]] = {
    "a revision that nobody names is marked": (None, True, f"mark {DUE}"),
    "a mark that is not due stays": (LATER_RFC3339, True, "nothing"),
    "a mark that is due deletes": (rfc3339(NOW), True, "delete"),
    "a mark that somebody broke is written again": ("soon", True, f"mark {DUE}"),
    "a mark without a time zone is written again": ("2020-01-01T00:00:00", True, f"mark {DUE}"),
    "a revision that is named again loses its mark": (rfc3339(NOW), False, "unmark"),
    "a revision that is named stays": (None, False, "nothing"),
}


def revision(due: str | None) -> BlueprintRevision:
    body = blueprints.revision(1)
    if due is not None:
        body["metadata"]["annotations"] = {labels.COLLECT_AFTER: due}
    return BlueprintRevision.from_dict(body)


@pytest.mark.parametrize(("due", "is_unnamed", "expected"), CASES.values(), ids=CASES)
def test_a_revision(due: str | None, is_unnamed: bool, expected: str) -> None:
    blueprint_revision = revision(due)
    actions = revision_gc.decide(
        [blueprint_revision], unnamed=[blueprint_revision] if is_unnamed else [], now=NOW
    )
    described = []
    for action in actions:
        if isinstance(action, Delete):
            described.append("delete")
        elif isinstance(action, PatchMetadata) and action.annotations is not None:
            due_at = action.annotations[labels.COLLECT_AFTER]
            described.append("unmark" if due_at is None else f"mark {due_at}")
    assert (described or ["nothing"]) == [expected]
