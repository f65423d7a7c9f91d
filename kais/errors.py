"""The errors of the domain.

    KaisError
    ├── InvalidResource     an object or its parameters break rules; carries every violation
    └── in `kais.templates.limits`
        ├── TemplateFailed  leaves of a template cannot be rendered
        ├── CapExceeded     a rendering would take more than it may
        └── Refused         a template asks for what it may not touch

Not answering, not ready and conflicting are told by whoever talks to the cluster or the store:
`kais_operator.errors`, `knowledge_client.errors`.

A user's mistake that a decision meets becomes a condition, never an exception: these are for the
edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass


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
