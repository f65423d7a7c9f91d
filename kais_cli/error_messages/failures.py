"""Translates every exception of a command to the error that the user reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic
import typer

from kais.errors import InvalidResource
from kais_cli import errors
from kais_cli.error_messages import local_cluster
from kais_cluster.errors import ClusterError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NOT_UTF_8 = "is not UTF-8; check the encoding of your shell (LC_ALL)"


def explain(failure: Exception) -> errors.CliError:
    """Return the error, with its message and exit status, for the exception of a command."""
    if isinstance(failure, errors.CliError):
        return failure
    if isinstance(failure, InvalidResource):
        return errors.Refused(format_violations(failure))
    if isinstance(failure, ClusterError):
        return local_cluster.translate(failure)
    if mistake := _mistake_in_arguments(failure):
        return errors.UsageError(mistake)
    return errors.CliError(
        f"unexpected: {type(failure).__name__}: {failure};"
        " run it again with --traceback and report what it shows"
    )


def _mistake_in_arguments(failure: Exception) -> str | None:
    if isinstance(failure, pydantic.ValidationError):  # of a request body built from arguments
        return format_validation_error(failure)
    if isinstance(failure, UnicodeEncodeError) and _is_byte_of_argument(failure):
        return f"an argument {_NOT_UTF_8}"
    return "aborted" if isinstance(failure, typer.Abort) else None


def _is_byte_of_argument(failure: UnicodeEncodeError) -> bool:
    """Return whether the character is a byte that Python could not decode (PEP 383)."""
    return "\udc80" <= failure.object[failure.start] <= "\udcff"


def format_violations(failure: InvalidResource) -> str:
    """Format violations, one on each line below the subject."""
    listed = "".join(f"\n  {violation}" for violation in failure.violations)
    return f"{failure.subject} is not valid:{listed}"


def format_validation_error(failure: pydantic.ValidationError) -> str:
    """Format violations, each after the name of its field."""
    details = failure.errors(include_url=False)
    return "; ".join(
        f"{'.'.join(str(step) for step in d['loc'])}: {_describe_violation(d)}" for d in details
    )


def _describe_violation(detail: ErrorDetails) -> str:
    """Return a message for a terminal, or that of pydantic."""
    if detail["type"] == "string_unicode":
        return _NOT_UTF_8
    if detail["type"] == "string_too_long":
        limit = detail["ctx"]["max_length"]
        return f"has {len(detail['input']):,} characters; the maximum is {limit:,}"
    if detail["type"] == "string_too_short":
        return "is empty"
    if detail["type"] == "missing":
        return "is missing"
    if detail["type"] == "extra_forbidden":
        return "is no field; check the spelling"
    return detail["msg"]
