"""How a mission's work is evaluated: the checks after it, and the review."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kais.resources.base import Model, Rule
from kais.resources.field_types import Bool, Int, Line, Name, Number, Text


class CheckType(StrEnum):
    """The subject of a completion check."""

    FILE_EXISTS = "fileExists"
    COMMAND = "command"
    COVERAGE = "coverage"
    RESPONSE = "response"
    NATS_RESPONSE = "natsResponse"


class CheckStatus(StrEnum):
    """The status of a check; Error means that it could not be evaluated."""

    PENDING = "Pending"
    PASSED = "Passed"
    FAILED = "Failed"
    ERROR = "Error"


class Check(Model):
    """One thing that must hold after the work."""

    RULES = (
        Rule(
            "self.type != 'fileExists' || (has(self.paths) && self.paths.size() > 0)",
            "a fileExists check needs paths",
            lambda c: c.type != CheckType.FILE_EXISTS or bool(c.paths),
        ),
        Rule(
            "!(self.type in ['command', 'coverage']) || has(self.command) != has(self.argv)",
            "a command or coverage check needs exactly one of command and argv",
            lambda c: (
                c.type not in {CheckType.COMMAND, CheckType.COVERAGE}
                or (c.command is None) != (c.argv is None)
            ),
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the check, unique within the mission."
    )
    type: CheckType = Field(
        description=(
            "Type of the check: fileExists looks for files, command evaluates a command, "
            "coverage compares a number in a command's JSON output, response (or "
            "natsResponse) evaluates the cell's answer."
        )
    )
    paths: Annotated[list[Line], Field(max_length=100)] | None = Field(
        default=None, description="Files that must exist, inside the workspace only."
    )
    command: Text | None = Field(
        default=None,
        description=(
            "Command line for the shell (sh -c) of the cell's image, run in the pod of the "
            "work. Use argv if the image has no shell."
        ),
    )
    argv: Annotated[list[Text], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Command and arguments, run without a shell. Excludes command.",
    )
    success_pattern: Line | None = Field(
        default=None,
        description=(
            "Regular expression: the check passes if the output matches. failPattern takes "
            "precedence."
        ),
    )
    fail_pattern: Line | None = Field(
        default=None,
        description=(
            "Regular expression: the check fails if the output matches. It takes precedence "
            "over successPattern."
        ),
    )
    json_path: Line | None = Field(
        default=None,
        description="Dot-separated path to the number in the JSON output of the command.",
    )
    operator: Annotated[str, Field(pattern=r"^(>=|<=|==|>|<)$", max_length=2)] | None = Field(
        default=None, description="Operator that compares the number with value: >= <= == > <"
    )
    value: Number | None = Field(default=None, description="Number to compare with.")
    subject: Line | None = Field(
        default=None, description="Address of the answer. Accepted for compatibility."
    )
    timeout_seconds: Annotated[Int, Field(ge=1, le=86400)] | None = Field(
        default=None,
        description=(
            "Timeout of the check in seconds; a check that exceeds it is an Error. Default: "
            "300 for command and coverage, otherwise 30."
        ),
    )


class Review(Model):
    """The settings of the review after the checks."""

    enabled: Bool = Field(description="Whether the mission waits for a review.")
    reviewer: Name = Field(
        description=(
            "Reviewer: a cell template or a cell of the formation, or the name of a person. A cell "
            "that serves A2A is asked for a verdict. The entry cell cannot review itself."
        )
    )
    criteria: Text = Field(description="Instructions for the reviewer.")


class CheckResult(Model):
    """The state of one check."""

    name: Annotated[str, Field(max_length=63)] = Field(description="Name of the check.")
    status: CheckStatus = Field(
        description="Result of the check. Error means that it could not be evaluated."
    )
    message: Text | None = Field(default=None, description="Short explanation of the result.")


class ReviewStatus(StrEnum):
    """The status of a review."""

    PENDING = "Pending"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class ReviewResult(Model):
    """The verdict of the reviewer."""

    status: ReviewStatus = Field(description="State of the review.")
    feedback: Text | None = Field(
        default=None, description="Feedback of the reviewer, passed to the next attempt."
    )
    by: Line | None = Field(
        default=None,
        description=(
            "User who gave the verdict, as the API server knows them. Missing if the installation "
            "has no admission policy that requires the name."
        ),
    )
