"""How a mission's work is judged: the checks that must hold after it, and the reviewer's word."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kais.resources.base import Model, Rule
from kais.resources.field_types import Bool, Int, Line, Name, Number, Text


class CheckType(StrEnum):
    """What a completion check looks at."""

    FILE_EXISTS = "fileExists"
    COMMAND = "command"
    COVERAGE = "coverage"
    RESPONSE = "response"
    NATS_RESPONSE = "natsResponse"


class CheckStatus(StrEnum):
    """How a check stands; Error means that it could not be judged."""

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
        description="what the check is called in status; each name stands once"
    )
    type: CheckType = Field(
        description=(
            "fileExists looks for paths, command judges a command, coverage compares a number of "
            "its JSON, response (or natsResponse) looks at the cell's answer"
        )
    )
    paths: Annotated[list[Line], Field(max_length=100)] | None = Field(
        default=None, description="files that must exist, inside the workspace only"
    )
    command: Text | None = Field(
        default=None,
        description=(
            "text for the shell (sh -c) of the cell's image, run beside the work and never "
            "elsewhere; an image without a shell needs argv"
        ),
    )
    argv: Annotated[list[Text], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="the command as a list, run without a shell; excludes command",
    )
    success_pattern: Line | None = Field(
        default=None, description="passes when the output matches; looked at after failPattern"
    )
    fail_pattern: Line | None = Field(
        default=None, description="fails when the output matches; looked at first"
    )
    json_path: Line | None = Field(
        default=None, description="dot path to the number in the JSON that the command prints"
    )
    operator: Annotated[str, Field(pattern=r"^(>=|<=|==|>|<)$", max_length=2)] | None = Field(
        default=None, description="how the number is compared with value: >= <= == > <"
    )
    value: Number | None = Field(default=None, description="what the number is compared with")
    subject: Line | None = Field(
        default=None, description="address whose answer is meant; kept for old manifests"
    )
    timeout_seconds: Annotated[Int, Field(ge=1, le=86400)] | None = Field(
        default=None,
        description=(
            "time for this check, past which it is Error; unset is 300 for command and coverage, "
            "30 for the others"
        ),
    )


class Review(Model):
    """A judgement that somebody gives after the checks."""

    enabled: Bool = Field(description="whether the mission waits for a verdict")
    reviewer: Name = Field(description="who judges: a cell of the formation, or a person's name")
    criteria: Text = Field(description="what the reviewer is asked to judge by")


class CheckResult(Model):
    """How one check stands."""

    name: Annotated[str, Field(max_length=63)] = Field(description="the check's name")
    status: CheckStatus = Field(description="how it stands; Error means it could not be judged")
    message: Text | None = Field(default=None, description="what it saw, in few words")


class ReviewStatus(StrEnum):
    """How the review stands."""

    PENDING = "Pending"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class ReviewResult(Model):
    """The reviewer's judgement."""

    status: ReviewStatus = Field(description="how the review stands")
    feedback: Text | None = Field(
        default=None, description="the reviewer's words; the next attempt is given them"
    )
