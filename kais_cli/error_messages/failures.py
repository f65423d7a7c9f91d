"""Any exception of a command as the error that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic
import typer

from kais.errors import InvalidResource
from kais_cli import errors

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def explain(failure: Exception) -> errors.CliError:
    """Choose the words and the exit status for what ended a command."""
    if isinstance(failure, errors.CliError):
        return failure
    if isinstance(failure, InvalidResource):
        return errors.Refused(format_violations(failure))
    if isinstance(failure, pydantic.ValidationError):  # of a body made from the arguments
        return errors.UsageError(format_validation_error(failure))
    if isinstance(failure, typer.Abort):
        return errors.UsageError("aborted")
    return errors.CliError(
        f"unexpected: {type(failure).__name__}: {failure};"
        " run it again with --traceback and report what it shows"
    )


def format_violations(failure: InvalidResource) -> str:
    """Write every violation on a line of its own below the subject."""
    listed = "".join(f"\n  {violation}" for violation in failure.violations)
    return f"{failure.subject} is not valid:{listed}"


def format_validation_error(failure: pydantic.ValidationError) -> str:
    """Write every violation behind the name of its field."""
    details = failure.errors(include_url=False)
    return "; ".join(
        f"{'.'.join(str(step) for step in d['loc'])}: {_describe_violation(d)}" for d in details
    )


def _describe_violation(detail: ErrorDetails) -> str:
    """Say a violation as a person at a terminal would; the rest is in pydantic's words."""
    if detail["type"] == "string_unicode":
        return "is not UTF-8; check the encoding of your shell (LC_ALL)"
    if detail["type"] == "string_too_long":
        limit = detail["ctx"]["max_length"]
        return f"has {len(detail['input']):,} characters, and {limit:,} are taken at most"
    if detail["type"] == "string_too_short":
        return "is empty"
    if detail["type"] == "missing":
        return "is missing"
    return detail["msg"]
