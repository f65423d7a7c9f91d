"""Convert errors of the knowledge service, or of the connection to it, to messages with advice.

The client's errors name method and path, for programmers. These messages describe what happened,
with the stable code and the next step.
"""

from __future__ import annotations

import httpx

from kais import labels
from kais_cli import errors
from knowledge_client import errors as knowledge
from knowledge_client.error_codes import ErrorCode


def translate(
    failure: knowledge.KnowledgeError, *, namespace: str, url: str | None
) -> errors.CliError:
    """Return the message and exit status of an error; `url` is KAIS_KNOWLEDGE_URL, if set."""
    if failure.problem is not None:
        return _from_problem(failure, namespace=namespace, is_direct=url is not None)
    return _from_transport_failure(failure, url)


def _from_problem(
    failure: knowledge.KnowledgeError, *, namespace: str, is_direct: bool
) -> errors.CliError:
    detail = _problem_detail(failure)
    if isinstance(failure, knowledge.PrincipalUnregistered):
        return errors.Refused(_unregistered_message(detail, namespace, is_direct=is_direct))
    if isinstance(failure, knowledge.KnowledgeUnavailable):
        detail = f"the knowledge service cannot answer now: {detail}"
    if isinstance(failure, knowledge.UnexpectedAnswer):
        detail = f"the knowledge service failed: {detail}"
    advice = _advice(failure, is_direct=is_direct)
    kind = next(
        (kind for cause, kind in _ERROR_CLASSES if isinstance(failure, cause)), errors.Refused
    )
    return kind("; ".join((detail, advice)) if advice else detail)


_ERROR_CLASSES: tuple[tuple[type[knowledge.KnowledgeError], type[errors.CliError]], ...] = (
    (knowledge.KnowledgeUnavailable, errors.Unreachable),
    (knowledge.InvalidRequest, errors.UsageError),
    (knowledge.TooLarge, errors.UsageError),
)
"""Every other error is a refusal."""


def _advice(failure: knowledge.KnowledgeError, *, is_direct: bool) -> str | None:
    """Return the next step, if the service's message does not contain one."""
    if isinstance(failure, knowledge.ReadTimeout):
        return "ask for less at once"
    if isinstance(failure, knowledge.KnowledgeUnavailable | knowledge.QuotaExceeded):
        after_s = failure.retry_after_s
        return f"try again in {after_s:.0f} s" if after_s else "try again later"
    if isinstance(failure, knowledge.UnexpectedAnswer):
        return "its log says why"
    if isinstance(failure, knowledge.Unauthenticated):
        renewal_advice = "set KNOWLEDGE_TOKEN_FILE to a file with a token of this service"
        return renewal_advice if is_direct else "run it again, with another token"
    if failure.code == ErrorCode.SCOPE_FORBIDDEN:
        return "`kais knowledge stats` lists the scopes that you may see"
    return None


def _problem_detail(failure: knowledge.KnowledgeError) -> str:
    """Return the service's description: the problem, all violations, and the code."""
    problem = failure.problem
    detail = problem.detail if problem else str(failure)
    violations = "; ".join(
        f"{violation.path}: {violation.message}" for violation in failure.violations
    )
    return f"{detail}{f': {violations}' if violations else ''} ({failure.code})"


def _unregistered_message(detail: str, namespace: str, *, is_direct: bool) -> str:
    if is_direct:
        return f"{detail}; the account of this token is to be registered first"
    return (
        f"ServiceAccount/{namespace}/{labels.USER_ACCOUNT} is not registered with the"
        f" knowledge service ({detail}); the operator does that, check that it runs"
    )


def _from_transport_failure(failure: knowledge.KnowledgeError, url: str | None) -> errors.CliError:
    address = f"{url} (KAIS_KNOWLEDGE_URL)" if url else "the forwarded port of the service's pod"
    cause = failure.__cause__
    detail = str(cause) or type(cause).__name__
    if isinstance(cause, httpx.TimeoutException):
        return errors.Unreachable(
            f"no answer from {address} in time; the request may have succeeded;"
            " check before you retry"
        )
    if isinstance(failure, knowledge.KnowledgeUnavailable) and cause is not None:
        return errors.Unreachable(
            f"no answer from {address}: {detail}; check that a knowledge service runs there"
        )
    if isinstance(failure, knowledge.InvalidRequest):
        url_advice = "give an address such as http://127.0.0.1:8000"
        return errors.UsageError(f"{address} is not usable: {detail}; {url_advice}")
    if isinstance(failure, knowledge.Unauthenticated) and isinstance(cause, OSError | ValueError):
        return errors.UsageError(str(failure))
    message = (
        f"{address} did not respond like a knowledge service; is a proxy in between? {failure}"
    )
    is_unavailable = isinstance(failure, knowledge.KnowledgeUnavailable)
    return errors.Unreachable(message) if is_unavailable else errors.Refused(message)
