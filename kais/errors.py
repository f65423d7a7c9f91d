"""The errors of the domain.

    KaisError
    ├── InvalidResource     an object or its parameters break rules; contains all violations
    └── in `kais.templates.limits`
        ├── TemplateFailed  leaves of a template cannot be rendered
        ├── CapExceeded     a rendering exceeded a cap
        └── Refused         a template uses a forbidden operation

Errors about a server that does not answer, is not ready or reports a conflict are defined by its
clients: `kais_operator.errors`, `knowledge_client.errors`.

A user's mistake that a decision finds becomes a condition, never an exception; these errors are
for the modules around the decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class KaisError(Exception):
    """The base class of the errors that kais raises on purpose."""


@dataclass(frozen=True)
class Violation:
    """One broken rule: its location and its message."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidResource(KaisError):
    """An object breaks rules.

    Attributes:
        subject: `kind/namespace/name` of the object, or another description of what was checked.
        violations: All broken rules, in the order of the object's fields.
    """

    def __init__(self, subject: str, violations: Sequence[Violation]) -> None:
        self.subject = subject
        self.violations = tuple(violations)
        super().__init__(f"{subject}: " + "; ".join(str(violation) for violation in violations))
