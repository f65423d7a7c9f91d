"""Structural tension charts: their entities, and what the data of these means. Pure.

The entities of a chart are named by its id: `{id}_chart`, `{id}_desired_outcome`,
`{id}_current_reality` and `{id}_action_{number}`. The first observation of each by its own writer
is its title, and its data has the further fields of the design.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from knowledge_client.models import Fact

CHART, OUTCOME, REALITY, STEP = (
    "structural_tension_chart",
    "desired_outcome",
    "current_reality",
    "action_step",
)
CONTAINS = "contains"
TELESCOPES_INTO = "telescopes_into"
_MAX_LEVEL = 1_000_000
# Words that state a problem instead of an outcome. As in the design, they match parts of words.
_PROBLEM_WORDS = ("fix", "solve", "eliminate", "prevent", "stop", "avoid", "reduce", "remove")
_READINESS_WORDS = ("ready to", "prepared to", "all set", "ready for", "set to")


@dataclass(frozen=True)
class Part:
    """An entity of a chart with its observations as (fact id, text), in order.

    `title_id` is the observation that is its title; None if that was deleted.
    """

    fact_id: str
    name: str
    type: str
    observations: tuple[tuple[str, str], ...]
    data: Mapping[str, Any]
    position: int = 0
    title_id: str | None = None

    @property
    def title(self) -> str:
        """The text of the title, or the name of an entity without one."""
        return next(
            (text for observation_id, text in self.observations if observation_id == self.title_id),
            self.name,
        )

    @property
    def progress(self) -> tuple[str, ...]:
        """The observations beside the title."""
        return tuple(
            text for observation_id, text in self.observations if observation_id != self.title_id
        )

    @property
    def number(self) -> int:
        """The number of a step in its chart; a renamed step has it only in its data."""
        number = self.data.get("number")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return number
        return _number(self.name)

    @property
    def is_complete(self) -> bool:
        """Whether the part was completed."""
        return bool(self.data.get("completionStatus"))


@dataclass(frozen=True)
class StoredChart:
    """A chart as it is stored."""

    id: str
    scope: str
    chart: Part
    outcome: Part
    reality: Part
    steps: tuple[Part, ...]


@dataclass(frozen=True)
class Origin:
    """The chart and the step that a chart is telescoped from."""

    chart: StoredChart
    step: Part


def advise(outcome: str | None, realities: Sequence[str]) -> tuple[str, ...]:
    """Return advice on creative orientation; it refuses nothing."""
    advice = []
    problems = [word for word in _PROBLEM_WORDS if word in (outcome or "").lower()]
    if problems:
        advice.append(
            f"The desired outcome speaks of a problem ({', '.join(problems)}). Name what you want"
            " to create, not what you want to be rid of."
        )
    readiness = [
        word for word in _READINESS_WORDS if any(word in text.lower() for text in realities)
    ]
    if readiness:
        advice.append(
            f"The current reality speaks of readiness ({', '.join(readiness)}). Say what is true"
            " now, also where it falls short."
        )
    return tuple(advice)


def choose_title(entity: Fact, observations: Sequence[Fact]) -> str | None:
    """Return the observation that is the title of an entity, or None.

    Others may observe the entity, also from their own scopes and at any position. Only observations
    in the scope of the entity count; the best is the one at position 0 by the entity's own writer.
    """
    in_entity_scope = [each for each in observations if each.scope == entity.scope]
    best = min(
        in_entity_scope,
        key=lambda each: (each.position != 0, _writer_of(each) != _writer_of(entity)),
        default=None,
    )
    return best.id if best else None


def _writer_of(fact: Fact) -> str | None:
    return fact.source.author or fact.source.actor


def sort_steps(steps: Iterable[Part]) -> tuple[Part, ...]:
    """Return steps in the order of their creation."""
    return tuple(sorted(steps, key=lambda step: (step.number, step.name)))


def parse_time(value: object) -> datetime | None:
    """Return a time of the data of an entity, in UTC; None if it is missing or no time.

    A time without a zone is in UTC.
    """
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def parse_level(value: object) -> int:
    """Return the level of the data of a chart; 0 if it is missing or no level."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_LEVEL:
        return value
    return 0


def parse_text(value: object) -> str | None:
    """Return a text of the data of an entity; None if it is missing or no text."""
    return value if isinstance(value, str) and value else None


def _number(name: str) -> int:
    last = name.rpartition("_")[2]
    return int(last) if re.fullmatch(r"[0-9]{1,9}", last) else 0
