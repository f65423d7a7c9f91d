"""The errors of the domain.

    KaisError
    ├── InvalidResource     an object or its parameters break rules; carries every violation
    ├── NotReady            something that is needed is not there yet; carries when to look again
    ├── Conflict            somebody else owns or changed what was to be written
    ├── KnowledgeUnavailable   the knowledge service does not answer
    └── ExtractionFailed    a run's facts could not be extracted

A user's mistake that a decision meets becomes a condition, never an exception: these are for the
edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta


class KaisError(Exception):
    """Everything that kais raises on purpose."""


@dataclass(frozen=True)
class Violation:
    """One broken rule: where it was broken and in which words to say so."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidResource(KaisError):
    """An object breaks rules.

    Attributes:
        subject: `kind/namespace/name` of the object, or what else was checked.
        violations: Every broken rule, in the order of the object's fields.
    """

    def __init__(self, subject: str, violations: Sequence[Violation]) -> None:
        self.subject = subject
        self.violations = tuple(violations)
        super().__init__(f"{subject}: " + "; ".join(str(violation) for violation in violations))


class NotReady(KaisError):
    """What is needed is not there yet; looking again after `requeue_after` may find it."""

    def __init__(self, reason: str, *, requeue_after: timedelta) -> None:
        self.reason = reason
        self.requeue_after = requeue_after
        super().__init__(reason)


class Conflict(KaisError):
    """The object exists with another owner or changed since it was read."""


class KnowledgeUnavailable(KaisError):
    """The knowledge service does not answer; what it was to be told waits or goes to the outbox."""


class ExtractionFailed(KaisError):
    """The facts of a run could not be extracted; the run's outcome stays what it was."""
