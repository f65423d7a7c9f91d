"""Decides which texts of structural tension charts are true, for injection into runs. Pure.

A chart names its parts, and plans: the desired outcome and the open action steps are not true yet.
The current reality, into which every completion flows, and the progress of steps are true.
"""

from __future__ import annotations

from knowledge_service.domain.charts import CHART, OUTCOME, REALITY, STEP

ENTITY, OBSERVATION, SCHEMA = "entity", "observation", "graph/1"
NAMED_PARTS = (CHART, OUTCOME, REALITY, STEP)
"""Types of entities whose names are ids."""
UNTRUE_TITLES = {
    CHART: "it only says when a chart was created",
    OUTCOME: "it is the desired outcome of a chart",
    STEP: "it is an action step of a chart",
}
"""Why the title of an entity of a type states nothing that is true."""


def reason_untrue(
    kind: str, schema: str | None, subject: str | None, title_of: str | None
) -> str | None:
    """Return why a fact states nothing true, as a clause; None if it may state something true.

    `title_of` is the type of the entity whose title the fact is.
    """
    if (kind, schema) == (ENTITY, SCHEMA) and subject in NAMED_PARTS:
        return "it is the name of a part of a chart"
    return UNTRUE_TITLES.get(title_of or "")


def is_title(kind: str, position: int | None) -> bool:
    """Return whether a fact is the title of the entity that it is about."""
    return kind == OBSERVATION and position == 0
